"""How the catalog is changed: in one database transaction with its events, ids fetched before, and fenced."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, TypeVar

from airflow_hive_acid.metastore.catalog.ids import IdKind, IdPool
from airflow_hive_acid.metastore.catalog.thrift.events import CatalogEvents
from airflow_hive_acid.metastore.txns.jobs import require_fenced

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.database import database as db
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.notifications.log import Notifications

T = TypeVar("T")


class CatalogBase:
    """What every verb of the catalog needs.

    :param database: the metastore database.
    :param user: owner of what is created; by default the operating system's user.
    :param log: where changes are told.
    """

    def __init__(self, database: db.Database, user: str | None = None, log: Notifications | None = None) -> None:
        self._database = database
        self.events = CatalogEvents(log)
        self._ids = IdPool(database)
        self._user = user or getpass.getuser()

    @property
    def ids(self) -> IdPool:
        """The ids that this process has fetched and not used yet."""
        return self._ids

    def _change(self, operation: Callable[[Connection], T]) -> T:
        """A verb that is a transaction of its own, with its events; under a lease only while that is held (R8)."""

        def fenced(connection: Connection) -> T:
            result = operation(connection)
            self._fence(connection)
            return result

        return self._database.run(self.events.finishing(fenced))

    def _fence(self, connection: Connection) -> None:
        """Refuse a change when the lease under which it is made has ended; here nobody has one."""

    def _may_share(self) -> bool:
        """Whether two tables may have one directory."""
        return False

    def _run(self, operation: Callable[[Connection], T], *kinds: IdKind) -> T:
        """Run a change with the ids it may need fetched before."""
        for kind in kinds:
            self._ids.reserve(kind, 1)
        return self._change(operation)

    def require_fenced(self, connection: Connection, key: TableName, besides: int | None = None) -> None:
        """Refuse to go on while jobs of other txns than ``besides`` may still write into a table (R4)."""
        if self._database.features(connection).extensions:
            require_fenced(connection, key, besides)
