"""A pin is kept by a real Hive's Cleaner, its reaper and its locks, with nobody who sends heartbeats for it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.txns.pin_rules import PinState
from tests.interop.hive import Hive, HiveError
from tests.interop.test_cleaning import CLEANER_CYCLES, DELTAS, clean, compact, directories, table_location
from tests.interop.test_cleaning import table as _table

if TYPE_CHECKING:
    from tests.interop.oracle import oracle

pytestmark = pytest.mark.interop
table = _table
HOUR = 3600.0


def clean_in_vain(hive: Hive) -> None:
    for _ in range(CLEANER_CYCLES):
        time.sleep(0.4)  # the Cleaner never touches what was opened within the last second
        hive.cleaner()


def pinned_directories(hive: Hive, client: MetastoreClient, name: str, table: str) -> list[str]:
    """What a reader by the pin opens."""
    seen = client.pins.look(name, table)
    found = open_filesystem(hive.warehouse.as_uri()).list_files(table_location(hive, table).as_uri(), recursive=True)
    state = acid_state([FileEntry(i.relative, i.size) for i in found if not i.is_dir], seen.write_ids, seen.txns)
    return sorted({d.name for d in (*state.inserts, *state.deltas)})


@pytest.mark.rule("R16")
def test_hives_cleaner_and_reaper_leave_a_pin_alone(hive: Hive, client: MetastoreClient, table: str) -> None:
    """
    t1  we pin the table, and stop
    t2                        Hive overwrites nothing, compacts, cleans again and again, looks for silent txns
    t3  our Cleaner comes by: the request is over, the pinned deltas stay
    t4                        Hive overwrites the table: it does not wait for the pin
    t5  the pin is dropped; its deltas go with the next clean-up, by whomever
    """
    pin = client.pins.pin("books", [table], expires=HOUR)
    base = compact(hive, table)
    hive.housekeeping()
    clean_in_vain(hive)
    assert directories(hive, table) == [base, *DELTAS]
    assert pinned_directories(hive, client, "books", table) == DELTAS
    assert client.pins.get("books").txn_open

    clean(hive, client, table)
    assert directories(hive, table) == [base, *DELTAS], "Hive has forgotten the request, and the deltas stay"
    hive.run(f"insert overwrite table {table} select 9")
    assert sorted(hive.run(f"select * from {table}")) == [(9,)]
    assert pinned_directories(hive, client, "books", table) == DELTAS

    assert client.pins.unpin("books").state is PinState.SETTLED
    hive.clean(table)
    assert not set(DELTAS) & set(directories(hive, table))
    assert sorted(hive.run(f"select * from {table}")) == [(9,)]
    with client.database.reading() as connection:
        state = connection.execute(sa.select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == pin.txn_id)).scalar_one_or_none()
    assert state in (None, "c")


def test_a_pin_ends_in_hive_when_it_expires(hive: Hive, client: MetastoreClient, table: str) -> None:
    """Nobody of ours is there any more: Hive's reaper ends the txn, and its Cleaner goes on."""
    timeout = client.settings.milliseconds("hive.txn.timeout")
    pin = client.pins.pin("brief", [table], expires=HOUR)
    base = compact(hive, table)
    client.database.run(  # as if the hour were over
        lambda connection: connection.execute(
            sa.update(TXNS).where(TXNS.c.TXN_ID == pin.txn_id)
            .values(TXN_LAST_HEARTBEAT=TXNS.c.TXN_LAST_HEARTBEAT - int(HOUR * 1000) - 600_000 - timeout)
        )
    )  # fmt: skip
    with contextlib.suppress(HiveError):
        # Hive 4.1 leaves what was registered for the txn that it aborts, and then cannot forget the txn.
        hive.housekeeping()
    hive.clean(table)
    assert directories(hive, table) == [base]
    assert not next(p for p in client.pins.show() if p.name == "brief").txn_open
    (why,) = client.pins.end_overdue()
    assert "aborted from outside" in why
    client.housekeeping.clean_empty_txns()
    hive.housekeeping()


def test_with_history_by_write_ids_hive_waits_for_the_pinned_table_only(
    hive_postgres: oracle.Postgres, hive_schema: str, tmp_path: object
) -> None:
    """What Hive 4.2 does by default, and 4.1 when it is told to: another table is cleaned while the pin lasts."""
    settings = {"metastore.txn.use.minhistorywriteid": "true"}
    url = hive_postgres.create_database("metastore_pins", template=hive_schema)
    hive = Hive(url, tmp_path / "warehouse", settings).start()  # type: ignore[operator]
    try:
        with MetastoreClient(url) as client:
            client.upgrade_schema()
            hive.run("create database d")
            for name in ("d.t", "d.other"):
                hive.run(f"create table {name} (id int) stored as orc tblproperties ('transactional'='true')")
                hive.run(f"insert into {name} values (1)")
                hive.run(f"insert into {name} values (2)")
            client.pins.pin("books", ["d.t"], expires=HOUR)
            bases = {name: compact(hive, name) for name in ("d.t", "d.other")}
            hive.clean("d.other")
            clean_in_vain(hive)
            assert directories(hive, "d.other") == [bases["d.other"]]
            assert directories(hive, "d.t") == [bases["d.t"], *DELTAS]
            client.pins.unpin("books")
            hive.clean("d.t")
            assert directories(hive, "d.t") == [bases["d.t"]]
    finally:
        hive.close()
