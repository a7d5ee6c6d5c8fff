"""``airflow hive-acid``: the command line of this package on an Airflow connection, wherever Airflow can read that.

Airflow imports this module whenever somebody says ``airflow …`` and asks :func:`get_cli_commands` (the provider
information's ``cli``), so that everything else is imported when the command runs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow.cli.cli_config import ActionCommand, Arg, lazy_load_command

if TYPE_CHECKING:
    from airflow.cli.cli_config import CLICommand

_CONNECTION = Arg(  # type: ignore[no-untyped-call]
    ("--conn-id",),
    default="hive_acid_default",
    help="The connection of type hive_acid to work on (default: hive_acid_default)",
)
_ARGUMENTS = Arg(  # type: ignore[no-untyped-call]
    ("arguments",),
    nargs=argparse.REMAINDER,
    metavar="COMMAND …",
    help="sql, tables, describe, explain, ingest, import, changes, history, settings, doctor, demo, schema, show, "
    "maintenance, lease, replication, mirror, pin, cleaning, compaction, stream or spark, with its options; 'airflow "
    "hive-acid sql --help' says more",
)


def get_cli_commands() -> list[CLICommand]:
    """What Airflow adds to its own commands."""
    return [
        ActionCommand(
            name="hive-acid",
            help="Hive's ACID tables: SQL, locks, transactions, compaction",
            description="What hive-acid does, on the metastore, warehouse and Spark of an Airflow connection. Exit "
            "codes: 0 done; 1 it failed; 2 the command line is wrong; 3 the doctor found something.",
            func=lazy_load_command("airflow_hive_acid.airflow_session.run"),
            args=(_CONNECTION, _ARGUMENTS),
        )
    ]
