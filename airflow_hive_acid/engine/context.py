"""What the parts of the engine share: the metastore, the Spark application, the warehouse's files, and whom to tell."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.choice import locking_of
from airflow_hive_acid.engine.outcomes.events import Noted
from airflow_hive_acid.engine.tables.lookup import Tables
from airflow_hive_acid.filesystem import AnyFilesystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.engine.applications.shared_application import SharedApplication
    from airflow_hive_acid.engine.locking.interface import Locking
    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery


@dataclass(slots=True)
class Context:
    """Shared by everything one engine does.

    :param warehouse: where managed tables go if the catalog does not know yet.
    :param agent_info: how our txns and locks name us in the metastore.
    :param views: temporary views of the session over files, by lower-case name.
    :param queries: temporary views of a query, by lower-case name.
    :ivar tables: looks tables up, also those that are only made in the commit of what is run now.
    :ivar locking: what the configured transaction manager allows and locks; chosen here, once.
    """

    client: MetastoreClient
    application: SharedApplication
    warehouse: str | None
    emit: Callable[[Event], None]
    agent_info: str
    settings: Settings
    views: dict[str, Source] = field(default_factory=dict)
    queries: dict[str, CreateTemporaryQuery] = field(default_factory=dict)
    filesystem: StreamingFilesystem = field(default_factory=AnyFilesystem)
    tables: Tables = field(init=False)
    locking: Locking = field(init=False)
    _noted: list[str] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.tables = Tables(self.client)
        self.locking = locking_of(self.client, self.settings, self.tables, self.agent_info)

    def note(self, said: str) -> None:
        """Tell what somebody should know who reads the result of a statement; it becomes part of that, too."""
        if self._noted is not None:
            self._noted.append(said)
        self.emit(Noted(said))

    @contextlib.contextmanager
    def notes(self) -> Iterator[list[str]]:
        """What is noted inside the block."""
        before, self._noted = self._noted, []
        try:
            yield self._noted
        finally:
            self._noted = before

    def table(self, name: str) -> Table:
        """A table of the catalog.

        :raises NoSuchObjectError: naming the tables that are spelt like it.
        """
        return self.tables.table(name)
