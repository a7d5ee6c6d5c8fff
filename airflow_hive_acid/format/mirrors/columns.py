"""How the columns of a mirror follow those of its source.

Hive's columns are known by their position: a column with another name in the same place is the same column, renamed;
what is added stands at the end. A type may grow where every old value is one of the new type and both Iceberg and Spark
agree on it. Everything else makes another table, which is copied again. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SMALL = ("tinyint", "smallint", "int", "bigint")
_SAME = {"integer": "int", "double precision": "double", "dec": "decimal", "numeric": "decimal"}
_ARGUMENTS = re.compile(r"([a-z ]+?)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """One change of a target's columns.

    :param name: what the column is called afterwards.
    :param type: its Hive type afterwards.
    :param before: what it was called before; None for a column that is added.
    :param widened: whether its type grows.
    """

    name: str
    type: str
    before: str | None = None
    widened: bool = False

    @property
    def is_added(self) -> bool:
        """Whether it was not there before."""
        return self.before is None

    @property
    def is_renamed(self) -> bool:
        """Whether it had another name."""
        return self.before is not None and self.before != self.name


def column_steps(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> tuple[ColumnStep, ...] | None:
    """What takes a target from the columns before to those after.

    :return: in order; nothing when they are the same; None when the target cannot follow.
    """
    if len(after) < len(before):
        return None
    steps = []
    for (old, old_type), (new, new_type) in zip(before, after, strict=False):
        widened = _canonical(old_type) != _canonical(new_type)
        if widened and not _grows(_canonical(old_type), _canonical(new_type)):
            return None
        if widened or old != new:
            steps.append(ColumnStep(new, new_type, old, widened))
    # A name that one column gives up and another one takes would be in the way for a moment: that is another table.
    olds = {old for old, _ in before}
    if any(step.is_renamed and step.name in olds for step in steps):
        return None
    added = after[len(before) :]
    if any(name in olds for name, _ in added):
        return None
    return (*steps, *(ColumnStep(name, kind) for name, kind in added))


def may_become(there: Iterable[str], steps: Sequence[ColumnStep], wanted: Iterable[str]) -> bool:
    """Whether steps take a target to its columns, of which a run that died may have made some already.

    If the source's columns have changed once more since, what such a run has made may be in the way, or be taken for
    another column.

    :param there: names of the target's columns now.
    :param wanted: names of those that it shall have.
    """
    names = set(there)
    for step in steps:
        if step.is_added:
            names.add(step.name)
        elif step.is_renamed and step.name not in names:
            if step.before not in names:
                return False
            names = names - {step.before} | {step.name}
    return names == set(wanted)


def _canonical(kind: str) -> str:
    text = kind.strip().lower()
    found = _ARGUMENTS.fullmatch(text)
    if found is None:
        text = _SAME.get(text, text)
        return "decimal(10,0)" if text == "decimal" else text
    name = _SAME.get(found[1], found[1])
    if name == "decimal":
        return f"decimal({found[2]},{found[3] or 0})"
    return f"{name}({found[2]})"


def _grows(old: str, new: str) -> bool:
    """Whether every value of the old type is one of the new, in files that nobody rewrites."""
    if old in _SMALL and new in _SMALL:
        return _SMALL.index(old) < _SMALL.index(new)
    if (old, new) == ("float", "double"):
        return True
    olds, news = _ARGUMENTS.fullmatch(old), _ARGUMENTS.fullmatch(new)
    old_name, new_name = olds[1] if olds else old, news[1] if news else new
    if olds and news and old_name == new_name == "decimal":
        return int(news[2]) > int(olds[2]) and news[3] == olds[3]
    # Targets know texts only: a length is the source's business, as long as no value changes with it.
    if old_name in ("varchar", "string") and new_name == "string":
        return True
    if old_name == new_name == "varchar" and olds and news:
        return int(news[2]) > int(olds[2])
    return False
