"""Job specs and result documents as JSON text, and back.

Either side reads what another process wrote, and a driver runs users' code: what does not fit is a ``ValueError`` that
names the field, whatever the text is, and unknown keys are refused, so that two versions never half-understand each
other.
"""

from __future__ import annotations

import json
import re
import typing
from dataclasses import asdict
from typing import Any, TypeVar

from airflow_hive_acid.format.jobs.plain_values import build, shown
from airflow_hive_acid.format.jobs.results import JobResult
from airflow_hive_acid.format.jobs.specs import SPEC_VERSION, JobSpec

T = TypeVar("T")
_LONGEST_SECONDS = 10**9
_LONGEST_UPLOAD_ID = 4096
_HALF = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")
"""What may be half a character, which no file and no database takes."""


def to_json(document: JobSpec | JobResult) -> str:
    """The document as JSON text, with its version."""
    body = asdict(document)
    if isinstance(document, JobSpec):
        body["step"]["kind"] = document.step.kind
    return json.dumps({"version": SPEC_VERSION, **body}, ensure_ascii=False, separators=(",", ":"))


def spec_from_json(text: str) -> JobSpec:
    """Parse a job spec.

    :raises ValueError: when the text is no spec of this version; names the field.
    """
    return _from_document(JobSpec, text)


def result_from_json(text: str) -> JobResult:
    """Parse a result document.

    :raises ValueError: when the text is no result of this version; names the field.
    """
    result = _from_document(JobResult, text)
    _check(result)
    return result


def _from_document(cls: type[T], text: str) -> T:
    try:
        body = json.loads(text, object_pairs_hook=_once_each)
        if _HALF.search(text) is not None:
            json.dumps(body, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError(f"{cls.__name__} is nested too deeply") from None
    except UnicodeEncodeError as error:
        raise ValueError(f"{cls.__name__} holds half a character (a surrogate), at {error.start}") from None
    if not isinstance(body, dict):
        raise ValueError(f"{cls.__name__} must be an object, not {shown(body)}")
    version = body.pop("version", None)
    if type(version) is not int or version != SPEC_VERSION:
        raise ValueError(
            f"{cls.__name__} of version {shown(version)}; this side understands {SPEC_VERSION}. "
            "Run the same release of airflow-hive-acid on both sides."
        )
    return typing.cast(T, build(cls, body, cls.__name__))


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the field {shown(next(n for n in names if names.count(n) > 1))} is there twice")
    return found


def _check(result: JobResult) -> None:
    """What no type says: counts are not negative, and names are names, which lead nowhere else."""
    if not 0 <= result.seconds < _LONGEST_SECONDS:
        raise ValueError(f"JobResult.seconds must be a time, not {shown(result.seconds)}")
    for what, count in (("rows", result.rows), *result.counts().items()):
        _check_count(f"JobResult.{what}", count)
    for i, directory in enumerate(result.directories):
        where = f"JobResult.directories[{i}]"
        _check_name(f"{where}.name", directory.name)
        for part in directory.partition.split("/") if directory.partition else ():
            _check_name(f"{where}.partition", part)
        for file in directory.files:
            _check_name(f"{where}.files.name", file.name)
            for part in file.staged.split("/") if file.staged else ():
                _check_name(f"{where}.files.staged", part)
            if len(file.upload) > _LONGEST_UPLOAD_ID or "\0" in file.upload:
                raise ValueError(f"{where}.files.upload must be the id of an upload, not {shown(file.upload)}")
            _check_count(f"{where}.files.rows", file.rows)
            _check_count(f"{where}.files.bytes", file.bytes)


def _check_count(where: str, count: int) -> None:
    if not 0 <= count < 1 << 63:
        raise ValueError(f"{where} must be a count, not {shown(count)}")


def _check_name(where: str, name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{where} must be a name, not {shown(name)}")
