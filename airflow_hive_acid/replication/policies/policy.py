"""Replication policies: which tables go from which site to which other, under which names, and when.

Different objects may go in different directions ("unidirectional per object" in HiveReplicationDevelopment), so a site
is primary of some tables and replica of others. What must not be is that two policies write one table, or that a table
comes back to where it came from: both are refused before anything runs.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.names import TableName, database_name
from airflow_hive_acid.replication.policies.privileges import PrivilegeMode

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

MAX_NAME = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PART = re.compile(r"[a-z0-9_*]+")
_FIELDS = (
    "name", "source", "destination", "databases", "tables", "exclude", "rename", "schedule", "bootstrap", "event_store",
    "task_factory", "staging", "privileges",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pattern:
    """Tables by name, ``*`` for any characters; lower-case."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    def matches(self, table: TableName) -> bool:
        """Whether a table is among them."""
        return _matches(self.database, table.database) and _matches(self.table, table.name)

    def covers(self, other: Pattern) -> bool:
        """Whether every table of the other is among them; a "no" may be wrong for patterns with many stars."""
        # The star of the other is a character that only a star of ours matches.
        return _matches(self.database, other.database) and _matches(self.table, other.table)

    def meets(self, other: Pattern) -> bool:
        """Whether a table could be among both."""
        return _meet(self.database, other.database) and _meet(self.table, other.table)


