"""What a job spec is told about a table."""

from airflow_hive_acid.engine.tables.snapshots import partition_refs, table_snapshot
from airflow_hive_acid.format.jobs import Column, PartitionRef
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.metastore.catalog.values.formats import ORC
from airflow_hive_acid.metastore.catalog.values.model import MANAGED_TABLE, Partition
from airflow_hive_acid.sql.model.pruning import KEEP_ALL
from tests.tables import flat_table

ACID = {"transactional": "true", "orc.compress": "ZLIB", "comment": "x"}


def table_of(partition_columns=(), properties=None):
    return flat_table(
        db="db", name="t", id=1, location="file:/w/t", columns=(Column("a", "int"),), owner=None, type=MANAGED_TABLE,
        partition_columns=partition_columns, properties=ACID if properties is None else properties,
        input_format=ORC.input_format, serde=ORC.serde,
    )  # fmt: skip


class Only:
    """Keeps one value."""

    def __init__(self, value):
        self.value = value

    def keeps(self, values):
        return values == (self.value,)


def test_unpartitioned_table_is_one_unnamed_partition():
    lists = ValidWriteIdList.parse("db.t:5:9223372036854775807::"), ValidTxnList.parse("9:9223372036854775807::")
    snapshot = table_snapshot(table_of(), (), KEEP_ALL, *lists)
    assert snapshot.partitions == (PartitionRef("", "file:/w/t"),)
    assert snapshot.write_ids == "db.t:5:9223372036854775807::"
    assert snapshot.txns == "9:9223372036854775807::"
    assert snapshot.properties == {"orc.compress": "ZLIB"}
    assert snapshot.transactional


def test_partitions_that_cannot_matter_are_left_out():
    partitions = [Partition(f"k={i}", (str(i),), f"file:/w/t/k={i}") for i in range(3)]
    table = table_of((Column("k", "int"),))
    snapshot = table_snapshot(table, partition_refs(partitions), Only("1"), None, None)
    assert snapshot.partitions == (PartitionRef("k=1", "file:/w/t/k=1", ("1",)),)


def test_plain_table_has_no_lists():
    snapshot = table_snapshot(table_of(properties={}), (), KEEP_ALL, None, None)
    assert (snapshot.transactional, snapshot.write_ids, snapshot.txns) == (False, "", "")
