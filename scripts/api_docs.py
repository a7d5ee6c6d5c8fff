"""Writes docs/reference/api.md from the public packages and their docstrings; run it when a public name changes."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from airflow_hive_acid.faces import GONE_WITH

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "api.md"
#: Packages whose ``__all__`` is the public API.
FACES = (
    "operators", "sensors", "hooks", "triggers", "decorators", "dag_factories", "testing", "metastore", "engine",
    "filesystem", "spark.streaming",
)  # fmt: skip
HEAD = """# API

What is listed here is public: import it from the package named in the heading, as in
`from airflow_hive_acid.operators import HiveAcidOperator`. Everything else may move or change in any release.

A public name that goes is kept for at least two minor releases and six months, whichever is longer, and warns with
`DeprecationWarning` which name to use; a change of what a parameter means comes under a new name. Releases before 1.0
keep to this, too. [The changelog](../../CHANGELOG.md) lists what is deprecated.

Operators, sensors, hooks, triggers, decorators, builders of DAGs, the engine and the stream sink are imported when
they are first used: a DAG file pays for the operators that it names.

This page is made by `python scripts/api_docs.py` from the docstrings.
"""
#: Those whose classes are called by programs; of operators and sensors Airflow is the only caller.
_WITH_METHODS = frozenset({"hooks", "testing", "metastore", "engine", "filesystem"})
_ROLE = re.compile(r":(?:\w+:)?\w+:`~?([^`]+)`")
_FIELD = re.compile(r":(param|return|returns|raises|yields|yield)\s*([^:]*):\s*")


def page() -> str:
    """The text of the page."""
    return HEAD + "".join(_section(room) for room in FACES)


def _section(room: str) -> str:
    package = importlib.import_module(f"airflow_hive_acid.{room}")
    text = f"\n## airflow_hive_acid.{room}\n\n{_text(package)}"
    for name in sorted(package.__all__, key=lambda name: (name.lower(), name)):
        thing = getattr(package, name)
        text += f"\n### {name}\n\n{_entry(thing)}"
        if room in _WITH_METHODS and inspect.isclass(thing):
            text += _methods(thing)
    renamed = getattr(package, "_RENAMED", {})
    if renamed:
        lines = [f"- `{name}`: now `{today}`\n" for name, today in sorted(renamed.items())]
        text += f"\n### Names of before\n\nThey work until release {GONE_WITH}, and warn.\n\n" + "".join(lines)
    return text


def _entry(thing: Any) -> str:
    arguments = _arguments(thing)
    return (f"Arguments: {arguments}.\n\n" if arguments else "") + _text(thing)


def _methods(thing: type) -> str:
    found = [
        (name, inspect.getdoc(member))
        for name, member in inspect.getmembers(
            thing, lambda each: inspect.isfunction(each) or isinstance(each, property)
        )
        if not name.startswith("_") and _module(member).startswith("airflow_hive_acid.")
    ]
    lines = [f"- `{name}`: {_plain(text.partition(chr(10))[0])}" for name, text in found if text]
    return "\nMethods and properties:\n\n" + "\n".join(lines) + "\n" if lines else ""


def _module(member: Any) -> str:
    return str(getattr(member.fget if isinstance(member, property) else member, "__module__", ""))


def _arguments(thing: Any) -> str:
    found = [
        each
        for each in inspect.signature(thing).parameters.values()
        if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL) and not each.name.startswith("_")
    ]
    needed = [f"`{each.name}`" for each in found if each.default is each.empty]
    others = [f"`{each.name}`" for each in found if each.default is not each.empty]
    return "; ".join(part for part in (", ".join(needed), "optional " + ", ".join(others) if others else "") if part)


def _text(thing: Any) -> str:
    lines: list[str] = []
    for paragraph in (inspect.getdoc(thing) or "").split("\n\n"):
        fields: list[str] = []
        for line in paragraph.splitlines():
            if _FIELD.match(line.strip()):
                fields.append(line.strip())
            elif fields:
                fields[-1] += f" {line.strip()}"
            else:
                lines.append(line)
        lines += [_field(each) for each in fields]
        lines.append("")
    return _plain("\n".join(lines)).rstrip() + "\n"


def _field(text: str) -> str:
    found = _FIELD.match(text)
    if found is None:
        raise ValueError(f"not a field of a docstring: {text}")
    kind, name, rest = found[1], found[2].strip(), text[found.end() :]
    if kind == "param":
        return f"- `{name}`: {rest}"
    return f"- {'raises ' + f'`{name}`' if kind == 'raises' else 'returns'}: {rest}"


def _plain(text: str) -> str:
    text = _ROLE.sub(lambda m: f"`{m[1].rpartition('.')[2]}`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"^::$\n?", "", re.sub(r"(?<=\S)::$", ":", text, flags=re.MULTILINE), flags=re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
