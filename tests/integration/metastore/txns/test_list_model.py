"""Lists from the database, which fetches only what can matter, against the folds over everything that ever was."""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_hive_acid.format.write_ids import (
    OpenTxns,
    ValidTxnList,
    ValidWriteIdList,
    fold_write_ids,
    read_txn_list,
)
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.setup import schema
from tests.examples import examples
from tests.folds import fold_open_txns
from tests.models import embedded_metastore

GAP_MS = 1000  # hive.txn.opentxn.timeout
YEAR_MS = 365 * 86_400_000
TABLES = ("db.t", "db.u", "db.never")
#: A slow machine must not decide what is young: that lies in the future, and the rest is a year old.
ADD = sa.update(schema.TXNS).where(schema.TXNS.c.TXN_ID > 0)
AGE = ADD.values(TXN_STARTED=schema.TXNS.c.TXN_STARTED + sa.bindparam("by_ms"))

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["open", "open", "open", "read", "write", "write", "write", "commit", "commit", "abort", "age"]
        ),
        st.integers(0, 20),
        st.sampled_from(TABLES[:2]),
    ),
    min_size=4,
    max_size=25,
)


@dataclass
class History:
    """Everything that happened, forgotten by nobody."""

    states: dict[int, str] = field(default_factory=dict)
    types: dict[int, TxnType] = field(default_factory=dict)
    young: set[int] = field(default_factory=set)
    write_ids: dict[str, list[int]] = field(default_factory=lambda: {table: [] for table in TABLES})

    def open_txns(self) -> OpenTxns:
        return fold_open_txns(
            [(0, "c", None, YEAR_MS)]
            + [(i, s, int(self.types[i]), 0 if i in self.young else YEAR_MS) for i, s in sorted(self.states.items())],
            GAP_MS,
        )

    def lists(self, txns: ValidTxnList, unseen: frozenset[int] = frozenset()) -> dict[str, ValidWriteIdList]:
        found = {}
        for table, writers in self.write_ids.items():
            rows = [(txn_id, write_id) for write_id, txn_id in enumerate(writers, 1)]
            found[table] = fold_write_ids(table, rows, txns, len(rows) + 1 if rows else None, unseen)
        return found


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_the_database_gives_the_lists_that_folding_all_rows_gives(history: list[tuple[str, int, str]]) -> None:
    with embedded_metastore() as client:
        model = History()
        for kind, number, table in history:
            alive = [i for i, s in model.states.items() if s == "o"]
            writers = [i for i in alive if model.types[i] is TxnType.DEFAULT and i not in model.write_ids[table]]
            if kind in ("open", "read"):
                type_ = TxnType.READ_ONLY if kind == "read" else TxnType.DEFAULT
                txn_id = client.open_txn(type=type_)
                with client.database.transaction() as connection:
                    connection.execute(AGE.where(schema.TXNS.c.TXN_ID == txn_id), {"by_ms": YEAR_MS})
                model.states[txn_id], model.types[txn_id] = "o", type_
                model.young.add(txn_id)
            elif kind == "age":
                with client.database.transaction() as connection:
                    connection.execute(AGE, {"by_ms": -2 * YEAR_MS})
                model.young.clear()
            elif kind == "write" and writers:
                txn_id = writers[number % len(writers)]
                allocated = client.allocate_write_ids(table, txn_id)
                model.write_ids[table].append(txn_id)
                assert allocated == {txn_id: len(model.write_ids[table])}
            elif kind == "commit" and alive:
                txn_id = alive[number % len(alive)]
                client.commit_txn(txn_id)
                model.states[txn_id] = "c"
            elif kind == "abort" and alive:
                txn_id = alive[number % len(alive)]
                client.abort_txn(txn_id)
                model.states[txn_id] = "a"
            txns = read_txn_list(model.open_txns())
            assert client.get_valid_txns() == txns
            assert client.get_valid_write_ids(TABLES) == model.lists(txns)
            for table, valid in client.get_valid_write_ids(TABLES, txns).items():
                # What a list is for, said without folding: the ids of committed txns.
                visible = {w for w, t in enumerate(model.write_ids[table], 1) if model.states[t] == "c"}
                shown = {w for w, _ in enumerate(model.write_ids[table], 1) if valid.is_valid(w)}
                assert shown == visible, (table, str(txns), str(valid))
