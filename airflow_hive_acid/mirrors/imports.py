"""Comparing an imported table with its source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.statements.programs import Call
from airflow_hive_acid.errors import ImportDiffersError, InvalidArgumentsError
from airflow_hive_acid.metastore.listing import cleaned_up_to
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.mirrors.reports import Verification

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.engine.statements.foreign_tables import Imported
    from airflow_hive_acid.metastore import MetastoreClient

_MODULE = "airflow_hive_acid.spark.mirrors.foreign_tables"


def verify_import(client: MetastoreClient, engine: Engine, made: Imported) -> Verification:
    """Compare counts and checksums of each partition, at the version that was imported.

    :param made: what :meth:`~airflow_hive_acid.engine.engine.Engine.import_table` has returned.
    :raises ImportDiffersError: when they differ, naming partitions; the table stays as it is.
    :raises HistoryGoneError: when the table was changed, compacted and cleaned meanwhile.
    :raises InvalidArgumentsError: when the files have stayed where they are: there is only one side.
    """
    wanted = made.wanted
    if wanted.reuse_files:
        raise InvalidArgumentsError(f"{wanted.table} consists of the files of {wanted.source}: there are no two sides")
    write_id = made.results[0].write_ids[wanted.table]
    cleaned = client.database.read(lambda connection: cleaned_up_to(connection, table_name(wanted.table)))
    call = Call(
        f"verification of {wanted.table}", {wanted.table: "select"}, module=_MODULE, function="compare",
        arguments={
            "table": wanted.table, "format": wanted.source.format, "options": wanted.source.options(made.version),
            "names": dict(wanted.columns), "write_id": write_id, "cleaned": cleaned,
        },
    )  # fmt: skip
    rows = engine.call(call).rows
    if rows is None:
        raise AssertionError("a job without an answer")
    told: dict[str, Any] = json.loads(rows.rows[0][0])
    source_rows, table_rows = told["rows"]
    found = Verification(
        wanted.table, str(wanted.source), write_id, source_rows, table_rows, told["partitions"], told["differ"],
        tuple(told["different"]),
    )  # fmt: skip
    if not found.is_equal:
        raise ImportDiffersError(
            f"{wanted.table} is not what {wanted.source} is: {found.shown_differences}. The table stays as it is; drop "
            "it and import again once the cause is known"
        )
    return found
