"""Lists and marks of random histories, on every database, against the folds over all rows; and what a look reads."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.format.write_ids import OpenTxns, fold_write_ids, read_txn_list
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.schema.hive_transactions import NEXT_WRITE_ID, TXN_TO_WRITE_ID, TXNS
from airflow_hive_acid.metastore.txns.history import low_boundary, min_open_watermark
from airflow_hive_acid.metastore.txns.snapshots import take_snapshot, valid_write_ids
from tests.folds import fold_open_txns

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

GAP_MS = 1000
YEAR_MS = 365 * 86_400_000
HIGHEST = 30
READ = sa.text("SHOW SESSION STATUS LIKE 'Handler\\_read\\_%'")
"""The server counts the rows that it reads."""
TABLES = [TableName("db", "t"), TableName("db", "u"), TableName("db", "never")]


@dataclass(frozen=True)
class Txn:
    """A row of TXNS; ``young`` ones may lie below an old one."""

    id: int
    state: str
    type: int
    young: bool


@dataclass(frozen=True)
class History:
    """What is in the tables: ids are missing among the txns, and write ids are of some that are."""

    txns: list[Txn]
    write_ids: dict[TableName, list[tuple[int, int]]]

    @classmethod
    def of(cls, number: int) -> History:
        chance = random.Random(number)
        ids = sorted(chance.sample(range(1, HIGHEST), chance.randrange(HIGHEST - 1)))
        old_share, quiet = chance.choice([0.0, 0.3, 0.8, 1.0]), chance.choice(["ccccccoa", "oa", "a", "cccccccc"])
        txns = [Txn(i, chance.choice(quiet), chance.choice([0, 0, 0, 2]), chance.random() >= old_share) for i in ids]
        readers = {txn.id for txn in txns if txn.type == 2}
        # Of the largest old txn and below it, who is missing has committed and is forgotten.
        boundary = max((txn.id for txn in txns if not txn.young), default=0)
        possible = sorted({*range(1, boundary + 1), *ids} - readers)
        write_ids = {}
        for table in TABLES[:2]:
            writers = chance.sample(possible, chance.randint(0, len(possible)))
            write_ids[table] = [(txn_id, write_id) for write_id, txn_id in enumerate(writers, 1)]
        return cls(txns, write_ids)

    def boundary(self) -> int:
        return max((txn.id for txn in self.txns if not txn.young), default=0)

    def open_txns(self) -> OpenTxns:
        """The rule over all rows; below an old row nothing can appear, so that no row there counts as young."""
        boundary = self.boundary()
        rows = [(t.id, t.state, t.type, 0 if t.id > boundary else YEAR_MS) for t in self.txns]
        return fold_open_txns([(0, "c", None, YEAR_MS), *rows], GAP_MS)

    def write(self, connection: sa.Connection) -> None:
        now = now_ms(connection)
        for table in (TXN_TO_WRITE_ID, NEXT_WRITE_ID):
            connection.execute(sa.delete(table))
        connection.execute(sa.delete(TXNS).where(TXNS.c.TXN_ID > 0))
        for txn in self.txns:
            started = now + (YEAR_MS if txn.young else -YEAR_MS)
            connection.execute(sa.insert(TXNS), {
                "TXN_ID": txn.id, "TXN_STATE": txn.state, "TXN_TYPE": txn.type, "TXN_STARTED": started,
                "TXN_LAST_HEARTBEAT": now, "TXN_USER": "u", "TXN_HOST": "h",
            })  # fmt: skip
        for table, pairs in self.write_ids.items():
            name = {"NWI_DATABASE": table.database, "NWI_TABLE": table.name}
            connection.execute(sa.insert(NEXT_WRITE_ID), {**name, "NWI_NEXT": len(pairs) + 1})
            for txn_id, write_id in pairs:
                connection.execute(sa.insert(TXN_TO_WRITE_ID), {
                    "T2W_TXNID": txn_id, "T2W_DATABASE": table.database, "T2W_TABLE": table.name,
                    "T2W_WRITEID": write_id,
                })  # fmt: skip


@pytest.mark.hive4("a Hive 3 counts its txns: there are no gaps")
@pytest.mark.rule("R11")
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_a_snapshot_is_what_folding_all_rows_gives(client: MetastoreClient, first: int) -> None:
    for number in range(first, first + 20):
        history = History.of(number)
        opened = history.open_txns()
        with client.database.transaction() as connection:
            history.write(connection)
        with client.database.reading() as connection:
            assert low_boundary(connection, GAP_MS) == history.boundary(), number
            oldest = min((txn.id for txn in history.txns if txn.state == "o"), default=HIGHEST)
            assert min_open_watermark(connection, GAP_MS) == min(oldest, history.boundary() + 1), number
            for current in (0, *(txn.id for txn in history.txns)):
                expected = read_txn_list(opened, current)
                snapshot = take_snapshot(connection, TABLES, current, GAP_MS)
                assert (snapshot.txns, snapshot.valid_txns) == (opened, expected), (number, current)
                lists = {
                    table: fold_write_ids(str(table), pairs, expected, len(pairs) + 1 if table in TABLES[:2] else None)
                    for table in TABLES
                    for pairs in [history.write_ids.get(table, [])]
                }
                assert snapshot.write_ids == lists, (number, current)
                if not current:  # a list does not say whose it is, and only its owner sees his own writes
                    assert valid_write_ids(connection, TABLES, expected) == lists, number


@pytest.mark.backends("mariadb", "mysql")
def test_the_write_ids_of_aborted_txns_are_found_one_by_one(client: MetastoreClient) -> None:
    """Each by the index, however many of the table's write ids come before it."""
    table, number = TABLES[0], 300
    history = History(
        [Txn(i, "a" if i < number else "c", 0, young=False) for i in range(1, number + 1)],
        {table: [(i, i) for i in range(1, number + 1)]},
    )
    with client.database.transaction() as connection:
        history.write(connection)
    with client.database.reading() as connection:
        before = sum(int(row[1]) for row in connection.execute(READ))
        found = take_snapshot(connection, [table], 0, GAP_MS).write_ids[table]
        assert sum(int(row[1]) for row in connection.execute(READ)) - before < 20 * number
    assert len(found.aborted) == number - 1


@pytest.mark.backends("mariadb", "mysql")
def test_txns_that_have_committed_are_read_once_by_a_snapshot_and_not_by_a_mark(client: MetastoreClient) -> None:
    with client.database.transaction() as connection:
        rows = [
            {"TXN_ID": i, "TXN_STATE": "c", "TXN_STARTED": 0, "TXN_LAST_HEARTBEAT": 0, "TXN_USER": "u", "TXN_HOST": "h"}
            for i in range(1, 3001)
        ]
        connection.execute(sa.insert(TXNS), rows)
    with client.database.reading() as connection:
        for look, most in (
            (lambda: take_snapshot(connection, TABLES[:1], 0, GAP_MS), 3500),
            (lambda: low_boundary(connection, GAP_MS), 500),
            (lambda: min_open_watermark(connection, GAP_MS), 500),
        ):
            before = sum(int(row[1]) for row in connection.execute(READ))
            look()
            assert sum(int(row[1]) for row in connection.execute(READ)) - before < most
