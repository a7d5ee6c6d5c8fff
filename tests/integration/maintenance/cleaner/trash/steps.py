"""What tests of the trash do and look at."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.maintenance import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind
from tests.integration.maintenance.cycles.steps import pass_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient


class Killed(BaseException):
    """As if the process had been killed."""


def lines(client: MetastoreClient, table: Any) -> list[str]:
    with client.snapshot([table.name]) as snapshot:
        return list(table.read(snapshot))


def below(fs: Filesystem, place: str) -> list[str]:
    """Names of the ACID directories below a place, at any depth."""
    if not fs.exists(place):
        return []
    return sorted(i.name for i in fs.list_files(place, recursive=True) if i.name.startswith(("base", "delta", "del")))


def breaking_at_the_second(rename: Any, failure: BaseException) -> Any:
    """Renaming as a process does that breaks off at its second step."""
    done: list[str] = []

    def breaking(self: Any, source: str, target: str) -> None:
        done.append(source)
        if len(done) == 2:
            raise failure
        rename(self, source, target)

    return breaking


@contextmanager
def no_space_for_the_second(fs: Filesystem, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first directory can be renamed, the second one cannot."""
    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "rename", breaking_at_the_second(type(fs).rename, OSError("No space left on device")))
        yield


def clean(client: MetastoreClient, fs: Filesystem) -> Any:
    pass_time(client)
    (outcome,) = run_cleaner(client, fs)
    assert outcome.kind is Kind.CLEANED, outcome
    return outcome
