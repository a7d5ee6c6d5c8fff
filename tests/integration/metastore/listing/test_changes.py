"""What of a range of changes is gone with its partition: told from the log, whatever the table is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import ChangesNoLongerAvailableError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionAlteration
from airflow_hive_acid.metastore.listing.changes import altered_after, require_partitions_kept
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.statements.catalog import HiveCatalog

COLUMNS, KEY = (Column("id", "int"),), (Column("k", "string"),)


@pytest.fixture
def catalog(client: MetastoreClient) -> HiveCatalog:
    """w.t with the partitions k=a and k=b; write ids 1 to 3 are given."""
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_database("w")
    client.catalog.create_table(TableDefinition("w", "t", COLUMNS, KEY))
    client.catalog.add_partitions("w.t", [("a",), ("b",)])
    write(client, 3)
    return client.catalog


def write(client: MetastoreClient, times: int, table: str = "w.t") -> None:
    for _ in range(times):
        with client.transaction({table: "insert"}) as txn:
            txn.add_partitions(table, ["k=a"])


def require(client: MetastoreClient, first: int, table: str = "w.t") -> None:
    database = client.database
    database.read(
        lambda connection: require_partitions_kept(connection, database.features(connection), table_name(table), first)
    )


def refused(client: MetastoreClient, first: int, why: str, table: str = "w.t") -> None:
    with pytest.raises(ChangesNoLongerAvailableError, match=why):
        require(client, first, table)


@pytest.mark.every_database
def test_rows_of_a_renamed_partition_are_in_another_one_by_no_write_id(
    catalog: HiveCatalog, client: MetastoreClient
) -> None:
    """Write id 4 is the rename's. Applied to what was there before, the changes would leave the rows in k=a."""
    catalog.rename_partition("w.t", ("a",), ("z",))
    write(client, 1)
    refused(client, 4, r"from write id 4 on .* a partition was renamed or moved since .* Those of write ids from 5 on")
    require(client, 5)


def test_another_directory_is_other_rows_and_another_property_is_not(
    catalog: HiveCatalog, client: MetastoreClient
) -> None:
    catalog.alter_partition("w.t", ("a",), PartitionAlteration(properties={"owner": "books"}))
    require(client, 1)
    catalog.alter_partition("w.t", ("a",), PartitionAlteration(location="file:/elsewhere/a"))
    refused(client, 5, "renamed or moved")
    require(client, 6)


def test_a_drop_is_known_under_the_tables_new_name(catalog: HiveCatalog, client: MetastoreClient) -> None:
    require(client, 1)
    catalog.drop_partition("w.t", ("a",))
    dropped = client.get_valid_write_ids(["w.t"])["w.t"].high_watermark
    write(client, 1)
    catalog.rename_table("w.t", "w.u")
    write(client, 1, "w.u")
    refused(client, dropped, rf"a partition was dropped since .* from {dropped + 1} on", "w.u")
    require(client, dropped + 1, "w.u")


@pytest.mark.every_database
def test_what_no_write_id_tells_of_is_known_by_the_event_up_to_which_a_reader_knows(
    catalog: HiveCatalog, client: MetastoreClient
) -> None:
    """A Hive may drop a partition without a write id: whoever has read up to 3 goes on with 4, which is given later."""
    known = client.notifications.current_event_id()

    def altered(event_id: int) -> str | None:
        return client.database.read(lambda connection: altered_after(connection, table_name("w.t"), event_id=event_id))

    write(client, 1)
    assert altered(known) is None
    catalog.drop_partition("w.t", ("a",))
    assert client.get_valid_write_ids(["w.t"])["w.t"].high_watermark == 4
    require(client, 5)
    assert altered(known) == "a partition was dropped"
    assert altered(client.notifications.current_event_id()) is None


def test_a_former_table_of_the_name_is_another_one(catalog: HiveCatalog, client: MetastoreClient) -> None:
    catalog.drop_partition("w.t", ("a",))
    write(client, 2)
    catalog.drop_table("w.t")
    client.catalog.create_table(TableDefinition("w", "t", COLUMNS, KEY))
    write(client, 1)
    require(client, 1)


@pytest.mark.every_database
def test_an_event_that_cannot_be_read_may_have_been_a_rename(catalog: HiveCatalog, client: MetastoreClient) -> None:
    catalog.alter_partition("w.t", ("a",), PartitionAlteration(properties={"owner": "books"}))
    log = NOTIFICATION_LOG.c
    broken = sa.update(NOTIFICATION_LOG).where(log.EVENT_TYPE == "ALTER_PARTITION").values(MESSAGE="{}")
    client.database.run(lambda connection: connection.execute(broken))
    refused(client, 4, "renamed or moved")
