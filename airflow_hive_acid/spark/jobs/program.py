"""Calls a function of somebody's own, which reads snapshots and says what is to be written.

The function gets a :class:`Job`. It reads tables as its txn sees them (R16), and asks for changes; nothing is written
while it runs. When it has returned, the control plane runs what it asked for as statements of the same txn, in this
application, where the DataFrames still are. So all of it becomes visible or none, and the rules for staging, conflicts
and retries are those of every statement (R4, R5, R14).
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
import types
import uuid
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, JobFailedError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.read.deleted_rows import read_view
from airflow_hive_acid.spark.read.select import Selected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import Program, TableSnapshot, View

_COLUMNS = (Column("changes", "string"), Column("returned", "string"))
_MODULE = "hive_acid_program"
_FRAMES = 10
_LONGEST_ANSWER = 256 * 1024


class Job:
    """What a function of one's own can do: read snapshots, and ask for changes that are made when it has returned.

    Changes are made in the order in which they were asked for, and see those before them; a DataFrame made by
    :meth:`read` does not: it shows the table as it was when the txn began.

    :ivar spark: the session of this job.
    """

    def __init__(self, spark: SparkSession, views: Sequence[View]) -> None:
        self.spark = spark
        self._views = {view.name: view for view in views}
        self.changes: list[dict[str, Any]] = []

    def read(self, table: str) -> DataFrame:
        """The rows of a table, as the txn sees it.

        :param table: one of those that the task names.
        :raises InvalidArgumentsError: for another one.
        """
        return read_view(self.spark, self._views[self._known(table)])

    def snapshot(self, table: str) -> TableSnapshot:
        """What :meth:`read` reads: the table's files, and the write ids that the txn sees."""
        return self._views[self._known(table)].snapshot

    def insert(
        self,
        table: str,
        rows: DataFrame,
        *,
        columns: Sequence[str] = (),
        partition: Mapping[str, Any] | None = None,
    ) -> None:
        """Append rows.

        :param rows: columns in the table's order, partition columns last; they are matched by position.
        :param columns: those that are filled, in the order of the rows; the others become NULL.
        :param partition: value by partition column, None where it comes from the rows.
        """
        self._write("insert", table, rows, columns, partition)

    def overwrite(
        self,
        table: str,
        rows: DataFrame,
        *,
        columns: Sequence[str] = (),
        partition: Mapping[str, Any] | None = None,
    ) -> None:
        """Replace the table, or the partitions that get rows; see :meth:`insert`."""
        self._write("overwrite", table, rows, columns, partition)

    def update(
        self,
        table: str,
        set: Mapping[str, Any] | None = None,
        *,
        where: str | None,
        values: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """Change rows.

        :param set: SQL expression by column; ``values`` are plain values by column.
        :param where: which rows; None for all.
        :param parameters: values for ``:name`` in the expressions.
        """
        change = {"set": _plain(set), "values": _plain(values), "where": where, "parameters": _plain(parameters)}
        self.changes.append({"action": "update", "table": self._known(table), **change})

    def delete(self, table: str, *, where: str | None, parameters: Mapping[str, Any] | None = None) -> None:
        """Delete rows.

        :param where: which; None for all.
        """
        change = {"where": where, "parameters": _plain(parameters)}
        self.changes.append({"action": "delete", "table": self._known(table), **change})

    def merge(
        self,
        table: str,
        source: DataFrame,
        *,
        on: str,
        clauses: Sequence[Mapping[str, Any]],
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """Merge rows into a table.

        :param source: called ``s`` in the expressions; the table is ``t``.
        :param clauses: as of ``HiveAcidMergeOperator``.
        """
        plain = [{key: _plain(value) for key, value in clause.items()} for clause in clauses]
        change = {"source": self._kept(source), "on": on, "clauses": plain, "parameters": _plain(parameters)}
        self.changes.append({"action": "merge", "table": self._known(table), **change})

    def _write(
        self,
        action: str,
        table: str,
        rows: DataFrame,
        columns: Sequence[str],
        partition: Mapping[str, Any] | None,
    ) -> None:
        change = {"source": self._kept(rows), "columns": list(columns), "partition": _plain(partition)}
        self.changes.append({"action": action, "table": self._known(table), **change})

    def _known(self, table: str) -> str:
        name = table.lower() if "." in table else f"default.{table.lower()}"
        if name not in self._views:
            raise InvalidArgumentsError(f"{table} is not among the tables of this task: {sorted(self._views)}")
        return name

    def _kept(self, rows: DataFrame) -> str:
        """A name under which the statement that writes them finds the rows, in a session of its own."""
        name = f"program_{uuid.uuid4().hex}"
        rows.createGlobalTempView(name)
        return name


def call(spark: SparkSession, step: Program, views: Sequence[View]) -> Selected:
    """Call the function; what it asks for and what it returned go to where the step wants them.

    :raises JobFailedError: with the end of the traceback, when it fails.
    """
    job = Job(spark, views)
    name = f"{_MODULE}_{uuid.uuid4().hex}"
    try:
        returned = _function(step, name)(job, **step.arguments)
    except (HiveAcidError, Py4JError, PySparkException):
        raise
    except Exception as failure:
        raise JobFailedError(f"{step.name} failed: {_told(failure)}") from failure
    try:
        document = json.dumps(returned)
        changes = json.dumps(job.changes)
    except (TypeError, ValueError) as problem:
        raise InvalidArgumentsError(
            f"{step.name} must return, and give as values, what JSON can hold, dates as text: {problem}"
        ) from None
    if len(document) > _LONGEST_ANSWER:
        raise InvalidArgumentsError(
            f"{step.name} returned {len(document):,} bytes of JSON, and at most {_LONGEST_ANSWER:,} fit into an XCom; "
            "write rows into a table"
        )
    with HadoopFilesystem.of(spark).writer(step.rows_uri) as answer:
        answer.write(json.dumps([changes, document]) + "\n")
    return Selected(_COLUMNS, 1)


def _function(step: Program, name: str) -> Callable[..., Any]:
    """The function; the text it comes from was put into the spec by the task, from a file of the DAG's author."""
    if step.source is None:
        module = importlib.import_module(str(step.module))
    else:
        module = types.ModuleType(name)
        module.__file__ = step.name
        sys.modules[name] = module
        # Executors do not have this module: its functions travel to them as values.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        exec(compile(step.source, step.name, "exec"), vars(module))  # noqa: S102 - it is what the task is to run
    function = getattr(module, step.function, None)
    if not callable(function):
        raise InvalidArgumentsError(f"{step.name} has no function {step.function}(job, …)")
    return function  # type: ignore[no-any-return]


def _plain(values: Mapping[str, Any] | str | None) -> Any:
    return dict(values) if values is not None and not isinstance(values, str) else values


def _told(failure: Exception) -> str:
    """The exception, and where in the author's own code it came from."""
    frames = [f"{f.name} ({f.filename}:{f.lineno})" for f in traceback.extract_tb(failure.__traceback__)[1:]]
    return f"{type(failure).__name__}: {failure}; in {' < '.join(reversed(frames[-_FRAMES:]))}"
