"""How the catalog is changed: in one database transaction with its events, ids fetched before, and fenced."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_hive_acid.errors import CommitStateUnknownError
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind, IdPool
from airflow_hive_acid.metastore.catalog.thrift.events import CatalogEvents
from airflow_hive_acid.metastore.database.database import OutcomeUnknownError
from airflow_hive_acid.metastore.txns.job_places import jobs_in_the_way
from airflow_hive_acid.metastore.txns.jobs import require_fenced

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.notifications.log import Notifications

T = TypeVar("T")


class Unit(Protocol):
    """A piece of work that is recorded with the change that it makes (claims)."""

    committed: bool

    def in_commit(self, txn_id: int | None) -> Callable[[Connection], None]:
        """What records it, in the transaction of the change."""

    def is_applied(self, connection: Connection) -> bool:
        """Whether it is recorded already: the answer to the commit was lost."""


class CatalogChanges:
    """What every change of a catalog needs.

    :param database: the metastore database.
    :param user: owner of what is created; by default the operating system's user.
    :param log: where changes are told.
    :param fence: refuses a change when the lease under which it is made has ended (R8); by default nobody has one.
    :param may_share: whether two tables may have one directory.
    :param unit: the piece of work that a change belongs to, if there is one.
    """

    def __init__(
        self,
        database: Database,
        user: str | None = None,
        log: Notifications | None = None,
        *,
        fence: Callable[[Connection], None] = lambda connection: None,
        may_share: Callable[[], bool] = lambda: False,
        unit: Callable[[], Unit | None] = lambda: None,
    ) -> None:
        self.database = database
        self.user = user or getpass.getuser()
        self.events = CatalogEvents(log)
        self.ids = IdPool(database)
        self.may_share = may_share
        self._fence = fence
        self._unit = unit

    def run(self, operation: Callable[[Connection], T], *kinds: IdKind) -> T:
        """A verb that is a transaction of its own, with its events.

        :param kinds: of ids that it may need, fetched before.
        :raises CommitStateUnknownError: when the answer to the commit of a recorded piece of work was lost: its record
            says what became of it (R17).
        """
        for kind in kinds:
            self.ids.reserve(kind, 1)
        unit, tried = self._unit(), False

        def whole(connection: Connection) -> T:
            nonlocal tried
            again, tried = tried, True
            if again and unit is not None and unit.is_applied(connection):
                # What it has made would be found as somebody else's.
                raise CommitStateUnknownError("the connection broke while the change of the catalog was committed")
            result = operation(connection)
            if unit is not None:
                unit.in_commit(None)(connection)
            self._fence(connection)
            return result

        try:
            result = self.database.run(self.events.finishing(whole))
        except OutcomeUnknownError as error:
            if unit is None:
                raise
            raise CommitStateUnknownError(str(error)) from error
        if unit is not None:
            unit.committed = True
        return result

    def require_fenced(
        self, connection: Connection, key: TableName, besides: int | None = None, partitions: Collection[str] = ()
    ) -> None:
        """Refuse to go on while jobs of other txns than ``besides`` may still write into a table (R4).

        :param partitions: it is about these only, which are locked.
        """
        if self.database.features(connection).extensions:
            among = jobs_in_the_way(connection, key, partitions) if partitions else None
            require_fenced(connection, key, besides, among)
