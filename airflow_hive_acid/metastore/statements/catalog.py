"""The catalog of a client: what reads and changes it, and the statements that need a txn and locks.

Tables and partitions have their statements in files of their own; here they become one catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.catalog.catalog import Catalog
from airflow_hive_acid.metastore.catalog.changes import CatalogChanges
from airflow_hive_acid.metastore.catalog.rows.places import SHARED, Places
from airflow_hive_acid.metastore.catalog.rows.sharing import Sharers
from airflow_hive_acid.metastore.database.backend import backend_of
from airflow_hive_acid.metastore.leases.holders import fence
from airflow_hive_acid.metastore.setup.abilities import require_verified
from airflow_hive_acid.metastore.statements.locked_tables import LockedTables
from airflow_hive_acid.metastore.statements.partitions import PartitionStatements
from airflow_hive_acid.metastore.statements.replacement import ReplacementStatements
from airflow_hive_acid.metastore.statements.statistics import StatisticsStatements
from airflow_hive_acid.metastore.statements.tables import TableStatements
from airflow_hive_acid.metastore.statements.views import ViewStatements

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.verbs import Verbs


class HiveCatalog(Catalog):
    """The catalog with all of Hive's statements.

    :param client: opens the txns; its user is noted as who changed a table.
    """

    def __init__(self, client: Verbs) -> None:
        def fenced(connection: Connection) -> None:
            insists = client.settings.flag("hive.acid.unverified.metastores")
            require_verified(backend_of(connection).layout, insists)
            if (lease := client.leases.current) is not None:
                fence(connection, lease)

        super().__init__(
            CatalogChanges(
                client.database, client.user, client.notifications, fence=fenced,
                may_share=lambda: client.settings.flag(SHARED), unit=lambda: client.claims.current,
            )
        )  # fmt: skip
        places, sharers, locked = Places(client.database), Sharers(client.database), LockedTables(self, client)
        self.roots = places.roots
        self.owner_of_location = places.owner_of_location
        self.home_in = places.home_in
        self.shared_places = sharers.shared_places
        self.shared_partition_places = sharers.shared_partition_places
        self.owned_homes = sharers.owned_homes
        self.taken_places = sharers.taken_places
        self.strangers_in = sharers.strangers_in
        tables, partitions = TableStatements(locked), PartitionStatements(locked, sharers)
        self.analyze = StatisticsStatements(locked).analyze
        self.alter_database = tables.alter_database
        self.alter_properties = tables.alter_properties
        self.alter_owner = tables.alter_owner
        self.add_constraint = tables.add_constraint
        self.drop_constraint = tables.drop_constraint
        self.constraints = tables.constraints
        self.add_columns = tables.add_columns
        self.replace_columns = tables.replace_columns
        self.change_column = tables.change_column
        self.alter_storage = tables.alter_storage
        self.rename_table = tables.rename_table
        self.touch = tables.touch
        replacement = ReplacementStatements(locked)
        self.reserve_replacement = replacement.reserve_replacement
        self.replace_table_in = replacement.replace_table_in
        views = ViewStatements(locked)
        self.create_view = views.create_view
        self.alter_view_query = views.alter_view_query
        self.alter_view_properties = views.alter_view_properties
        self.drop_view = views.drop_view
        self.add_locked_partitions = partitions.add_locked_partitions
        self.alter_partition = partitions.alter_partition
        self.rename_partition = partitions.rename_partition
        self.drop_partitions = partitions.drop_partitions
        self.drop_plain_partitions = partitions.drop_plain_partitions
