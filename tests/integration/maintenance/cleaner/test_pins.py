"""Pins: what they see stays readable and nothing else does, whatever is compacted and cleaned meanwhile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    HiveAcidError,
    InvalidArgumentsError,
    NoSuchObjectError,
    NoSuchPinError,
    PinExistsError,
    SchemaVersionError,
    TablePinnedError,
)
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.maintenance.cleaner.cleaner import explain_cleaning
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.compaction.cleaning import clean_again
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.database.codes import TxnState
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, MIN_HISTORY_WRITE_ID, TXNS, WRITE_SET
from airflow_hive_acid.metastore.schema.pins import HIVE_ACID_PIN, PIN_TABLES
from airflow_hive_acid.metastore.txns.pin_rules import Pin, PinState
from airflow_hive_acid.metastore.txns.txns import txn_facts
from airflow_hive_acid.settings import Source
from tests.integration.maintenance.cleaner.test_pinned_readers import Schedule
from tests.integration.maintenance.cycles.steps import pass_time, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem


SCHEDULES = int(os.environ.get("HIVE_ACID_SCHEDULES", "6"))
HOUR = 3600.0


class _Seen:
    """What a pin sees, as a reader's snapshot."""

    def __init__(self, client: MetastoreClient, name: str, table: str) -> None:
        found = client.pins.look(name, table)
        self.pinned, self.txn_id, self.valid_txns, self.snapshot = (
            found,
            found.pin.txn_id,
            found.txns,
            {table: found.write_ids},
        )


class PinnedSchedule(Schedule):
    """Random orders in which what is kept is pinned by name, not by an open reader."""

    def pin(self) -> None:
        name = f"p{self.seed}.{len(self.log)}"
        self.client.pins.pin(name, [self.table.name], expires=HOUR)
        seen = _Seen(self.client, name, self.table.name)
        assert self.table.read(seen) == self.rows, self.told()  # type: ignore[arg-type]
        seen.close = lambda: self.client.pins.unpin(name)  # type: ignore[attr-defined]
        self.readers.append((seen, set(self.rows)))  # type: ignore[arg-type]


@pytest.mark.backends("sqlite")
@pytest.mark.rule("R10")
@pytest.mark.rule("R17")
def test_pins_see_their_rows_and_the_space_comes_back(client: MetastoreClient, fs: Filesystem) -> None:
    client.catalog.create_database("default", if_not_exists=True)
    for seed in range(SCHEDULES):
        PinnedSchedule(seed, client, fs).run()
        client.housekeeping.clean_txn_to_write_id()
        client.housekeeping.clean_empty_txns()


def _compact(
    client: MetastoreClient, fs: Filesystem, job: Any, table: str = "default.t",
    kind: CompactionType = CompactionType.MAJOR,
) -> None:  # fmt: skip
    assert client.compactions.enqueue(table, type=kind).accepted
    assert run_worker(client, fs, job, "w")[0].kind is Kind.COMPACTED


def _clean(client: MetastoreClient, fs: Filesystem) -> list[Any]:
    pass_time(client)
    return run_cleaner(client, fs)


