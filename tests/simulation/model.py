"""What must be true after each step, told by a model that knows nothing of the product: sets of rows.

A row is ``(write id, number)``. The model learns from the database alone how a txn ended: it looks after each commit.
What a reader would find now is computed from the raw rows of TXNS and TXN_TO_WRITE_ID, as a real Hive would, and from
the files as they lie there; both must be equal at every moment.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.names import is_hidden
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

from .rows import Place, Row, deletes_of, rows_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from .memory import MemoryFilesystem, Node


_STATES = (
    "SELECT NWI_DATABASE || '.' || NWI_TABLE, NWI_NEXT - 1 FROM NEXT_WRITE_ID ORDER BY 1",
    "SELECT T2W_DATABASE || '.' || T2W_TABLE, T2W_WRITEID, TXN_STATE FROM TXN_TO_WRITE_ID "
    "JOIN TXNS ON T2W_TXNID = TXN_ID WHERE TXN_STATE <> 'c' ORDER BY 1, 2",
    "SELECT TXN_ID, TXN_STATE FROM TXNS WHERE TXN_STATE <> 'c' ORDER BY 1",
)
_LOCKS = "SELECT HL_LOCK_TYPE FROM HIVE_LOCKS WHERE HL_DB = ? AND HL_TABLE = ? AND HL_LOCK_STATE = 'a'"
_TABLES = (
    "SELECT TBL_ID, NAME || '.' || TBL_NAME, LOCATION FROM TBLS JOIN DBS ON TBLS.DB_ID = DBS.DB_ID "
    "JOIN SDS ON TBLS.SD_ID = SDS.SD_ID"
)
_PARTITIONS = "SELECT PART_NAME, PART_ID FROM PARTITIONS"
_ENDED = "SELECT TXN_ID FROM TXNS WHERE TXN_STATE = 'c'"
_LEASE = "SELECT COUNT(*) FROM HIVE_LEASE WHERE LEASE_ID = ? AND END_UTC > ?"
_OTHERS = (
    "SELECT LEASE_ID FROM HIVE_LEASE WHERE DB_NAME = ? AND TABLE_NAME = ? AND PARTITION_NAME IN ('', ?) "
    "AND END_UTC > ? AND LEASE_ID <> ?"
)


class Violated(AssertionError):
    """Something that must not happen has happened."""


@dataclass(frozen=True)
class Change:
    """What a txn wants to do to one place.

    :param everything: it deletes whatever is there when it commits.
    """

    adds: frozenset[Row]
    deletes: frozenset[Row]
    everything: bool = False

    def then(self, later: Change) -> Change:
        """This and a later one of the same txn, which may delete what this one has added."""
        if later.everything:
            return later
        return Change(self.adds - later.deletes | later.adds, self.deletes | later.deletes - self.adds, self.everything)


@dataclass(frozen=True)
class Author:
    """Who wants it: what all tries of one statement have in common, and the lease under which it is done.

    :param waits_for_leases: whether what it does has to wait for those of others.
    :param member: of a txn of several tasks, which task; what an earlier attempt of that has done does not count.
    :param attempt: of the member; they count up.
    """

    tag: str
    lease_id: int | None = None
    waits_for_leases: bool = True
    member: str = ""
    attempt: int = 0


@dataclass
class Model:
    """Rows of all places, as committed txns have left them.

    :param places: all there were; new tables are added.
    :param tables: name and directory by key, for these.
    """

    raw: sqlite3.Connection
    fs: MemoryFilesystem
    places: list[Place]
    tables: dict[str, tuple[str, str]]
    pending: dict[int, dict[str, dict[Place, Change]]] = field(default_factory=dict)
    committed: dict[int, dict[Place, Change]] = field(default_factory=dict)
    authors: dict[int, Author] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    newest_txn: int = 0
    checks: int = 0
    now: Callable[[], int] = lambda: 0
    _states: tuple[Any, ...] = ((), (), ())
    _there: set[str] = field(default_factory=set)
    _partitions: dict[str, int] = field(default_factory=dict)
    _ended: set[int] = field(default_factory=set)
    _attempts: dict[tuple[int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._look_at_tables()
        self._look_at_partitions()

    def is_at_work(self, txn_id: int, author: Author) -> bool:
        """A statement of a txn begins; whether what it will do counts."""
        self.authors[txn_id] = author
        key = txn_id, author.member
        if self._attempts.get(key, author.attempt) > author.attempt:
            return False
        if self._attempts.get(key) != author.attempt:
            self._attempts[key] = author.attempt
            self.pending.setdefault(txn_id, {}).pop(author.member, None)
        return True

    def does(self, txn_id: int, place: Place, change: Change, author: Author) -> None:
        """A statement of a txn has done this."""
        if self.is_at_work(txn_id, author):
            # A job may live on when its txn has ended; nothing of it counts then.
            _add(self.pending.setdefault(txn_id, {}).setdefault(author.member, {}), place, change)

    def declare(self, txn_id: int, changes: dict[Place, Change]) -> None:
        """A txn is about to commit these."""
        self.pending[txn_id] = {"": changes}

    def rows(self, place: Place, txns: Iterable[int] | None = None) -> set[Row]:
        """What these txns, or all committed ones, have left."""
        seen = self.committed if txns is None else {t: self.committed[t] for t in txns if t in self.committed}
        changes = [c[place] for c in seen.values() if place in c]
        return set().union(*(c.adds for c in changes)) - set().union(*(c.deletes for c in changes))

    def after_commit(self) -> None:
        """A transaction of the metastore was committed: what can be read changes with the states of txns alone."""
        newest = self.raw.execute("SELECT MAX(TXN_ID) FROM TXNS").fetchone()[0]
        if newest < self.newest_txn:
            raise Violated(f"MAX(TXN_ID) shrank from {self.newest_txn} to {newest}: an id can be given out again")
        self.newest_txn = newest
        self._look_at_tables()
        self._look_at_partitions()
        for txn_id in list(self.pending):
            found = self.raw.execute("SELECT TXN_STATE FROM TXNS WHERE TXN_ID = ?", (txn_id,)).fetchone()
            if found is None or found[0] != "o":
                members = self.pending.pop(txn_id)
                if found is not None and found[0] == "c":
                    self._commit(txn_id, _together(members.values()))
        before, self._states = self._states, tuple(self.raw.execute(query).fetchall() for query in _STATES)
        if before != self._states:
            for place in self.places:
                self.check(place)

    def _look_at_tables(self) -> None:
        found = {str(key): (name, location) for key, name, location in self.raw.execute(_TABLES).fetchall()}
        self.places += [Place(key, "", tables=self.tables) for key in found if key not in self.tables]
        self.tables.update(found)
        self._there = set(found)

    def _look_at_partitions(self) -> None:
        """A partition that was dropped is empty for all who see the txn that did it, also when it is made anew."""
        found = dict(self.raw.execute(_PARTITIONS).fetchall())
        ended = {txn for (txn,) in self.raw.execute(_ENDED).fetchall()}
        for place in self.places:
            if place.partition and self._partitions.get(place.partition) not in (None, found.get(place.partition)):
                (txn_id,) = ended - self._ended
                self.committed[txn_id] = {place: Change(frozenset(), frozenset(self.rows(place)))}
        self._partitions, self._ended = found, ended

    def is_there(self, place: Place) -> bool:
        """Whether it is in the catalog."""
        return place.key in self._there and (not place.partition or place.partition in self._partitions)

    def locations(self) -> list[str]:
        """URIs of the directories of all tables that are there."""
        return [self.tables[key][1] for key in self._there]

    def _is_hidden(self, place: Place) -> bool:
        """Whether somebody has a lock that keeps readers off, so that nobody sees what lies there now."""
        found = self.raw.execute(_LOCKS, place.table.split(".")).fetchall()
        return any(kind == "e" or (place.plain and kind != "r") for (kind,) in found)

    def _require_rights(self, txn_id: int) -> None:
        """Each statement is applied once (R14), and under a lease only while it is held (R8)."""
        author = self.authors.get(txn_id)
        if author is None:
            return
        before = self.applied.setdefault(author.tag, txn_id)
        if before != txn_id:
            raise Violated(f"{author.tag} is applied twice: by txn {before} and by txn {txn_id}")
        if author.lease_id is not None:
            live = self.raw.execute(_LEASE, (author.lease_id, self.now())).fetchone()[0]
            if not live:
                raise Violated(f"txn {txn_id} of {author.tag} commits under lease {author.lease_id}, which has ended")

    def _require_no_lease(self, txn_id: int, place: Place) -> None:
        author = self.authors.get(txn_id)
        if author is None or not author.waits_for_leases:
            return
        database, _, table = place.table.partition(".")
        mine = -1 if author.lease_id is None else author.lease_id
        found = self.raw.execute(_OTHERS, (database, table, place.partition, self.now(), mine)).fetchone()
        if found is not None:
            raise Violated(f"txn {txn_id} of {author.tag} changes {place} under the nose of lease {found[0]}")

    def _commit(self, txn_id: int, changes: dict[Place, Change]) -> None:
        self._require_rights(txn_id)
        for place, change in changes.items():
            self._require_no_lease(txn_id, place)
            if change.everything:
                changes[place] = Change(change.adds, frozenset(self.rows(place)))
                continue
            lost = change.deletes - self.rows(place)
            if lost:
                raise Violated(f"lost update: txn {txn_id} changed {sorted(lost)[:3]} of {place} after others had")
        self.committed[txn_id] = changes

    def files_changed(self, parts: tuple[str, ...]) -> None:
        """Something was done to files; what lies in staging concerns nobody."""
        if any(part.startswith("_tmp_") for part in parts):
            return
        for place in self.places:
            if parts[: len(place.parts)] == place.parts:
                self.check(place)

    def check(self, place: Place) -> None:
        """What a reader who came now would find."""
        if not self.is_there(place) or self._is_hidden(place):
            return
        self.checks += 1
        node = self.fs.node(place.parts)
        if not isinstance(node, dict):
            found = set()
        elif place.plain:
            found = visible_plain(node)
        else:
            found = visible(node, *self.lists(place))
        expected = self.rows(place)
        if found != expected:
            missing, extra = sorted(expected - found), sorted(found - expected)
            here = ", ".join(sorted(node)) if isinstance(node, dict) else "nothing"
            raise Violated(f"{place}: rows {missing[:3]} are lost, {extra[:3]} should not be there; files: {here}")

    def lists(self, place: Place) -> tuple[ValidWriteIdList, ValidTxnList]:
        """What is valid now, by the rows a real Hive reads."""
        highest, written, txns = self._states
        high = next((int(high) for table, high in highest if table == place.table), 0)
        ids = [frozenset(i for table, i, state in written if table == place.table and state == s) for s in "oa"]
        others = [frozenset(i for i, state in txns if state == s) for s in "oa"]
        return ValidWriteIdList(high, *ids, None, place.table), ValidTxnList(self.newest_txn, *others, None)


def _together(members: Iterable[dict[Place, Change]]) -> dict[Place, Change]:
    """What the members of a txn have done one after the other."""
    together: dict[Place, Change] = {}
    for changes in members:
        for place, change in changes.items():
            _add(together, place, change)
    return together


def _add(changes: dict[Place, Change], place: Place, change: Change) -> None:
    changes[place] = changes[place].then(change) if place in changes else change


def visible(node: Node, write_ids: ValidWriteIdList, txns: ValidTxnList) -> set[Row]:
    """The rows of a directory as it is."""
    entries = []
    for name, child in node.items():
        if isinstance(child, dict) and not name.startswith(("_", ".", "k=")):
            entries.append(FileEntry(f"{name}/", 0))
            entries += [FileEntry(f"{name}/{file}", len(text)) for file, text in child.items() if isinstance(text, str)]
    state = acid_state(entries, write_ids, txns)

    def read(path: str) -> str:
        directory, _, file = path.partition("/")
        return str(node[directory][file])

    rows = rows_of(state.inserts, read, write_ids)
    if len(rows) != len(set(rows)):
        raise Violated(f"rows are seen twice: {', '.join(d.directory.name for d in state.inserts)}")
    return set(rows) - {row for _, row in deletes_of(state.deletes, read, write_ids)}


def visible_plain(node: Node) -> set[Row]:
    """The rows of a directory of a table without transactions."""
    texts = [text for name, text in node.items() if isinstance(text, str) and not is_hidden(name)]
    rows = [(int(txn), int(number)) for text in texts for txn, number in json.loads(text)]
    if len(rows) != len(set(rows)):
        raise Violated(f"rows are there twice: {rows}")
    return set(rows)