@dataclass(frozen=True, slots=True)
class Policy:
    """What is replicated, from where, to where; made by :func:`policy`.

    :param name: of the policy; txns and positions at the destination are kept under it, so it never changes.
    :param source: connection of the primary, ``destination`` of the replica.
    :param tables: what is replicated, ``exclude`` what of it is not.
    :param rename: names of databases at the destination by those at the source; others keep theirs.
    :param schedule: of its own DAG: a cron expression, one of Airflow's presets, or ``never``; None for the
        schedule that all have in common.
    :param bootstrap: whether the first copy is made by itself; otherwise a person has to ask for it.
    :param event_store: directory or URI in which events of the source are kept longer than the source keeps them.
    :param task_factory: dotted path or entry point of another task factory.
    :param staging: directory or URI for dumps, which both sites reach; by default one of the source's warehouse.
    :param privileges: what is done about roles, owners and privileges: ``none``, ``follow`` or ``mirror``.
    """

    name: str
    source: str
    destination: str
    tables: tuple[Pattern, ...]
    exclude: tuple[Pattern, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    schedule: str | None = None
    bootstrap: bool = True
    event_store: str | None = None
    task_factory: str | None = None
    staging: str | None = None
    privileges: PrivilegeMode = PrivilegeMode.NONE

    def selects(self, table: TableName) -> bool:
        """Whether a table of the source is replicated."""
        return any(p.matches(table) for p in self.tables) and not any(p.matches(table) for p in self.exclude)

    def touches(self, database: str) -> bool:
        """Whether tables of a database of the source may be replicated."""
        return any(_matches(p.database, database) for p in self.tables)

    def owns(self, database: str) -> bool:
        """Whether all tables of a database of the source are replicated, so that it may be dropped as a whole."""
        whole = any(p.table == "*" and _matches(p.database, database) for p in self.tables)
        return whole and not any(_matches(p.database, database) for p in self.exclude)

    def target_database(self, database: str) -> str:
        """Name of a source's database at the destination."""
        return self.rename.get(database, database)

    def target(self, table: TableName) -> TableName:
        """Name of a source's table at the destination."""
        return TableName(self.target_database(table.database), table.name)

    def to_document(self) -> dict[str, Any]:
        """As a file holds it; :func:`policy` reads it again."""
        document: dict[str, Any] = {
            "name": self.name,
            "source": self.source,
            "destination": self.destination,
            "tables": [str(p) for p in self.tables],
        }
        if self.exclude:
            document["exclude"] = [str(p) for p in self.exclude]
        if self.rename:
            document["rename"] = dict(self.rename)
        document |= {k: v for k in _FIELDS[7:-1] if (v := getattr(self, k)) is not None}
        document["privileges"] = self.privileges.value
        return document


# --- reading --------------------------------------------------------------------------------------------------------


def policy(document: Mapping[str, Any], where: str = "") -> Policy:
    """Read a policy.

    :param document: ``name``, ``source``, ``destination``, ``databases`` and/or ``tables`` (with ``*``), and if wanted
        ``exclude``, ``rename``, ``schedule``, ``bootstrap``, ``event_store``, ``task_factory`` and ``staging``.
    :param where: it stands, for messages.
    :raises InvalidArgumentsError: naming the policy, the field and the remedy.
    """
    if not isinstance(document, dict):
        raise InvalidArgumentsError(
            f"{where}a replication policy must be a table of fields such as name, source and destination, not "
            f"{type(document).__name__}"
        )
    name = document.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise InvalidArgumentsError(
            f"{where}name {name!r}: a replication policy is named by at most {MAX_NAME} letters, digits, _ and -, and "
            "begins with a letter or digit"
        )
    reader = _Reader(document, f"{where}replication policy {name!r}: ")
    reader.refuse_unknown()
    patterns = [Pattern(p, "*") for p in reader.names("databases")] + reader.patterns("tables")
    if not patterns:
        reader.fail("tables", "names nothing: give databases ['sales'] or tables ['sales.*', 'hr.people']")
    found = Policy(
        name=name,
        source=reader.required("source"),
        destination=reader.required("destination"),
        tables=tuple(dict.fromkeys(patterns)),
        exclude=tuple(dict.fromkeys(reader.patterns("exclude"))),
        rename=reader.renames(),
        schedule=reader.optional("schedule"),
        bootstrap=reader.flag("bootstrap", default=True),
        event_store=reader.optional("event_store"),
        task_factory=reader.optional("task_factory"),
        staging=reader.optional("staging"),
        privileges=reader.mode("privileges"),
    )
    for old in found.rename:
        if not found.touches(old):
            reader.fail("rename", f"names database {old!r}, of which nothing is replicated; add it to databases")
    if found.source == found.destination:
        _refuse_onto_itself(found, reader)
    return found


def policies(documents: Iterable[Mapping[str, Any]], where: str = "") -> tuple[Policy, ...]:
    """Read policies that are in force together.

    :raises InvalidArgumentsError: also when two have one name, write one table, or send tables round in a circle.
    """
    if isinstance(documents, str | bytes | dict) or not hasattr(documents, "__iter__"):
        raise InvalidArgumentsError(f"{where}replication policies must be a list of policies")
    found = tuple(policy(document, where) for document in documents)
    check_together(found)
    return found


def read_policies(text: str, where: str) -> tuple[Policy, ...]:
    """Policies from JSON (a list of them, or an object with a list ``policy``), or from TOML (``[[policy]]``).

    :param where: what the text is, for messages.
    :raises InvalidArgumentsError: naming the place.
    """
    try:
        document = json.loads(text) if text.lstrip()[:1] in ("[", "{") and not _is_toml(text) else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentsError(f"{where}: neither JSON nor TOML: {error}") from None
    if isinstance(document, dict):
        extra = sorted(set(document) - {"policy"})
        if extra or not isinstance(document.get("policy", []), list):
            raise InvalidArgumentsError(
                f"{where}: policies are a list, or stand under [[policy]]; found {', '.join(extra) or 'no list'}"
            )
        document = document.get("policy", [])
    return policies(document, f"{where}: ")


def read_policy_file(path: Path) -> tuple[Policy, ...]:
    """Policies of a file.

    :raises InvalidArgumentsError: when it cannot be read; names it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentsError(f"replication policies cannot be read: {error}") from None
    return read_policies(text, str(path))


def named(found: Sequence[Policy], name: str) -> Policy:
    """The policy of a name.

    :raises InvalidArgumentsError: when there is none; names those that are spelt like it.
    """
    for one in found:
        if one.name == name:
            return one
    near = difflib.get_close_matches(name, [one.name for one in found], n=1)
    known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(p.name for p in found) or 'none'}"
    raise InvalidArgumentsError(f"there is no replication policy {name!r}; {known}")


class _Reader:
    """Fields of one policy, each checked with the message that names it."""

    def __init__(self, document: Mapping[str, Any], what: str) -> None:
        self._document = document
        self._what = what

    def fail(self, key: str, why: str) -> None:
        raise InvalidArgumentsError(f"{self._what}{key} {why}")

    def refuse_unknown(self) -> None:
        for key in self._document:
            if key not in _FIELDS:
                near = difflib.get_close_matches(str(key), _FIELDS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_FIELDS)}"
                raise InvalidArgumentsError(f"{self._what}unknown field {key!r}; {hint}")

    def required(self, key: str) -> str:
        value = self.optional(key)
        if value is None:
            raise InvalidArgumentsError(f"{self._what}{key} is missing; name a connection of type hive_acid")
        return value

    def optional(self, key: str) -> str | None:
        value = self._document.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise InvalidArgumentsError(f"{self._what}{key} must be text that is not empty, not {value!r}")
        return value.strip()

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._document.get(key, default)
        if not isinstance(value, bool):
            raise InvalidArgumentsError(f"{self._what}{key} must be true or false, not {value!r}")
        return value

    def mode(self, key: str) -> PrivilegeMode:
        value = self._document.get(key, PrivilegeMode.NONE.value)
        known = [mode.value for mode in PrivilegeMode]
        if value not in known:
            raise InvalidArgumentsError(f"{self._what}{key} must be one of {', '.join(known)}, not {value!r}")
        return PrivilegeMode(value)

    def _list(self, key: str) -> list[str]:
        value = self._document.get(key, [])
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise InvalidArgumentsError(f"{self._what}{key} must be a list of names, not {value!r}")
        return [item.strip().lower() for item in items]

    def names(self, key: str) -> list[str]:
        names = self._list(key)
        for name in names:
            if not _PART.fullmatch(name):
                raise InvalidArgumentsError(
                    f"{self._what}{key} has {name!r}: a database is named by letters, digits and _, with * for any of "
                    "them; tables stand under tables, as 'db.table'"
                )
        return names

    def patterns(self, key: str) -> list[Pattern]:
        found = []
        for text in self._list(key):
            parts = text.split(".")
            if len(parts) != 2 or not all(_PART.fullmatch(part) for part in parts):
                raise InvalidArgumentsError(
                    f"{self._what}{key} has {text!r}: write database.table, with * for any characters, as 'sales.*'"
                )
            found.append(Pattern(*parts))
        return found

    def renames(self) -> dict[str, str]:
        value = self._document.get("rename", {})
        if not isinstance(value, dict) or not all(isinstance(x, str) for pair in value.items() for x in pair):
            raise InvalidArgumentsError(
                f"{self._what}rename must give the destination's name of databases, as {{'sales': 'sales_copy'}}, not "
                f"{value!r}"
            )
        found: dict[str, str] = {}
        try:
            for old, new in value.items():
                found[database_name(old)] = database_name(new)
        except InvalidArgumentsError as error:
            raise InvalidArgumentsError(f"{self._what}rename: {error}") from None
        if len(set(found.values())) < len(found):
            self.fail("rename", "gives two databases one name; each database needs one of its own")
        return found


def _is_toml(text: str) -> bool:
    return text.lstrip().startswith("[[")


def _refuse_onto_itself(found: Policy, reader: _Reader) -> None:
    written, read = list(_written(found)), list(found.tables)
    if any(w.pattern.meets(r) for w in written for r in read):
        reader.fail(
            "destination",
            "is the source, and tables would be written onto themselves; give each database another name by rename, or "
            "another connection",
        )


# --- policies together ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Written:
    """A part of what a policy writes: names at the destination, and what of it is excluded."""

    policy: Policy
    pattern: Pattern
    without: tuple[Pattern, ...]


def check_together(found: Sequence[Policy]) -> None:
    """Refuse policies that cannot be in force together.

    :raises InvalidArgumentsError: naming both and what they have in common.
    """
    seen: dict[str, Policy] = {}
    for one in found:
        # Names become names of files and tasks, which some systems compare without case.
        if one.name.lower() in seen:
            raise InvalidArgumentsError(
                f"two replication policies are named {one.name!r}; positions are kept under the name, so give each its "
                "own"
            )
        seen[one.name.lower()] = one
    for number, one in enumerate(found):
        for other in found[:number]:
            if one.destination == other.destination and (both := _common(_written(one), _written(other))):
                raise InvalidArgumentsError(
                    f"replication policies {other.name!r} and {one.name!r} both write {both} at {one.destination}; a "
                    "table is written by one policy: take it out of one of them, by exclude or another rename"
                )
    circle = _circle(found)
    if circle:
        raise InvalidArgumentsError(
            f"replication policies {' -> '.join(p.name for p in circle)} send tables round in a circle, so each would "
            "be a copy of itself; a table goes one way only: take it out of one of them"
        )


def _written(one: Policy) -> tuple[_Written, ...]:
    """What a policy writes, by the names of the destination."""
    parts = []
    for pattern in one.tables:
        renamed = [old for old in one.rename if _matches(pattern.database, old)]
        for old in renamed:
            without = tuple(Pattern(one.rename[old], x.table) for x in one.exclude if _matches(x.database, old))
            parts.append(_Written(one, Pattern(one.rename[old], pattern.table), without))
        if pattern.database in one.rename:
            continue
        gone = tuple(Pattern(old, "*") for old in renamed)
        parts.append(_Written(one, pattern, (*one.exclude, *gone)))
    return tuple(parts)


def _read(one: Policy) -> tuple[_Written, ...]:
    return tuple(_Written(one, pattern, one.exclude) for pattern in one.tables)


def _common(first: Iterable[_Written], second: Iterable[_Written]) -> str | None:
    """What two sets of tables have in common; patterns of which it cannot be told count as in common."""
    others = list(second)
    for a in first:
        for b in others:
            if not a.pattern.meets(b.pattern):
                continue
            narrow = a.pattern if b.pattern.covers(a.pattern) else b.pattern
            if not any(x.covers(narrow) for x in (*a.without, *b.without)):
                return str(narrow)
    return None


def _circle(found: Sequence[Policy]) -> list[Policy]:
    """Policies that feed each other in a circle; empty when there is none."""
    feeds = {
        i: [j for j, q in enumerate(found) if p.destination == q.source and _common(_written(p), _read(q))]
        for i, p in enumerate(found)
    }
    done: set[int] = set()

    def visit(i: int, path: list[int]) -> list[int]:
        if i in path:
            return [*path[path.index(i) :], i]
        if i in done:
            return []
        for j in feeds[i]:
            circle = visit(j, [*path, i])
            if circle:
                return circle
        done.add(i)
        return []

    for i in feeds:
        circle = visit(i, [])
        if circle:
            return [found[j] for j in circle]
    return []


# --- names with stars -----------------------------------------------------------------------------------------------


def _matches(pattern: str, text: str) -> bool:
    pieces = pattern.split("*")
    if len(pieces) == 1:
        return pattern == text
    if not text.startswith(pieces[0]):
        return False
    at = len(pieces[0])
    for piece in pieces[1:-1]:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(text) - at >= len(pieces[-1]) and text.endswith(pieces[-1])


def _meet(a: str, b: str) -> bool:
    """Whether some text matches both patterns."""
    reached = {(0, 0)}
    waiting = [(0, 0)]
    while waiting:
        i, j = waiting.pop()
        steps = []
        if i < len(a) and a[i] == "*":
            steps.append((i + 1, j))
            if j < len(b):
                steps.append((i, j + 1))
        if j < len(b) and b[j] == "*":
            steps.append((i, j + 1))
            if i < len(a):
                steps.append((i + 1, j))
        if i < len(a) and j < len(b) and a[i] == b[j] != "*":
            steps.append((i + 1, j + 1))
        for step in steps:
            if step not in reached:
                reached.add(step)
                waiting.append(step)
    return (len(a), len(b)) in reached