@pytest.mark.every_database
@pytest.mark.rule("R17")
def test_the_cleaner_keeps_exactly_what_a_pin_reads_and_says_for_whom(
    client: MetastoreClient, fs: Filesystem, table: Any, make_table: Callable[..., Any], compact_lines: Any
) -> None:
    """
    t1  two inserts; pinned as 'month end'
    t2  an insert, a major compaction, a clean-up: both pinned deltas stay, the third goes, the request is over
    t3  another insert, compaction and clean-up, with a reader open that began behind the pin: they wait for nobody
    t4  the pin is dropped: the next clean-up takes what was kept for it
    """
    client.catalog.create_database("default", if_not_exists=True)
    other = make_table("default.other")
    table.insert(lines=2)
    table.insert(lines=2)
    pin = client.pins.pin("month end", ["default.t"], expires=HOUR, comment="books")
    assert (pin.tables, pin.state, pin.txn_open, pin.held_bytes) == (("default.t",), PinState.ACTIVE, True, 0)
    seen = _Seen(client, "month end", "default.t")
    before = table.read(seen)
    table.insert(lines=3)
    _compact(client, fs, compact_lines)
    reader = client.open_snapshot(["default.other"])
    reader.close()
    pass_time(client)
    (told,) = explain_cleaning(client, fs)
    assert told.blocked_by == (f"pin 'month end' until {pin.until}",)
    (outcome,) = _clean(client, fs)
    assert outcome.kind is Kind.CLEANED
    assert "2 (" in outcome.reason
    assert f"held back by pin 'month end' until {pin.until}" in outcome.reason
    assert [uri.rpartition("/")[2] for uri in outcome.removed] == ["delta_0000003_0000003_0000"]
    assert len(outcome.kept) == 2
    assert table.read(seen) == before
    assert client.pins.get("month end").held_bytes == outcome.numbers["held_bytes"] > 0

    table.insert()
    other.insert()
    other.insert()
    reader = client.open_snapshot(["default.other"])
    _compact(client, fs, compact_lines)
    _compact(client, fs, compact_lines, "default.other")
    reader.close()
    late = client.open_snapshot(["default.t"])
    assert {o.kind for o in _clean(client, fs)} == {Kind.CLEANED}
    late.close()
    assert len([d for d in table.directories() if d.startswith("base")]) == 1
    assert len(other.directories()) == 1, "what is not pinned is cleaned as ever"
    assert table.read(seen) == before

    assert client.pins.unpin("month end").state is PinState.SETTLED
    with pytest.raises(NoSuchPinError, match="'month end' has ended: dropped by ann"):
        client.pins.look("month end", "default.t")
    _clean(client, fs)
    assert len(table.directories()) == 1
    client.pins.pin("month end", ["default.t"], expires=HOUR)


def test_a_pin_is_to_hive_a_reader_that_ends_when_it_expires(client: MetastoreClient, table: Any) -> None:
    table.insert()
    pin = client.pins.pin("p", ["default.t"], expires=HOUR)
    with client.database.reading() as connection:
        txn = connection.execute(TXNS.select().where(TXNS.c.TXN_ID == pin.txn_id)).one()._mapping
        assert (txn["TXN_STATE"], txn["TXN_TYPE"]) == ("o", 2)
        assert txn["TXN_AGENT_INFO"].startswith("hive-acid pin p")
        timeout = client.settings.milliseconds("hive.txn.timeout")
        assert txn["TXN_LAST_HEARTBEAT"] == pin.expires + 600_000 - timeout
        needed = connection.execute(sa.select(MIN_HISTORY_WRITE_ID.c.MH_WRITEID)).scalars().all()
        assert needed == [1], "no compaction of any reach is cleaned up after by a Hive 4.2"
        (lock,) = connection.execute(HIVE_LOCKS.select()).all()
        assert (lock._mapping["HL_TABLE"], lock._mapping["HL_LOCK_TYPE"], lock._mapping["HL_LOCK_STATE"]) == (
            "t",
            "r",
            "a",
        )
    with pytest.raises(InvalidArgumentsError, match="expires and max_bytes: neither was given"):
        client.pins.extend("p")
    longer = client.pins.extend("p", expires=2 * HOUR, max_bytes=10)
    assert longer.expires > pin.expires + 3_000_000
    assert longer.max_bytes == 10
    # A heartbeat that was under way has moved its own; the next look puts it right.
    client.heartbeat(pin.txn_id)
    client.pins.end_overdue()
    with client.database.reading() as connection:
        beat = connection.execute(sa.select(TXNS.c.TXN_LAST_HEARTBEAT).where(TXNS.c.TXN_ID == pin.txn_id)).scalar_one()
    assert beat == longer.expires + 600_000 - timeout


def _last_beat(client: MetastoreClient, pin: Pin) -> int:
    beat = sa.select(TXNS.c.TXN_LAST_HEARTBEAT).where(TXNS.c.TXN_ID == pin.txn_id)
    return int(client.database.read(lambda connection: connection.execute(beat).scalar_one()))


