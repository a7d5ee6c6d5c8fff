"""The demo's replica: a second metastore and warehouse beside the CSV files, which follow the demo's tables.

A real replica has an Airflow connection and a policy in Airflow's configuration
(docs/how-to/running/replication.md); here both are made on the spot.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.dag_factories.demo import checks
from airflow_hive_acid.dag_factories.demo.story import say
from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.statements.exports import Destination
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.replication.cycles.cycle import replicate
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.replication.cycles.runner import CycleReport

_DIRECTORY = "replica"
_MARK = ".airflow_hive_acid_demo"
_AGENT = "airflow/hive_acid_demo"
_LARGE = "demo.flights"
"""Compared by Spark; what is small is fetched."""
_POLICY = {"name": "demo", "source": "the demo", "destination": "its replica", "databases": ["demo"]}


def replicate_first(conn_id: str, directory: str) -> None:
    """Make an empty metastore and warehouse, and copy everything into them."""
    place = Path(directory) / _DIRECTORY
    _start_clean(place)
    with _both(conn_id, place) as (hook, client), hook.get_engine(agent_info=_AGENT, on_event=_quiet) as primary:
        say(f"metastore {client.database.where}\nwarehouse {client.catalog.warehouse()}")
        report = _cycle(primary, client)
        copied = f"{report.files} files with {report.bytes / 1e6:.1f} MB"
        say(f"{copied} of {len(report.tables)} tables, copied and verified")


def follow_and_compare(conn_id: str, directory: str) -> None:
    """Bring what was changed since, and let Spark compare both sides, every row with all its columns."""
    place = Path(directory) / _DIRECTORY
    files = (place / "compared").as_uri()
    with _both(conn_id, place) as (hook, client):
        # One after the other, so that both use the same Spark application.
        with hook.get_engine(agent_info=_AGENT, on_event=_quiet) as primary:
            report = _cycle(primary, client)
            say(f"{report.events} events since; {report.files} files with {report.bytes / 1e6:.1f} MB had to travel")
            exported = primary.export(f"SELECT * FROM {_LARGE}", Destination(files)).rows  # noqa: S608 - ours
            small = {name: _rows(primary, name) for name in checks.TABLES if name != _LARGE}
        warehouse = client.catalog.warehouse()
        with Engine(client, hook.get_launcher(), warehouse, on_event=_quiet, agent_info=_AGENT) as replica:
            say(_require_same(_LARGE, exported, _differing(replica, files)))
            for name, rows in small.items():
                there = _rows(replica, name)
                say(_require_same(name, len(rows), len(set(rows) ^ set(there)) + abs(len(rows) - len(there))))


def _cycle(primary: Engine, client: MetastoreClient) -> CycleReport:
    one = policy(_POLICY)
    # Spark that a sync may need can be anybody's that reads and writes both warehouses.
    target = Site(client, run_job=primary.run_job, name=one.destination)
    report = replicate(one, primary.site(one.source), target, holder=_AGENT)
    if report.kept:
        raise checks.DemoCheckError(f"events that nobody could apply: {report.kept}")
    return report


def _rows(engine: Engine, name: str) -> list[str]:
    return sorted(map(repr, engine.query(f"SELECT * FROM {name}").rows))  # noqa: S608 - a name of ours


def _differing(replica: Engine, files: str) -> int:
    """Rows of the large table that are at one side more often than at the other."""
    replica.run(f"CREATE TEMPORARY VIEW of_primary USING parquet OPTIONS (path '{files}')")
    table = replica.query(f"SELECT * FROM {_LARGE} LIMIT 0")  # noqa: S608 - names of ours
    columns = ", ".join(column.name for column in table.columns)
    both = f"SELECT {columns}, 1 AS n FROM {_LARGE} UNION ALL SELECT {columns}, -1 AS n FROM of_primary"  # noqa: S608
    once = f"SELECT {columns} FROM ({both}) b GROUP BY {columns} HAVING sum(n) <> 0"  # noqa: S608 - names of ours
    return int(replica.query(f"SELECT count(*) FROM ({once}) d").rows[0][0])  # noqa: S608


def _require_same(name: str, rows: int, differing: int) -> str:
    if differing or not rows:
        raise checks.DemoCheckError(f"{name}: of {rows} rows {differing} differ between the demo and its replica")
    return f"{name}: {rows:,} rows, the same on both sides"


@contextlib.contextmanager
def _both(conn_id: str, place: Path) -> Iterator[tuple[HiveAcidHook, MetastoreClient]]:
    url, warehouse = f"sqlite:///{place / 'metastore.db'}", (place / "warehouse").as_uri()
    with HiveAcidHook(conn_id) as hook, MetastoreClient(url, settings=hook.settings) as client:
        client.create_schema()
        client.catalog.set_warehouse(warehouse)
        client.catalog.create_database("demo", if_not_exists=True)
        yield hook, client


def _start_clean(place: Path) -> None:
    """Only what an earlier demo has made is removed.

    :raises ConfigurationError: when it is somebody else's.
    """
    if place.exists() and any(place.iterdir()):
        if not (place / _MARK).is_file():
            raise ConfigurationError(
                f"{place} is not empty and was not made by the demo. Nothing was touched. Give another directory"
            )
        shutil.rmtree(place)
    place.mkdir(parents=True, exist_ok=True)
    (place / _MARK).write_text("The replica of the demo; its next run removes it.\n")


def _quiet(event: Event) -> None:
    """The steps above say themselves what matters."""
