"""The states of mirrors, and what is to be done next.

The target carries the state of the source that it holds: the source's write ids, in the text that Hive exchanges, and
what the table looked like then. A state ends at a write id up to which all have ended, so it is the same for everybody
who looks later. The decisions are pure: the state in the target and the source as an open reader sees it in, what to do
out. Both sides, the control plane and the Spark job, decide by the same function.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.mirrors.columns import ColumnStep, column_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

HIDDEN = ("_hive_acid_writeid", "_hive_acid_bucket", "_hive_acid_rowid")
"""Columns of a target without a key: the row's id in the source (ROW__ID)."""
STATE_PROPERTY = "hive-acid.mirror.state"
"""Where a target keeps the whole state, as JSON."""
WRITE_IDS_PROPERTY = "hive-acid.mirror.write-ids"
"""Where each commit of a target names the source's write ids, for people and programs."""
SEQUENCE_PROPERTY = "hive-acid.mirror.sequence"
"""Where each commit of a target names the number of the state it made."""
_VERSION = 1


def checked_key(key: object) -> tuple[str, ...] | None:
    """The key columns of a mirror, in lower case; None: as they were before.

    :raises InvalidArgumentsError: for what is no list of names, and a name given twice.
    """
    if key is None:
        return None
    names = [key] if isinstance(key, str) else key
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) and n.strip() for n in names):
        raise InvalidArgumentsError(f"key must be names of columns, not {key!r}")
    lower = tuple(n.strip().lower() for n in names)
    if len(set(lower)) < len(lower):
        raise InvalidArgumentsError(f"key names a column twice: {', '.join(lower)}")
    return lower


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A source table as an open reader sees it.

    :param table: ``db.table``.
    :param table_id: the catalog's id: a table that was dropped and made again has another one.
    :param columns: name and Hive type of the data columns; ``partition_columns`` of the others.
    :param write_id: all write ids up to this one have ended.
    :param write_ids: the text of its list of valid write ids up to there.
    :param rebalanced: id of the newest rebalancing compaction, which gives rows other ids; 0: none.
    :param newest_partition: the largest id of a partition, 0 for none.
    :param partitions: digest of which partitions there are.
    :param moved: digest of the partitions that lie elsewhere than their names say.
    :param insert_only: rows have no ids.
    """

    table: str
    table_id: int
    columns: tuple[tuple[str, str], ...]
    partition_columns: tuple[tuple[str, str], ...]
    write_id: int
    write_ids: str
    rebalanced: int = 0
    newest_partition: int = 0
    partitions: str = ""
    moved: str = ""
    insert_only: bool = False

    def to_document(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> SourceTable:
        """The inverse of :meth:`to_document`, also of what JSON has made of it."""
        pairs = {name: _pairs(document[name]) for name in ("columns", "partition_columns")}
        return cls(**{**document, **pairs})


@dataclass(frozen=True, slots=True)
class MirrorState:
    """What a target holds of its source.

    :param source: the table as it was.
    :param key: the key columns; none: rows are known by their ROW__ID.
    :param sequence: number of this state, one more than that of the state before.
    :param event: the source's latest event then, and when it was written: its log is known again by that. None: there
        was none.
    """

    source: SourceTable
    key: tuple[str, ...]
    sequence: int
    event: tuple[int, int] | None = None

    @property
    def write_id(self) -> int:
        """Up to which write id of the source the target has everything."""
        return self.source.write_id

    def holds_the_same(self, other: MirrorState) -> bool:
        """Whether it is of the same state of the source; that may have written events meanwhile of other things."""
        return replace(self, event=None) == replace(other, event=None)

    def to_text(self) -> str:
        """As one line of JSON, for the target's metadata and for our record."""
        document = {
            "version": _VERSION,
            "source": self.source.to_document(),
            "key": list(self.key),
            "sequence": self.sequence,
        }
        # Beside the source, where a release that knows nothing of it leaves it alone.
        if self.event is not None:
            document["event"] = list(self.event)
        return json.dumps(document, sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> MirrorState:
        """Read what :meth:`to_text` has written.

        :raises InvalidArgumentsError: when somebody else has written it, or a newer release.
        """
        try:
            document = json.loads(text)
            if document["version"] != _VERSION:
                raise ValueError
            source, key = SourceTable.from_document(document["source"]), tuple(document["key"])
            return cls(source, key, int(document["sequence"]), event_of(document.get("event")))
        except (KeyError, TypeError, ValueError):
            shown = text if len(text) <= 100 else text[:100] + "…"
            raise InvalidArgumentsError(f"{shown!r} is no state of a mirror that this release reads") from None


class Todo(Enum):
    """What a mirror needs."""

    NOTHING = "nothing"
    FOLLOW = "follow"
    BOOTSTRAP = "bootstrap"


@dataclass(frozen=True, slots=True)
class MirrorDecision:
    """What to do, and why.

    :param first: the first write id whose changes are applied, and ``last`` the last one.
    :param steps: what becomes of the target's columns first.
    :param partitions_changed: partitions have come or gone by no write id: the target's are compared with them.
    """

    todo: Todo
    reason: str
    first: int = 0
    last: int = 0
    steps: tuple[ColumnStep, ...] = ()
    partitions_changed: bool = False


def decide(
    state: MirrorState | None,
    source: SourceTable,
    key: Sequence[str] | None,
    *,
    again: bool = False,
    other_log: bool = False,
) -> MirrorDecision:
    """What a mirror needs now.

    :param state: of the target; None: it has none.
    :param key: the key that is wanted; None: as before.
    :param again: somebody wants it copied again.
    :param other_log: the state's event is not in the source's log: its write ids may be of other rows by now.
    """
    if state is None:
        return _bootstrap("the target holds nothing yet")
    why = "it was asked for" if again else _cannot_follow(state, source, key)
    if other_log and not why:
        why = f"the source is another metastore than it was at write id {state.write_id}, or was restored from a backup"
    if why:
        return _bootstrap(why)
    steps = column_steps(state.source.columns, source.columns)
    # Files without row ids may be read by the names of their columns, and text has no types: nobody knows here what
    # rows that are there read as now.
    if steps is None or (source.insert_only and not all(step.is_added for step in steps)):
        return _bootstrap(
            f"the columns have changed from {_shown(state.source.columns)} to {_shown(source.columns)}, "
            "which the target cannot follow in place"
        )
    changed = state.source.partitions != source.partitions
    if state.write_id >= source.write_id and not steps and not changed:
        return MirrorDecision(Todo.NOTHING, f"the target has everything up to write id {state.write_id}")
    return MirrorDecision(
        Todo.FOLLOW,
        f"write ids {state.write_id + 1} to {source.write_id}"
        if source.write_id > state.write_id
        else "only the definition has changed",
        state.write_id + 1,
        source.write_id,
        steps,
        changed,
    )


def _cannot_follow(state: MirrorState, source: SourceTable, key: Sequence[str] | None) -> str:
    before = state.source
    if before.table != source.table:
        # A rename keeps the table and its rows; the state says which table it is by id.
        if before.table_id != source.table_id:
            return f"the target holds {before.table}"
    elif before.table_id != source.table_id:
        return f"{source.table} was dropped and made again"
    if key is not None and tuple(key) not in (state.key, key_now(state, source)):
        return f"the key was {', '.join(state.key) or 'ROW__ID'}, and is to be {', '.join(key) or 'ROW__ID'}"
    if before.partition_columns != source.partition_columns:
        return "the partition columns have changed"
    if before.write_id > source.write_id:
        return f"the target has write id {before.write_id}, and the source knows only {source.write_id}"
    if before.moved != source.moved:
        return "a partition was moved to another place, or one lies elsewhere than its name says"
    if not state.key and before.rebalanced != source.rebalanced:
        return "a rebalancing compaction has given the rows other ids"
    if before.insert_only != source.insert_only:
        return "the table has become another kind of ACID table"
    return ""


def _bootstrap(reason: str) -> MirrorDecision:
    return MirrorDecision(Todo.BOOTSTRAP, reason)


def next_state(
    source: SourceTable, key: Iterable[str], before: int, event: tuple[int, int] | None = None
) -> MirrorState:
    """The state that a commit brings about.

    :param before: the largest sequence number known of the target.
    :param event: the source's latest event, and when it was written.
    """
    return MirrorState(source, tuple(key), before + 1, event)


def event_of(values: Sequence[int] | None) -> tuple[int, int] | None:
    """The id and the time of an event, of what JSON has made of them."""
    if values is None:
        return None
    event_id, time = values
    return int(event_id), int(time)


def key_now(state: MirrorState, source: SourceTable) -> tuple[str, ...]:
    """What the key columns of a state are called now; Hive's columns are known by their position."""
    if state.source.table_id != source.table_id:
        return state.key
    pairs = zip(state.source.columns, source.columns, strict=False)
    names = {before: after for (before, _), (after, _) in pairs}
    return tuple(names.get(name, name) for name in state.key)


def partition_digests(partitions: Iterable[tuple[int, str, str]], location: str) -> tuple[int, str, str]:
    """The largest id, the digest of all ids and names, and that of the places of those that lie elsewhere.

    :param partitions: id, name and location of each.
    :param location: of the table.
    """
    newest, root = 0, location.rstrip("/")
    all_of_them, elsewhere = [], []
    for id_, name, place in partitions:
        newest = max(newest, id_)
        all_of_them.append(f"{id_} {name}")
        if place.rstrip("/") != f"{root}/{name}":
            elsewhere.append(f"{id_} {place}")
    return newest, _digest(all_of_them), _digest(elsewhere)


def made_since(before: SourceTable, ids: Mapping[str, int], altered: Mapping[str, int]) -> set[str]:
    """Names of partitions that may not be what a target has under these names.

    A larger id is of a partition made since. When one that was there is not any more, it was dropped, or renamed, and
    then others may bear its name, and their rows came with no write id: a rename is noted in the catalog as what has
    altered a partition last.

    :param before: the source at the target's state.
    :param ids: by name, the id of each partition now.
    :param altered: by name, the write id that has written or altered it last, where that is known.
    """
    old = {name: id_ for name, id_ in ids.items() if id_ <= before.newest_partition}
    new = ids.keys() - old.keys()
    if _digest([f"{id_} {name}" for name, id_ in old.items()]) == before.partitions:
        return new
    return new | {name for name in old if altered.get(name, before.write_id + 1) > before.write_id}


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32] if lines else ""


def _pairs(values: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(kind)) for name, kind in values)


def _shown(columns: Iterable[tuple[str, str]]) -> str:
    text = ", ".join(f"{name} {kind}" for name, kind in columns)
    return f"({text})" if len(text) <= 200 else f"({text[:200]}…)"
