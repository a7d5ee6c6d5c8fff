"""What becomes of an object's parameters when it is imported: which stay, which come, which are of the change.

Statistics are kept only where the files are those that they were gathered from. What says which kind of table it is at
the destination, and which states of it were never there, is the destination's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.metastore.catalog import without_column_statistics
from airflow_hive_acid.metastore.replica import OVERWRITTEN, REBALANCED
from airflow_hive_acid.metastore.txns import STATISTICS_ACCURATE, moves_with_commits
from airflow_hive_acid.replication.dumps.state_ids import METADATA_STATE_ID, STATE_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.replication.dumps.state_ids import ObjectState

TRANSLATED, PURGE = "TRANSLATED_TO_EXTERNAL", "external.table.purge"
"""Of a managed table that a metastore of Hive's has made an external one: that it was, and that its files go, too."""
_OF_THE_CHANGE = ("transient_lastDdlTime", "last_modified_by", "last_modified_time")
OF_A_SITE = (STATE_ID, METADATA_STATE_ID, OVERWRITTEN, REBALANCED)
"""What says how far a replica has come; it means nothing elsewhere."""


def with_data(source: Mapping[str, str], state_id: int | None, now: int) -> dict[str, str]:
    """The parameters of a table that comes with its rows.

    :param state_id: of the dump; None outside of replication.
    :param now: seconds since 1970, by the database's clock.
    """
    tags = {} if state_id is None else {STATE_ID: str(state_id)}
    kept = of_partition(source, now)
    return without_column_statistics(inexact(kept) if is_transactional(source) else kept) | tags


def of_partition(source: Mapping[str, str], now: int) -> dict[str, str]:
    """The parameters of a partition that comes with its rows, without a state id."""
    kept = {k: v for k, v in source.items() if k not in (*_OF_THE_CHANGE, *OF_A_SITE)}
    # That columns may have had other names is known at the destination, too: its files are those of the source.
    altered = dict.fromkeys(_altered(source), str(now))
    return {**kept, **altered, "transient_lastDdlTime": str(now)}


def of_metadata(
    before: Mapping[str, str], source: Mapping[str, str], held: ObjectState, state: int, now: int
) -> dict[str, str]:
    """The parameters of an object whose metadata alone changes: state id and kind stay, statistics go.

    :param before: those that it has at the destination.
    :param held: its state there; ``state`` that of the dump.
    """
    tags = {STATE_ID: str(held.state_id)} if held.state_id is not None else {}
    tags |= held.after_import(state, metadata_only=True)
    # Where streams stand comes with rows (acid.sync), and stays where these end.
    tags |= {k: v for k, v in before.items() if moves_with_commits(k)}
    source = {k: v for k, v in source.items() if not moves_with_commits(k)}
    return inexact(of_partition({**_altered(before), **source}, now)) | lasting(before) | tags


def lasting(parameters: Mapping[str, str]) -> dict[str, str]:
    """What stays as it is at the destination: which kind of table it is, and which of its states were never here."""
    return {k: parameters[k] for k in ("EXTERNAL", TRANSLATED, PURGE, OVERWRITTEN, REBALANCED) if k in parameters}


def inexact(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters without the word that statistics are exact."""
    return {key: value for key, value in parameters.items() if key != STATISTICS_ACCURATE}


def _altered(parameters: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in parameters.items() if k == "last_modified_time"}
