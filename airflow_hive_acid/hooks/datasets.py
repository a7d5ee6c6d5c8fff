"""Assets of ours as datasets of OpenLineage, for Airflow's OpenLineage provider."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.hooks.lineage import namespace_of

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from openlineage.client.event_v2 import Dataset


def to_openlineage(asset: Asset, lineage_context: object) -> Dataset:
    """The dataset of an asset of ours, a partition's being that of its table: for inlets, outlets and hook lineage.

    :param lineage_context: the hook that told of it, if one did.
    """
    from openlineage.client.event_v2 import Dataset

    uri = urlsplit(asset.uri)
    database, table = (unquote(part) for part in uri.path.removeprefix("/").split("/")[:2])
    known = isinstance(lineage_context, HiveAcidHook) and lineage_context.hive_acid_conn_id == uri.netloc
    hook = lineage_context if known else HiveAcidHook(uri.netloc)
    return Dataset(namespace_of(hook.connection, hook.settings), f"{database}.{table}")  # type: ignore[attr-defined]
