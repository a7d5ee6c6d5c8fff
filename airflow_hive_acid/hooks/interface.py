"""What the helpers of the hook ask of it, so that they need not know the hook itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings


class ConnectedHook(Protocol):
    """A hook of a metastore, as :class:`~airflow_hive_acid.hooks.hive_acid.HiveAcidHook` is one."""

    hive_acid_conn_id: str

    @property
    def settings(self) -> Settings:
        """Those of the connection."""

    def get_conn(self) -> MetastoreClient:
        """The client of the metastore, one for the life of the hook."""

    def get_engine(self, *, agent_info: str = "airflow") -> Engine:
        """An engine whose statements say in the metastore on whose behalf they run."""
