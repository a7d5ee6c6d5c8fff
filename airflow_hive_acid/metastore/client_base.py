"""What every client of a metastore has: connections, settings, heartbeats, and the rooms around them."""

from __future__ import annotations

import contextlib
import getpass
import socket
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.catalog.thrift.write_events import WriteEvents
from airflow_hive_acid.metastore.compaction.cleaning_records import CleaningRecords
from airflow_hive_acid.metastore.compaction.measures import Measures
from airflow_hive_acid.metastore.compaction.queue import CompactionQueue
from airflow_hive_acid.metastore.compaction.trash_records import TrashRecords
from airflow_hive_acid.metastore.database.database import Database
from airflow_hive_acid.metastore.database.failures import FailureRules
from airflow_hive_acid.metastore.database.heartbeats import Heartbeater
from airflow_hive_acid.metastore.housekeeping import Housekeeping
from airflow_hive_acid.metastore.leases.manager import Leases
from airflow_hive_acid.metastore.locks import manager
from airflow_hive_acid.metastore.notifications.log import LoggedEvent, Notifications
from airflow_hive_acid.metastore.records.claims import Claims
from airflow_hive_acid.metastore.records.mirrors import Mirrors
from airflow_hive_acid.metastore.records.places import PlaceRecords
from airflow_hive_acid.metastore.records.reads import ReadCounts
from airflow_hive_acid.metastore.records.shared_txns import SharedTxns
from airflow_hive_acid.metastore.records.streams import Streams
from airflow_hive_acid.metastore.setup import schema
from airflow_hive_acid.metastore.txns import txns
from airflow_hive_acid.metastore.txns.jobs import Jobs
from airflow_hive_acid.metastore.txns.mutexes import Mutexes
from airflow_hive_acid.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    import sqlalchemy as sa
    from sqlalchemy.engine import Connection
    from typing_extensions import Self


