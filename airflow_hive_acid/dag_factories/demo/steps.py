"""The steps of the demo that are not plain SQL."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.dag_factories import bodies
from airflow_hive_acid.dag_factories.demo import checks, data, expected, listing, story
from airflow_hive_acid.dag_factories.demo.story import say, some, table
from airflow_hive_acid.engine.applications.java import find_spark_submit, require_java
from airflow_hive_acid.errors import ConfigurationError, WriteConflictError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.database import TxnState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.engine.outcomes.events import Event

#: Table property that says that a table is the demo's own and may be dropped by its next run.
MARK = "airflow_hive_acid.demo"
#: What the demo's txns say about themselves, so that its next run can tell which were left behind.
AGENT = "airflow/hive_acid_demo"

_SHOWN = f"month={data.RESTATED_MONTH}"


def prepare(conn_id: str, directory: str) -> None:
    """Check what the demo needs, make sure that it only ever touches its own, and unpack the data."""
    require_java(os.environ)
    find_spark_submit(os.environ)
    with HiveAcidHook(conn_id) as hook:
        hook.get_conn().create_schema()
        say(f"metastore {hook.get_uri()}\nwarehouse {hook.warehouse}")
        if _start_clean(hook):
            say("an earlier demo was here: its tables are dropped, this run starts clean")
        else:
            say("no earlier demo was here: this run starts clean")
        _refuse_foreign_files(hook)
    files = data.unpack(Path(directory))
    say(f"{files.flights.stat().st_size / 1e6:.0f} MB of flights from the package {data.PACKAGE}, in {directory}")


def open_reader(conn_id: str) -> dict[str, Any]:
    """A reader takes its snapshot now and keeps it over the tasks that follow.

    :return: the reader, for another process to go on with.
    """
    with HiveAcidHook(conn_id) as hook:
        reader = hook.get_conn().open_snapshot(checks.TABLES, agent_info=AGENT)
        mark = reader.snapshot["demo.flights"].high_watermark
        say(f"txn {reader.txn_id} sees write ids up to {mark} of demo.flights, whatever happens from now on")
        return reader.release()


def refuse_conflict(conn_id: str) -> None:
    """Two transactions change the same plane; the second to commit is refused and leaves no trace."""
    with HiveAcidHook(conn_id) as hook, hook.get_engine(agent_info=AGENT, on_event=_quiet) as engine:
        first = engine.begin([_seats(data.FIRST_SEATS)])
        second = engine.begin([_seats(data.SECOND_SEATS)])
        first.execute(_seats(data.FIRST_SEATS))
        second.execute(_seats(data.SECOND_SEATS))
        first.commit()
        say(f"txn {first.txn_id} sets {data.CONTESTED_PLANE} to {data.FIRST_SEATS} seats: committed")
        try:
            second.commit()
        except WriteConflictError as conflict:
            say(f"txn {second.txn_id} sets it to {data.SECOND_SEATS} at the same time: refused")
            say(f"{type(conflict).__name__}: {conflict}")
            return
    raise checks.DemoCheckError(
        f"txn {second.txn_id} was committed although txn {first.txn_id} had changed the same row"
    )


def initiate(conn_id: str) -> None:
    """The Initiator queues what needs compaction."""
    with HiveAcidHook(conn_id) as hook:
        say("before compaction:")
        say(_listing(hook))
    with story.brief():
        queued = bodies.initiate(conn_id)
    say(some(queued))
    if not queued:
        raise checks.DemoCheckError("the Initiator queued nothing, although every month has several deltas")


def compact(conn_id: str, worker_id: str) -> None:
    """The Worker serves the queue with one Spark application."""
    with story.brief():
        outcomes = bodies.compact(conn_id, worker_id)
    say(some(outcomes))
    say(f"{sum(outcome.rows for outcome in outcomes):,} rows in {sum(o.seconds for o in outcomes):.1f} s of work")


def clean_while_read(conn_id: str, reader: Mapping[str, Any]) -> None:
    """The Cleaner runs while a reader still needs the old files: it must leave them."""
    before = _flight_directories(conn_id)
    with HiveAcidHook(conn_id) as hook:
        held = hook.get_conn().resume_snapshot(reader)
        with story.brief():
            outcomes = bodies.clean(conn_id)
        held.release()
        say(some(outcomes))
        say(_listing(hook))
    gone = set(before) - set(_flight_directories(conn_id))
    if gone:
        raise checks.DemoCheckError(
            f"the Cleaner removed what the reader of txn {reader['txn_id']} needs: {sorted(gone)}"
        )
    say(f"the Cleaner removed nothing of demo.flights: txn {reader['txn_id']} still reads it")


def check_both_sights(conn_id: str, directory: str, reader: Mapping[str, Any]) -> None:
    """The old reader sees the old state, a new one the new state, at the same time and from the same tables."""
    files = data.DemoFiles.below(Path(directory))
    with HiveAcidHook(conn_id) as hook, hook.get_engine(agent_info=AGENT, on_event=_quiet) as engine:
        engine.warm_up()
        old, new = expected.before_changes(files), expected.after_changes(files)
        say(checks.require_equal("the reader from before", checks.observe(_reading(engine, reader)), old))
        say(checks.require_equal("a reader of now", checks.observe(_reading(engine)), new))


def release_and_clean(conn_id: str, reader: Mapping[str, Any]) -> None:
    """The reader lets go, and now the Cleaner removes what compaction has replaced."""
    before = _flight_directories(conn_id)
    with HiveAcidHook(conn_id) as hook:
        hook.get_conn().resume_snapshot(reader).close()
        say(f"txn {reader['txn_id']} lets go")
        with story.brief():
            outcomes = bodies.clean(conn_id)
        say(some(outcomes))
        say("after the Cleaner:")
        say(_listing(hook))
    after = _flight_directories(conn_id)
    left = [path for path in after if not path.rsplit("/", 1)[-1].startswith("base_")]
    if left:
        raise checks.DemoCheckError(f"nobody needs these any more, and the Cleaner left them: {left}")
    say(f"{len(before) - len(after)} directories are gone; each month is one base, without the rows to be forgotten")


def final_check(conn_id: str, directory: str) -> None:
    """What is left is what pandas computed."""
    new = expected.after_changes(data.DemoFiles.below(Path(directory)))
    with HiveAcidHook(conn_id) as hook, hook.get_engine(agent_info=AGENT, on_event=_quiet) as engine:
        found = checks.observe(_reading(engine))
        say(checks.require_equal("after everything", found, new))
        say(table(("month", "flights", *(f"sum({name})" for name in expected.MEASURES)), found.months))
        say(_where_to_go_next(hook))


def _seats(number: int) -> str:
    return f"UPDATE demo.planes SET seats = {number} WHERE tailnum = '{data.CONTESTED_PLANE}'"  # noqa: S608 - constants


def _reading(engine: Engine, reader: Mapping[str, Any] | None = None) -> Any:
    return lambda sql: engine.query(sql, snapshot=reader).rows


def _start_clean(hook: HiveAcidHook) -> bool:
    """Drop the tables of an earlier demo and end the txns it left behind; whether there was one.

    :raises ConfigurationError: when a table of that name is not the demo's own.
    """
    client = hook.get_conn()
    for txn in client.show_transactions():
        if (txn.agent_info or "").startswith(AGENT) and txn.state is TxnState.OPEN:
            client.abort_txn(txn.txn_id, "left behind by an earlier demo")
    found = client.catalog.find_tables(checks.TABLES)
    for name, demo_table in found.items():
        if demo_table.properties.get(MARK) != "true":
            raise ConfigurationError(
                f"{name} exists and is not the demo's: it has no table property {MARK}. Nothing was touched. Use "
                "another metastore, or drop the table"
            )
    if found:
        with hook.get_engine(agent_info=AGENT, on_event=_quiet) as engine:
            engine.run(";".join(f"DROP TABLE {name}" for name in found))
    return bool(found)


def _refuse_foreign_files(hook: HiveAcidHook) -> None:
    """A table's directory that the catalog knows nothing of belongs to somebody else."""
    warehouse = hook.get_conn().catalog.warehouse() or hook.warehouse
    for name in checks.TABLES:
        location = f"{warehouse.rstrip('/')}/demo.db/{name.partition('.')[2]}"
        filesystem = open_filesystem(location)
        if filesystem.exists(location) and (entries := filesystem.list_files(location)):
            raise ConfigurationError(
                f"{location} is not empty (it holds {', '.join(entry.name for entry in entries[:3])}) and is no table "
                "of the demo. Nothing was touched. Use another warehouse, or move these files away"
            )


def _flight_directories(conn_id: str) -> list[str]:
    with HiveAcidHook(conn_id) as hook:
        location = hook.get_conn().catalog.get_table("demo.flights").location
        return [line.path for line in listing.directories(open_filesystem(location), location)]


def _listing(hook: HiveAcidHook) -> str:
    location = hook.get_conn().catalog.get_table("demo.flights").location
    return listing.describe(listing.directories(open_filesystem(location), location), _SHOWN)


def _where_to_go_next(hook: HiveAcidHook) -> str:
    program = Path(sys.executable).parent / "hive-acid"
    with contextlib.suppress(ValueError):
        program = program.relative_to(Path.cwd())
    return "\n".join(
        [
            "where to go next:",
            f"  export HIVE_ACID_METASTORE_URL={hook.get_uri()} HIVE_ACID_WAREHOUSE={hook.warehouse}",
            f'  {program} sql -e "SELECT * FROM demo.airlines ORDER BY carrier"',  # noqa: S608 - printed
            f"  {program} show compactions",
            "  dags/hive_acid_demo.py is this demo; README.md has a DAG of 20 lines to begin with",
        ]
    )


def _quiet(event: Event) -> None:
    """The steps above say themselves what matters."""
