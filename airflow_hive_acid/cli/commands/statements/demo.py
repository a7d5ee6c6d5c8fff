"""``hive-acid demo``: a table's life in SQL, from nothing: an embedded metastore, Spark on this machine, a directory.

Everything but the Cleaner's look goes through the same door as ``hive-acid sql``. What must come out is written down
here, and the demo fails if anything else does.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_hive_acid.cli.commands.statements.sql import reporter
from airflow_hive_acid.cli.output import Format, print_rows, say
from airflow_hive_acid.cli.progress import progress
from airflow_hive_acid.cli.session import CliSession
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine import Engine

_LOCAL = "local"
_LOOKS = 20
_PAUSE = 1.0
"""Seconds between two looks of the Cleaner."""
_LEFT = [
    [1, "tea", Decimal("3.85"), "drink"],
    [2, "jam", Decimal("4.20"), "food"],
    [4, "salt", Decimal("0.90"), "food"],
    [5, "water", Decimal("1.00"), "drink"],
]
"""The rows after all steps."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What is shown.

    :param sql: statements; of the last one the rows are printed, if it has any.
    :param clean: the Cleaner looks afterwards.
    """

    title: str
    sql: str
    clean: bool = False


_READ = "SELECT id, name, price, kind FROM demo.items ORDER BY id"
_STEPS = (
    _Step(
        "A table, partitioned, in Hive's ACID layout",
        "CREATE DATABASE demo;\n"
        "CREATE TABLE demo.items (id INT, name STRING, price DECIMAL(10,2)) PARTITIONED BY (kind STRING) STORED AS ORC",
    ),
    _Step(
        "INSERT: a delta for each partition",
        "INSERT INTO demo.items VALUES (1, 'tea', 3.50, 'drink'), (2, 'jam', 4.20, 'food'), (3, 'bread', 2.80, 'food')",
    ),
    _Step(
        "UPDATE: the old row's key in a delete_delta, the new row in a delta",
        f"UPDATE demo.items SET price = price * 1.1 WHERE kind = 'drink';\n{_READ}",  # noqa: S608 - constants
    ),
    _Step(
        "MERGE: delete, update and insert in one statement",
        "MERGE INTO demo.items t\n"  # noqa: S608 - constants
        "  USING (SELECT * FROM VALUES\n"
        "           (3, 'bread', NULL, 'food'), (4, 'salt', 0.90, 'food'), (5, 'water', 1.00, 'drink')\n"
        "         AS v(id, name, price, kind)) AS s ON t.id = s.id AND t.kind = s.kind\n"
        "  WHEN MATCHED AND s.price IS NULL THEN DELETE\n"
        "  WHEN MATCHED THEN UPDATE SET price = s.price\n"
        f"  WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, s.price, s.kind);\n{_READ}",
    ),
    _Step(
        "A transaction that is rolled back leaves nothing",
        f"BEGIN;\nDELETE FROM demo.items;\nROLLBACK;\n{_READ}",
    ),
    _Step("Which locks an UPDATE takes, and why", "EXPLAIN LOCKS UPDATE demo.items SET price = 0 WHERE kind = 'food'"),
    _Step(
        "Major compaction: bases in place of deltas and delete_deltas; the Cleaner removes what they replaced",
        "ALTER TABLE demo.items PARTITION (kind = 'drink') COMPACT 'major' AND WAIT;\n"
        "ALTER TABLE demo.items PARTITION (kind = 'food') COMPACT 'major' AND WAIT",
        clean=True,
    ),
    _Step("What became of the compactions", "SHOW COMPACTIONS demo.items ORDER BY id"),
    _Step("Of the transactions only the aborted one is still listed", "SHOW TRANSACTIONS"),
    _Step("Nothing is locked", "SHOW LOCKS"),
    _Step("The same rows as before", _READ),
)


def demo(
    context: typer.Context,
    directory: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            show_default="a temporary one, removed at the end",
            help="Where the metastore and the tables are made; must be empty, and is kept.",
        ),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How the rows are printed.")] = Format.TABLE,
) -> None:
    """Show a table's life: create, insert, update, merge, roll back, compact, clean, show.

    Needs Java, and nothing else: the metastore is a SQLite file, Spark runs on this machine, and no metastore or
    warehouse of yours is looked at. Takes a minute.
    """
    given: CliSession = context.obj
    with _place(directory) as place:
        session = CliSession(
            metastore_url=f"sqlite:///{place / 'metastore.db'}",
            warehouse=str(place / "warehouse"),
            # The tables lie on this machine.
            spark_master=given.spark_master if given.spark_master.startswith(_LOCAL) else f"{_LOCAL}[*]",
            spark_conf=given.spark_conf,
        )
        context.call_on_close(session.close)
        session.client()
        with progress(reporter(quiet=False, verbose=False)) as listener, session.engine(listener) as engine:
            engine.warm_up()
            found = [_run(session, engine, step, form) for step in _STEPS][-1]
        session.close()
        if found != _LEFT:
            raise HiveAcidError(f"the demo should have left the rows {_LEFT}, and left {found}")
        say("\nThese are the rows that the demo should leave.")
        if directory is not None:
            say(f"Go on: hive-acid --metastore-url sqlite:///{place / 'metastore.db'} sql -e '{_READ}'")


@contextlib.contextmanager
def _place(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="hive-acid-demo-") as temporary:
            yield Path(temporary)
        return
    place = directory.expanduser().absolute()
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise InvalidArgumentsError(f"--directory {directory} is not empty; name one that is, or that does not exist")
    yield place


def _run(session: CliSession, engine: Engine, step: _Step, form: Format) -> list[list[Any]] | None:
    """Tell, run, print; returns the rows of the last statement."""
    say(f"\n--- {step.title}\n{step.sql}\n")
    rows = engine.run(step.sql)[-1].rows
    if rows is not None:
        print_rows(rows, form)
        sys.stdout.flush()
    if step.clean:
        _clean(session)
    return None if rows is None else [list(row) for row in rows.rows]


def _clean(session: CliSession) -> None:
    """Let the Cleaner look until nothing waits: right after a commit it waits for txns that may still appear."""
    from airflow_hive_acid.maintenance import run_cleaner
    from airflow_hive_acid.maintenance.decisions import Kind

    for _ in range(_LOOKS):
        outcomes = run_cleaner(session.client(), session.filesystem())
        for outcome in outcomes:
            say(str(outcome))
        if all(outcome.kind is not Kind.WAITING for outcome in outcomes):
            return
        time.sleep(_PAUSE)
    raise HiveAcidError(f"the Cleaner still waits after {_LOOKS} looks, and nobody but the demo is here")
