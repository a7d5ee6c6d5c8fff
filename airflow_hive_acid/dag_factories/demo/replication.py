"""The demo's replica: a second metastore and warehouse beside the CSV files, which follow the demo's tables.

A real replica has an Airflow connection and a policy in Airflow's configuration (docs/replication.md); here both are
made on the spot.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.dag_factories.demo import checks
from airflow_hive_acid.dag_factories.demo.story import say
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore import MetastoreClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.engine.events import Event
    from airflow_hive_acid.replication.policies import Policy
    from airflow_hive_acid.replication.runner import CycleReport

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
    with _both(conn_id, place) as (primary, replica, url):
        say(f"metastore {url}\nwarehouse {place / 'warehouse'}")
        report = _cycle(primary, replica)
        copied = f"{report.files} files with {report.bytes / 1e6:.1f} MB"
        say(f"{copied} of {len(report.tables)} tables, copied and verified")


def follow_and_compare(conn_id: str, directory: str) -> None:
    """Bring what was changed since, and let Spark compare both sides, every row with all its columns."""
    place = Path(directory) / _DIRECTORY
    with _both(conn_id, place) as (primary, replica, _):
        report = _cycle(primary, replica)
        say(f"{report.events} events since; {report.files} files with {report.bytes / 1e6:.1f} MB had to travel")
        for name in checks.TABLES:
            say(_compare(primary, replica, name, place))


def _cycle(primary: Engine, replica: Engine) -> CycleReport:
    from airflow_hive_acid.replication.replicating import replicate

    report = replicate(_policy(), primary.site("the demo"), replica.site("its replica"), holder=_AGENT)
    if report.kept:
        raise checks.DemoCheckError(f"events that nobody could apply: {report.kept}")
    return report


def _policy() -> Policy:
    from airflow_hive_acid.replication.policies import policy

    return policy(_POLICY)


def _compare(primary: Engine, replica: Engine, name: str, place: Path) -> str:
    """Every row of both sides with all its columns, as often as it is there.

    :raises DemoCheckError: when a row is at one side more often than at the other.
    """
    from airflow_hive_acid.engine.exports import Destination

    if name != _LARGE:
        here, there = (sorted(map(repr, e.query(f"SELECT * FROM {name}").rows)) for e in (primary, replica))  # noqa: S608
        return _require_same(name, len(here), len(set(here) ^ set(there)) + abs(len(here) - len(there)))
    files = place / "compared" / name
    exported = primary.export(f"SELECT * FROM {name}", Destination(files.as_uri()))  # noqa: S608 - a name of ours
    replica.run(f"CREATE TEMPORARY VIEW of_primary USING parquet OPTIONS (path '{files.as_uri()}')")
    columns = ", ".join(column.name for column in replica.query(f"SELECT * FROM {name} LIMIT 0").columns)  # noqa: S608
    both = f"SELECT {columns}, 1 AS n FROM {name} UNION ALL SELECT {columns}, -1 AS n FROM of_primary"  # noqa: S608
    once = f"SELECT {columns} FROM ({both}) b GROUP BY {columns} HAVING sum(n) <> 0"  # noqa: S608 - names of ours
    differing = replica.query(f"SELECT count(*) FROM ({once}) d").rows[0][0]  # noqa: S608
    return _require_same(name, exported.rows, differing)


def _require_same(name: str, rows: int, differing: int) -> str:
    if differing or not rows:
        raise checks.DemoCheckError(f"{name}: of {rows} rows {differing} differ between the demo and its replica")
    return f"{name}: {rows:,} rows, the same on both sides"


@contextlib.contextmanager
def _both(conn_id: str, place: Path) -> Iterator[tuple[Engine, Engine, str]]:
    from airflow_hive_acid.engine import Engine

    url, warehouse = f"sqlite:///{place / 'metastore.db'}", (place / "warehouse").as_uri()
    with HiveAcidHook(conn_id) as hook, MetastoreClient(url, settings=hook.settings) as client:
        client.create_schema()
        client.catalog.set_warehouse(warehouse)
        client.catalog.create_database("demo", if_not_exists=True)
        with (
            hook.get_engine(agent_info=_AGENT, on_event=_quiet) as primary,
            Engine(client, hook.get_launcher(), warehouse, on_event=_quiet, agent_info=_AGENT) as replica,
        ):
            yield primary, replica, url


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
