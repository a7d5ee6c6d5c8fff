"""What the parts of the engine share: the metastore, the Spark application, filesystems, and whom to tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.filesystem.uris import scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.engine.applications import SharedApplication
    from airflow_hive_acid.engine.events import Event
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog_model import Table


@dataclass(slots=True)
class Context:
    """Shared by everything one engine does.

    :param warehouse: where managed tables go if the catalog does not know yet.
    :param agent_info: how our txns and locks name us in the metastore.
    :param views: temporary views of the session, by lower-case name.
    """

    client: MetastoreClient
    application: SharedApplication
    warehouse: str | None
    emit: Callable[[Event], None]
    agent_info: str
    views: dict[str, Source] = field(default_factory=dict)
    _filesystems: dict[str, Filesystem] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        """A table of the catalog.

        :raises NoSuchObjectError: naming the tables that are spelt like it.
        """
        return self.client.catalog.get_table(name)

    def filesystem(self, uri: str) -> Filesystem:
        """The filesystem a location lies on; one per scheme and authority."""
        key = scheme_of(uri) if "//" not in uri else "/".join(uri.split("/")[:3])
        if key not in self._filesystems:
            self._filesystems[key] = open_filesystem(uri)
        return self._filesystems[key]
