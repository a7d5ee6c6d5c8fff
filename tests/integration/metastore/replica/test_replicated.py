"""Txns and write ids that follow another Hive's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient


pytestmark = pytest.mark.hive4("no replica on a Hive 3")


@pytest.mark.every_database
@pytest.mark.conformance("T42")
def test_txn_ids_go_on_at_the_seed(client: MetastoreClient, rows: Any) -> None:
    client.open_txn()
    client.seed_txn_id(100)
    assert client.open_txn() == 100
    with pytest.raises(InvalidArgumentsError, match="up to 100 were given already; they cannot go on at 100"):
        client.seed_txn_id(100)
    assert client.open_txn() == 101
    assert rows.count("TXNS") == 4


@pytest.mark.every_database
@pytest.mark.conformance("T43")
def test_source_txns_are_opened_once_and_ended_once(client: MetastoreClient, rows: Any) -> None:
    replica = client.replica("src.db.*")
    targets = replica.open_txns([70, 71])
    assert replica.open_txns([70, 71]) == targets == [1, 2]
    assert client.replica("other").open_txns([70]) == [3]
    replica.commit_txn(70, [("db.t", "p=1", 5), ("db.t", None, 5)])
    assert replica.target_of(70) is None
    replica.commit_txn(70)
    assert rows.txn_state(1)[0] == "c"
    assert rows.select("COMPLETED_TXN_COMPONENTS", "CTC_TXNID", "CTC_TABLE", "CTC_PARTITION", "CTC_WRITEID") == [
        (1, "t", "p=1", 5),
        (1, "t", None, 5),
    ]
    replica.abort_txn(71)
    replica.abort_txn(71)
    assert rows.txn_state(2) == ("a", "replication: aborted in the source")
    assert rows.select("REPL_TXN_MAP", "RTM_REPL_POLICY") == [("other",)]
    assert rows.count("WRITE_SET") == 0


def test_source_txns_that_are_only_partly_open_are_refused(client: MetastoreClient, rows: Any) -> None:
    replica = client.replica("p")
    replica.open_txns([70])
    before = rows.counts()
    with pytest.raises(InvalidArgumentsError, match=r"some are open here and some are not \(\[71\]\)"):
        replica.open_txns([70, 71])
    with pytest.raises(InvalidArgumentsError, match="no source txns"):
        replica.open_txns([])
    with pytest.raises(InvalidArgumentsError, match="replication policy is empty"):
        client.replica("").open_txns([1])
    assert rows.counts() == before


@pytest.mark.every_database
@pytest.mark.conformance("T36")
def test_the_tables_numbering_follows_the_source(client: MetastoreClient, rows: Any) -> None:
    with client.transaction({"db.t": "insert"}):
        pass
    replica = client.replica("p")
    one, two = replica.open_txns([70, 71])
    assert replica.allocate_write_ids("db.t", [(71, 42), (70, 41)]) == {one: 41, two: 42}
    assert rows.select("TXN_TO_WRITE_ID", "T2W_TXNID", "T2W_WRITEID") == [(one, 41), (two, 42)]
    assert rows.select("NEXT_WRITE_ID", "NWI_NEXT") == [(43,)]
    assert replica.allocate_write_ids("db.t", [(70, 41), (71, 42)]) == {one: 41, two: 42}
    [three] = replica.open_txns([72])
    assert replica.allocate_write_ids("db.t", [(72, 43)]) == {three: 43}
    assert rows.count("TXN_TO_WRITE_ID") == 3


def test_write_ids_of_unknown_source_txns_are_refused(client: MetastoreClient, rows: Any) -> None:
    replica = client.replica("p")
    replica.open_txns([70, 71])
    before = rows.counts()
    with pytest.raises(InvalidArgumentsError, match=r"source txns \[99\] of policy 'p' are not open here"):
        replica.allocate_write_ids("db.t", [(70, 1), (99, 2)])
    with pytest.raises(InvalidArgumentsError, match="not consecutive"):
        replica.allocate_write_ids("db.t", [(70, 1), (71, 3)])
    with pytest.raises(InvalidArgumentsError, match="do not ascend with its txns"):
        replica.allocate_write_ids("db.t", [(71, 1), (70, 2)])
    assert rows.counts() == before


@pytest.mark.every_database
@pytest.mark.conformance("T44")
def test_a_copied_table_takes_over_the_sources_state(client: MetastoreClient, rows: Any) -> None:
    replica = client.replica("p")
    assert replica.set_write_id_state("db.t:9:9223372036854775807::3,7", ["p=1", "p=2"])
    # Hive's readers end at 3 until somebody writes; what lies in the files above is the source's all the same.
    assert str(client.get_valid_write_ids("db.t")["db.t"]) == "db.t:9:9223372036854775807::3,7"
    assert rows.select("NEXT_WRITE_ID") == [("db", "t", 10)]
    assert rows.select("TXN_TO_WRITE_ID", "T2W_WRITEID") == [(3,), (7,)]
    assert rows.select("TXNS", "TXN_META_INFO", TXN_STATE="a") == [("replication: aborted in the source",)] * 2
    assert rows.select("COMPACTION_QUEUE", "CQ_PARTITION", "CQ_TYPE", "CQ_STATE") == [
        ("p=1", "a", "i"),
        ("p=2", "a", "i"),
    ]
    before = rows.counts()
    assert not replica.set_write_id_state("db.t:12:9223372036854775807::")
    assert rows.counts() == before
    with client.transaction({"db.t": "insert"}) as txn:
        assert txn.write_ids["db.t"] == 10
    assert str(client.get_valid_write_ids("db.t")["db.t"]) == "db.t:10:9223372036854775807::3,7"


@pytest.mark.every_database
def test_a_replicated_txn_that_is_aborted_here_marks_its_databases(client: MetastoreClient, rows: Any) -> None:
    rows.insert("DBS", DB_ID=1, DB_LOCATION_URI="file:/w", NAME="db", CTLG_NAME="hive")
    # Txns name no catalog; they are those of Hive's own.
    rows.insert("CTLGS", CTLG_ID=9, NAME="other", LOCATION_URI="file:/o")
    rows.insert("DBS", DB_ID=2, DB_LOCATION_URI="file:/o", NAME="db", CTLG_NAME="other")
    replica = client.replica("p")
    one, two = replica.open_txns([70, 71])
    replica.allocate_write_ids("db.t", [(70, 1), (71, 2)])
    client.abort_txn(one)
    assert rows.count("DATABASE_PARAMS", DB_ID=1) == 1
    assert rows.select("DATABASE_PARAMS", "PARAM_KEY", "PARAM_VALUE") == [("repl.incompatible", "true")]
    client.abort_txns([two])
    assert rows.count("DATABASE_PARAMS") == 1
    assert rows.count("REPL_TXN_MAP") == 0