class ClientBase:
    """Connections and background work of a client of one metastore.

    :param url: ``sqlite:///path``, ``postgresql://user:password@host/db`` or ``mysql://user:password@host/db``.
    :param settings: Hive's settings; defaults as ``hive-acid settings`` prints them.
    :param user: who we are in SHOW LOCKS and SHOW TRANSACTIONS; by default the operating system's user.
    :param patient: false for servers, whose threads others wait for: a metastore that cannot be reached is told of
        within seconds instead of tried again and again, and no statement takes long.
    """

    def __init__(
        self,
        url: str | sa.URL,
        settings: Settings | None = None,
        *,
        user: str | None = None,
        host: str | None = None,
        patient: bool = True,
    ) -> None:
        self._settings = settings or Settings()
        self._of_script: ContextVar[Settings | None] = ContextVar("settings", default=None)
        retryable = str(self.settings["hive.txn.retryable.sqlex.regex"].value)
        self.database = Database(url, FailureRules.from_setting(retryable), patient=patient)
        self.user = user or _user()
        self.host = host or socket.gethostname()
        self.gap_timeout_ms = self.settings.milliseconds("hive.txn.opentxn.timeout")
        self.heartbeats = Heartbeater(
            self.heartbeat,
            self.settings.seconds("hive.txn.timeout") / 2,
            self.settings.integer("hive.txn.heartbeat.threadpool.size"),
        )
        self.own_txns: set[int] = set()
        """Txns that this client has opened, or taken over from another process, and has not ended."""
        self.mutexes = Mutexes(self.database)
        self.notifications = Notifications(self.database, self.settings)
        self._gate = txns.OpenGate(
            self.settings.integer("hive.max.open.txns"), self.settings.milliseconds("hive.count.open.txns.interval")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop heartbeats and close connections; txns that are still open will time out."""
        self.heartbeats.close()
        self.mutexes.close()
        self.database.close()

    @property
    def settings(self) -> Settings:
        """The settings in force: those of the script that this thread runs, if it has set some."""
        return self._of_script.get() or self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._settings = settings

    @contextlib.contextmanager
    def with_settings(self, settings: Settings) -> Iterator[None]:
        """Around work of this thread for which other settings are in force; what runs beside it keeps the client's."""
        token = self._of_script.set(settings)
        try:
            yield
        finally:
            self._of_script.reset(token)

    def heartbeat(self, txn_id: int = 0, lock_id: int = 0) -> None:
        """Keep a txn, a lock, or both alive.

        :raises TxnAbortedError: when the txn is aborted; the text says why.
        :raises NoSuchTxnError: when it is committed or unknown.
        :raises NoSuchLockError: when the lock is gone.
        """

        def operation(connection: Connection) -> None:
            if lock_id:
                manager.heartbeat_lock(connection, lock_id)
            if txn_id:
                txns.heartbeat_txn(connection, txn_id)

        self.database.run(operation, hot=True)

    # --- schema and rooms -----------------------------------------------------------------------------------------

    def create_schema(self) -> None:
        """Create all tables in an empty database; on a metastore that is there, add our own tables."""
        schema.create_schema(self.database)

    def upgrade_schema(self) -> schema.SchemaUpgrade:
        """Create or upgrade our own tables in a metastore that Hive's schema tool has made.

        :return: what was done.
        :raises SchemaVersionError: when it is no metastore of a Hive 3.1 or 4.0 to 4.2, or our tables are newer.
        """
        return schema.upgrade_schema(self.database)

    def check_schema(self) -> schema.SchemaState:
        """What the metastore holds.

        :raises SchemaVersionError: when it is no metastore of a Hive 3.1 or 4.0 to 4.2.
        """
        return schema.check_schema(self.database)

    @cached_property
    def write_events(self) -> WriteEvents:
        """What writes tell of their files."""
        return WriteEvents(self.database, self.notifications, self.settings)

    @cached_property
    def compactions(self) -> CompactionQueue:
        """The compaction queue."""
        return CompactionQueue(self.database, self.gap_timeout_ms, self.mutexes.hold)

    @cached_property
    def housekeeping(self) -> Housekeeping:
        """Time-outs and purges."""
        return Housekeeping(self.database, self.settings, self.mutexes, self.notifications)

    @cached_property
    def leases(self) -> Leases:
        """Leases on tables and partitions."""
        return Leases(self.database, self.settings, self.user, self.host, self.housekeeping.end_dead)

    @cached_property
    def jobs(self) -> Jobs:
        """The record of Spark jobs."""
        return Jobs(self.database)

    @cached_property
    def cleanings(self) -> CleaningRecords:
        """The record of what the Cleaner did and what it keeps."""
        return CleaningRecords(self.database)

    @cached_property
    def measures(self) -> Measures:
        """How large tables and partitions were."""
        return Measures(self.database)

    @cached_property
    def reads(self) -> ReadCounts:
        """How often tables and partitions are read."""
        return ReadCounts(self.database)

    @cached_property
    def places(self) -> PlaceRecords:
        """The directories that this metastore knows again."""
        return PlaceRecords(self.database)

    @cached_property
    def mirrors(self) -> Mirrors:
        """The record of copies in Iceberg and Delta."""
        return Mirrors(self.database)

    @cached_property
    def trash(self) -> TrashRecords:
        """The record of what the Cleaner moved to the trash."""
        return TrashRecords(self.database)

    @cached_property
    def claims(self) -> Claims:
        """Idempotency records."""
        return Claims(self.database)

    @cached_property
    def streams(self) -> Streams:
        """The record of streams of micro-batches."""
        return Streams(self.database)

    @cached_property
    def shared_txns(self) -> SharedTxns:
        """The record of transactions that several tasks work in."""
        return SharedTxns(self.database)

    def events_after(self, event_id: int, limit: int = 1000) -> list[LoggedEvent]:
        """Events of the notification log with larger ids than this, in order; each decodes its message."""
        return self.notifications.events_after(event_id, limit)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        return "unknown"