def test_a_reaper_that_is_slow_does_not_shorten_a_pin_that_is_extended_meanwhile(
    client: MetastoreClient, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  the reaper has looked at the pins
    t2            somebody extends one
    t3  the reaper puts heartbeats right: that one's by its expiry of now (R3)
    """
    pin = client.pins.pin("p", ["default.t"], expires=HOUR)
    show, seen = client.pins.show, client.pins.show()
    longer = client.pins.extend("p", expires=100 * HOUR)
    monkeypatch.setattr(client.pins, "show", lambda *, ended=False: show(ended=True) if ended else seen)
    assert client.pins.end_overdue() == []
    assert _last_beat(client, pin) == longer.expires + 600_000 - client.settings.milliseconds("hive.txn.timeout")


def test_no_reaper_finds_the_txn_silent_before_the_pin_expires_whatever_its_time_out(
    client: MetastoreClient, table: Any
) -> None:
    """Ours waits an hour, and a Hive beside us five minutes."""
    overrides = client.settings.with_overrides(Source.REQUEST, {"hive.txn.timeout": "3600s"})
    with MetastoreClient(client.database.url, overrides, user="ann", host="host1") as patient:
        pin = patient.pins.pin("p", ["default.t"], expires=HOUR)
        assert _last_beat(client, pin) == pin.expires


def test_the_name_of_a_pin_that_is_over_is_free_before_a_reaper_comes_by(client: MetastoreClient, table: Any) -> None:
    old = client.pins.pin("p", ["default.t"], expires=HOUR)
    _expire(client, old)
    assert client.pins.pin("p", ["default.t"], expires=HOUR).id != old.id
    (ended,) = [pin for pin in client.pins.show(ended=True) if pin.id == old.id]
    assert ended.state is PinState.SETTLED
    assert (ended.reason or "").startswith("it expired on")


def test_a_pin_whose_commit_was_lost_and_repeated_is_there(
    client: MetastoreClient, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks behind the COMMIT, and the same is asked for once more."""
    insert = client.pins._insert

    def twice(connection: Any, *given: Any) -> None:
        insert(connection, *given)
        insert(connection, *given)

    monkeypatch.setattr(client.pins, "_insert", twice)
    pin = client.pins.pin("p", ["default.t"], expires=HOUR)
    assert pin.txn_open
    assert [p.id for p in client.pins.show()] == [pin.id]


@pytest.mark.backends("postgresql")
def test_of_two_who_pin_under_one_name_the_slower_one_hears_of_the_other(
    client: MetastoreClient, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither finds the other's row, and the second INSERT meets it."""
    insert = client.pins._insert
    others = []

    def later(connection: Any, *given: Any) -> None:
        if others:
            insert(connection, *given)
            return
        others.append(connection)

        def first(_conn: Any, _cursor: Any, statement: str, *_more: Any) -> None:
            if statement.startswith("INSERT") and len(others) == 1:
                others.append(None)
                with MetastoreClient(client.database.url, client.settings, user="bob", host="host2") as bob:
                    bob.pins.pin("p", ["default.t"], expires=HOUR)

        sa.event.listen(connection, "before_cursor_execute", first)
        insert(connection, *given)

    monkeypatch.setattr(client.pins, "_insert", later)
    with pytest.raises(PinExistsError, match="somebody has pinned 'p' meanwhile"):
        client.pins.pin("p", ["default.t"], expires=HOUR)
    assert [(pin.user, pin.txn_open) for pin in client.pins.show()] == [("bob", True)]
    assert [txn.state.value for txn in client.show_transactions()].count("o") == 1


def test_what_a_pin_holds_is_not_forgotten_when_an_earlier_compaction_is_cleaned_after_a_later_one(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: Any
) -> None:
    """
    t1  write ids 1 and 2 are compacted; 3 and 4 are written and pinned, compacted and cleaned: both are held
    t2  something asks to clean up to 2 once more, as the end of an older pin does: it looks at nothing of 3 and 4
    t3  the pin is dropped: what it held goes
    """
    table.insert()
    table.insert()
    _compact(client, fs, compact_lines)
    _clean(client, fs)
    table.insert()
    table.insert()
    client.pins.pin("p", ["default.t"], expires=HOUR)
    _compact(client, fs, compact_lines, kind=CompactionType.MINOR)
    _clean(client, fs)
    held = client.pins.get("p").held_bytes
    assert held > 0
    client.database.run(lambda connection: clean_again(connection, table_name("default.t"), None, 2, "ann"))
    _clean(client, fs)
    assert client.pins.get("p").held_bytes == held
    client.pins.unpin("p")
    _clean(client, fs)
    assert len(table.directories()) == 2


def _expire(client: MetastoreClient, pin: Pin) -> None:
    client.database.run(
        lambda connection: connection.execute(
            sa.update(HIVE_ACID_PIN).where(HIVE_ACID_PIN.c.HPN_ID == pin.id).values(HPN_EXPIRES=pin.created - 1)
        )
    )


@pytest.mark.every_database
def test_a_pin_ends_when_it_expires_or_holds_back_too_much_and_the_reason_is_kept(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: Any
) -> None:
    table.insert(lines=5)
    old = client.pins.pin("old", ["default.t"], expires=HOUR)
    small = client.pins.pin("small", ["default.t"], expires=HOUR, max_bytes=10)
    large = client.pins.pin("large", ["default.t"], expires=HOUR, max_bytes=1 << 30)
    table.insert()
    _compact(client, fs, compact_lines)
    _clean(client, fs)
    assert client.pins.get("large").held_bytes == client.pins.get_any("small").held_bytes > 10
    with pytest.raises(NoSuchPinError, match=r"'small' has ended: it held back \d+ bytes .* may hold back 10"):
        client.pins.get("small")
    _expire(client, old)
    report = run_reaper(client, fs)
    assert [why.partition(":")[0] for why in report.overdue] == ["pin 'old' on default.t", "pin 'small' on default.t"]
    assert {p.name: p.state for p in client.pins.show(ended=True)} == {
        "old": PinState.SETTLED, "small": PinState.SETTLED, "large": PinState.ACTIVE,
    }  # fmt: skip
    with pytest.raises(NoSuchPinError, match="'old' has ended: it expired on"):
        client.pins.get("old")
    with client.database.reading() as connection:
        states = {i: f.state for i, f in txn_facts(connection, [old.txn_id, small.txn_id, large.txn_id]).items()}
    assert [txn for txn, state in states.items() if state is TxnState.OPEN] == [large.txn_id]
    assert client.pins.forget(-1000) == 2
    assert [p.name for p in client.pins.show(ended=True)] == ["large"]


@pytest.mark.rule("R16")
def test_who_reads_by_a_pin_that_ends_reads_to_the_end(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: Any
) -> None:
    """
    t1  a reader opens its txn and finds the pin
    t2  the pin is dropped, and a Cleaner comes by: everything stays
    t3  the reader ends: the next one takes it
    """
    table.insert()
    client.pins.pin("p", ["default.t"], expires=HOUR)
    table.insert()
    _compact(client, fs, compact_lines)
    _clean(client, fs)
    with client.snapshot(["default.t"]):
        seen = _Seen(client, "p", "default.t")
        lines = table.read(seen)
        assert client.pins.unpin("p").state is PinState.ENDED
        _clean(client, fs)
        assert table.read(seen) == lines
        client.pins.require_kept(seen.pinned)
    _clean(client, fs)
    assert len(table.directories()) == 1
    with pytest.raises(NoSuchPinError, match=r"ended while default\.t was read by it"):
        client.pins.require_kept(seen.pinned)


def test_who_drops_a_pin_that_he_saw_drops_no_later_one_of_its_name(client: MetastoreClient, table: Any) -> None:
    old = client.pins.pin("p", ["default.t"], expires=HOUR)
    client.pins.unpin("p", pin_id=old.id)
    new = client.pins.pin("p", ["default.t"], expires=HOUR)
    with pytest.raises(NoSuchPinError, match="pin 'p' is another one by now, made by ann"):
        client.pins.unpin("p", pin_id=old.id)
    assert client.pins.get("p").id == new.id


def test_a_pin_whose_txn_was_aborted_from_outside_is_not_read(client: MetastoreClient, table: Any) -> None:
    table.insert()
    pin = client.pins.pin("p", ["default.t"], expires=HOUR)
    client.abort_txn(pin.txn_id, "by hand")
    with pytest.raises(NoSuchPinError, match=r"its txn \d+ was aborted from outside"):
        client.pins.look("p", "default.t")
    client.pins.require_unpinned(["default.t"], "dropping it")
    (why,) = client.pins.end_overdue()
    assert "aborted from outside" in why


def test_partitions_that_were_there_are_pinned_and_a_dropped_one_stays_until_the_pin_ends(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.parts", "p")
    table.insert(partition="p=1")
    client.pins.pin("p", ["default.parts"], expires=HOUR)
    table.insert(partition="p=2")
    seen = client.pins.look("p", "default.parts")
    assert [(p.name, p.values) for p in seen.partitions or ()] == [("p=1", ("1",))]
    with pytest.raises(
        TablePinnedError, match=r"default\.parts is pinned by 'p' \(ann\) until .* hive-acid pin drop 'p'"
    ):
        client.pins.require_unpinned(["default.parts", "default.x"], "dropping it")
    client.pins.require_unpinned(["default.x"], "dropping it")

    # Somebody who does not ask drops it all the same, as Hive's soft delete does.
    places = {name: table.place(name) for name in ("p=1", "p=2")}
    files = WarehouseFiles(client, fs)
    assert len(client.catalog.drop_partitions("default.parts", [{"p": "1"}, {"p": "2"}], files=files)) == 2
    outcomes = {o.resource.partition: o for o in _clean(client, fs)}
    assert outcomes["p=1"].kind is Kind.WAITING
    assert f"held back by pin 'p' until {seen.pin.until}" in outcomes["p=1"].reason
    assert outcomes["p=2"].kind is Kind.CLEANED, "the pin never saw it"
    assert fs.exists(places["p=1"])
    client.pins.unpin("p")
    assert [o.kind for o in _clean(client, fs)] == [Kind.CLEANED]
    assert not fs.exists(places["p=1"])


@pytest.mark.every_database
@pytest.mark.rule("R3")
def test_a_pin_that_is_let_go_of_while_the_cleaner_looks_leaves_nothing_behind(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.insert()
    client.pins.pin("p", ["default.t"], expires=HOUR)
    table.insert()
    _compact(client, fs, compact_lines)
    note = client.pins.note_held

    def dropped_first(*given: Any) -> bool:
        client.pins.unpin("p")
        monkeypatch.undo()
        return note(*given)

    monkeypatch.setattr(client.pins, "note_held", dropped_first)
    (outcome,) = _clean(client, fs)
    assert (outcome.kind, outcome.reason) == (Kind.KEPT, "a pin ended meanwhile; looking again soon")
    (outcome,) = _clean(client, fs)
    assert outcome.kind is Kind.CLEANED
    assert len(table.directories()) == 1


def test_a_metastore_without_our_newest_tables_has_no_pins_and_says_how_it_gets_them(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    for pins in reversed(PIN_TABLES):
        client.database.run(pins.drop)
    client.database.forget_features()
    assert client.pins.show(ended=True) == client.pins.end_overdue() == run_cleaner(client, fs) == []
    client.pins.require_unpinned(["default.t"], "dropping it")
    assert client.pins.forget(0) == 0
    with pytest.raises(SchemaVersionError, match="hive-acid schema upgrade"):
        client.pins.pin("p", ["default.t"], expires=HOUR)


def test_what_is_tidied_up_does_not_wait_for_pins(client: MetastoreClient, table: Any) -> None:
    """Pins never write, so no write set can be in their way."""
    table.insert()
    client.pins.pin("p", ["default.t"], expires=HOUR)
    table.delete()
    assert len(rows(client, WRITE_SET)) == 1
    pass_time(client)
    assert client.housekeeping.perform_write_set_gc() == 1


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        ({"name": "x'y"}, InvalidArgumentsError, "name:"),
        ({"name": ""}, InvalidArgumentsError, "name:"),
        ({"tables": []}, InvalidArgumentsError, "tables: a pin needs at least one table"),
        ({"tables": ["default.nope"]}, NoSuchObjectError, "nope"),
        ({"expires": 0}, InvalidArgumentsError, "expires: 0 must be seconds"),
        ({"expires": "1d"}, InvalidArgumentsError, "expires:"),
        ({"max_bytes": 0}, InvalidArgumentsError, "max_bytes:"),
        ({"comment": "a\0b"}, InvalidArgumentsError, "comment:"),
        ({"comment": "x" * 4001}, InvalidArgumentsError, "comment:"),
        ({"name": "taken"}, PinExistsError, "it pins default.t until"),
    ],
)
def test_bad_input_names_the_field_and_leaves_nothing_behind(
    client: MetastoreClient, table: Any, arguments: dict[str, Any], error: type[HiveAcidError], problem: str
) -> None:
    client.pins.pin("taken", ["default.t"], expires=HOUR)
    given = {"name": "p", "tables": ["default.t"], "expires": HOUR, **arguments}
    with pytest.raises(error, match=problem):
        client.pins.pin(given.pop("name"), given.pop("tables"), **given)
    assert [pin.name for pin in client.pins.show()] == ["taken"]
    assert len(client.show_transactions()) == 1
    with pytest.raises(InvalidArgumentsError, match=r"default.other is not in pin 'taken', which pins default.t"):
        client.pins.look("taken", "default.other")
    with pytest.raises(NoSuchPinError, match="there is no pin 'x'; there are: 'taken'"):
        client.pins.get("x")
