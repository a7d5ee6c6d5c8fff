"""The cells of the matrix: a state, somebody who intervenes, a kind of table; and what must be there afterwards.

The model is of rows: the table held one row, the victim writes another one. Once the database has committed it, it
stays, whoever comes; as long as it has not, whoever ends its txn is certain that nobody ever sees it.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import CommitStateUnknownError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.database import Database

from .people import ABORTERS, BY_SILENCE, INTERVENERS, WRITERS
from .world import BOUND, NEW, OLD, SHAPES, Victim, World

if TYPE_CHECKING:
    from .world import Table

KINDS = tuple(SHAPES)
STATES = (
    "waiting", "running", "staged", "published",
    "in COMMIT", "decided before COMMIT", "unknown", "unknown but committed",
    "committed", "aborted by Hive", "forgotten, committed", "forgotten, aborted",
)  # fmt: skip
COMMITTED = frozenset({"in COMMIT", "unknown but committed", "committed", "forgotten, committed"})
DEAD = frozenset({"aborted by Hive", "forgotten, aborted"})
OPEN = frozenset(STATES) - COMMITTED - DEAD


@dataclass(frozen=True)
class Cell:
    """One of them.

    :param verb: INTO or OVERWRITE.
    """

    kind: str
    state: str
    who: str
    verb: str = "INTO"

    def __str__(self) -> str:
        return f"{self.who} x {self.state} x {self.kind} ({self.verb})"


def refused(cell: Cell) -> str | None:
    """The rule by which there is no such cell."""
    if cell.kind == "batch":
        if cell.state == "waiting":
            return "a batch waits for its lock in the process that opens it: nobody else knows of the request"
        if cell.who in WRITERS:
            return "a batch has no key by which a later try would know it; its stream's position decides"
        if cell.state == "forgotten, aborted":
            return "rows of an aborted txn of a batch lie among others', so nobody forgets it before a compaction"
        if cell.verb == "OVERWRITE":
            return "a batch only adds"
    if cell.who == "page withdraws" and cell.state != "waiting":
        return "only a request that waits can be withdrawn; what a txn holds goes with the txn"
    return None


def run(world: World, cell: Cell) -> list[str]:
    """Run a cell.

    :return: what is wrong.
    """
    table = world.table(cell.kind, cell.verb)
    if cell.state == "waiting":
        victim = _waiting(world, cell, table)
    elif cell.state == "in COMMIT":
        victim = _in_commit(world, cell, table)
    elif cell.state == "decided before COMMIT":
        victim = _decided(world, cell, table)
    else:
        victim = _standing(world, cell, table)
    return _wrong(world, cell, table, victim)


def _intervene(world: World, cell: Cell, victim: Victim) -> None:
    if cell.who in BY_SILENCE and cell.state != "in COMMIT":
        world.fall_silent()
    INTERVENERS[cell.who](world, victim)


def _standing(world: World, cell: Cell, table: Table) -> Victim:
    """
    t1  the victim stands at its point, or is through
    t2            somebody intervenes
    t3  the victim goes on
    """
    points = {"running": "running", "staged": "staged", "unknown": "unknown"}
    points |= {"unknown but committed": "unknown but committed", "committed": "", "forgotten, committed": ""}
    victim = Victim(world, table, points.get(cell.state, "published"), lambda: None)
    victim.start()
    assert victim.txn_id is not None, f"it has no txn: {victim.error!r}"
    if cell.state in DEAD:
        world.hive_aborts(victim.txn_id)
    if cell.state == "forgotten, aborted" and not table.plain:
        world.maintain()  # before its files are gone nobody forgets a write id
    if cell.state.startswith("forgotten"):
        world.hive_forgets(victim.txn_id)
    _intervene(world, cell, victim)
    victim.finish()
    return victim


def _in_commit(world: World, cell: Cell, table: Table) -> Victim:
    """
    t1  the victim's commit has run all its statements, and COMMIT is not sent
    t2            somebody intervenes, and has to wait for its decision
    t3  COMMIT
    t4            he finds it committed
    """

    def silence() -> None:
        if cell.who in BY_SILENCE:
            world.fall_silent()

    victim = Victim(world, table, "in COMMIT", silence)
    victim.start()
    asked, real = threading.Event(), Database.run

    def asking(database: Database, *args: Any, **kwargs: Any) -> Any:
        if database is not world.client.database:
            asked.set()
        return real(database, *args, **kwargs)

    def act() -> None:
        try:
            _intervene(world, cell, victim)
        finally:
            asked.set()

    Database.run = asking  # type: ignore[method-assign, assignment]
    try:
        with ThreadPoolExecutor(1) as intervener:
            acting = intervener.submit(act)
            came = asked.wait(BOUND)
            victim.finish()
            acting.result(BOUND)
    finally:
        Database.run = real  # type: ignore[method-assign]
    assert came, "the intervener never asked"
    return victim


def _decided(world: World, cell: Cell, table: Table) -> Victim:
    """
    t1  the victim is about to commit
    t2            somebody has decided that it does not
    t3  the victim commits, and finds out
    t4            he goes on, and fences it
    """
    victim = Victim(world, table, "published", lambda: None)
    victim.start()
    real = MetastoreClient.give_up_txns

    def deciding(client: MetastoreClient, *args: Any, **kwargs: Any) -> Any:
        decision = real(client, *args, **kwargs)
        if client is not world.client and any(each.txn_id == victim.txn_id for each in decision.given_up):
            victim.finish()
        return decision

    MetastoreClient.give_up_txns = deciding  # type: ignore[method-assign, assignment]
    try:
        _intervene(world, cell, victim)
    finally:
        MetastoreClient.give_up_txns = real  # type: ignore[method-assign]
    victim.finish()
    return victim


def _waiting(world: World, cell: Cell, table: Table) -> Victim:
    """
    t1  somebody has the table
    t2            the victim asks for it, and leaves its request to a trigger
    t3                      somebody intervenes
    t4  the table is free
    t5            the victim comes back, where nobody has ended it
    """
    victim = Victim(world, table, None, lambda: None)
    with world.blocker(table) as let_go:
        victim.wait()
        assert victim.txn_id is not None
        if cell.who in WRITERS:
            let_go()
        _intervene(world, cell, victim)
        let_go()
        if cell.who not in ABORTERS:
            victim.wait(victim.document)
            victim.committed = True
            if table.kind == "shared":
                victim.committed = False
                _finish_shared(world, victim)
    return victim


def _finish_shared(world: World, victim: Victim) -> None:
    """The transaction was begun; its tasks do the rest."""
    from airflow_hive_acid.metastore.records.shared_rules import SharedState

    (found,) = [t for t in world.client.shared_txns.open_ones() if t.scope == victim.table.once.scope]
    assert found.state is SharedState.OPEN
    with victim.engine.joined(found.txn_id, ("dag", "run", victim.table.name, "member", "-1"), patience=0.0):
        victim.engine.run(victim.table.insert(NEW))
    victim.engine.commit_shared(found.txn_id)
    victim.committed = True


# --- the model --------------------------------------------------------------------------------------------------------


def is_dropped(cell: Cell) -> bool | None:
    """DROP waits for whoever has the table, and drops what nobody has; None where it depends on who is faster."""
    if cell.who != "DROP":
        return False
    if cell.state == "in COMMIT":
        return None  # he does not wait for long
    if cell.state == "unknown":
        return cell.kind not in ("batch", "shared")  # a statement with a key has looked its commit up, and is aborted
    if cell.kind == "batch" and cell.state in DEAD:
        return False  # the other txns of the batch hold the table
    return cell.state in COMMITTED | DEAD


def expected(cell: Cell) -> list[int]:
    """The rows that must be visible."""
    after = [NEW] if cell.verb == "OVERWRITE" and cell.kind != "partitioned" else [OLD, NEW]
    if cell.state in COMMITTED or cell.who in WRITERS:
        return after
    if cell.state in DEAD or cell.who in ABORTERS or cell.state == "unknown":
        return [OLD]
    return after


def _wrong(world: World, cell: Cell, table: Table, victim: Victim) -> list[str]:
    found = []
    if cell.state in COMMITTED - {"unknown but committed"} and not victim.committed:
        found.append(f"the victim did not commit: {victim.error!r}")
    if cell.state in OPEN | DEAD and cell.who in ABORTERS and victim.committed and cell.state != "waiting":
        found.append("the victim thinks that it has committed")
    if isinstance(victim.error, CommitStateUnknownError):
        world.fall_silent()  # it does nothing more (R17), and its time-out decides
    world.maintain()
    there = bool(world.helper.catalog.find_tables([table.name]))
    if is_dropped(cell) not in (None, not there):
        found.append(f"the table is {'still' if there else 'not'} there")
    if there:
        rows = world.rows(table)
        if rows != expected(cell):
            found.append(f"rows are {rows}, and must be {expected(cell)}")
        found += [f"stray: {stray}" for stray in world.strays(table)]
    found += [f"left: {left}" for left in world.left_open()]
    return [f"{cell}: {what}" for what in found]
