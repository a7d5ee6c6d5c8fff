"""Runs a PySpark function of one's own, which reads snapshots and writes all or nothing."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.arguments import (
    Takes,
    check_parsed,
    mapping,
    optional_mapping,
    optional_text,
    refused,
    some_text,
)
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator, result_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.engine.statements.programs import Call
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.sql.planning.named_tables import Touched

_LONGEST_SOURCE = 1 << 20


class HiveAcidSparkOperator(HiveAcidOperator):
    """Calls ``main(job, **arguments)`` in the Spark driver; see :class:`~airflow_hive_acid.spark.jobs.program.Job`.

    ``job.read("db.t")`` is the table as of one snapshot of all tables the task names; ``job.insert``, ``overwrite``,
    ``update``, ``delete`` and ``merge`` ask for changes, which are made in one transaction when the function has
    returned. When it fails, or a change does, nothing has happened; a retry applies nothing twice (R14).

    :param tables: what may be done to each table: ``select``, ``insert``, ``delete``, ``update`` (MERGE, too) or
        ``overwrite``. (templated)
    :param application: path or URI of a Python file; its text goes to the driver. (templated)
    :param module: name of a module that can be imported where the driver runs, instead of a file. (templated)
    :param function: name of the function.
    :param arguments: what it gets beside the job; plain JSON values. (templated)
    """

    template_fields: Sequence[str] = (
        "tables", "application", "module", "arguments", "lease", "transaction", "hive_acid_conn_id", "spark_conn_id",
    )  # fmt: skip
    template_fields_renderers = {"tables": "json", "arguments": "json"}  # noqa: RUF012 - Airflow reads it from the class
    lineage_literals = False
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "tables": mapping("tables to what may be done to them"),
        "application": optional_text("a path or URI"),
        "module": optional_text("the name of a module"),
        "function": some_text("the name of a function"),
        "arguments": optional_mapping("arguments of the function to their values"),
    }

    def __init__(
        self,
        *,
        tables: Mapping[str, str],
        application: str | None = None,
        module: str | None = None,
        function: str = "main",
        arguments: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        self._check_source(application, module)
        self.tables = tables
        self.application = application
        self.module = module
        self.function = function
        self.arguments = arguments
        check_parsed(self, self.takes)

    def _check_source(self, application: str | None, module: str | None) -> None:
        if (application is None) == (module is None):
            raise refused(self, f"task {self.task_id} must be given an application or a module, exactly one of them")

    def work(self, hook: HiveAcidHook, engine: Engine, **how: Any) -> dict[str, Any]:
        """Call the function, and make the changes it asks for.

        :return: as of :class:`HiveAcidOperator`, and what the function ``returned``.
        """
        result = engine.call(self.call(), **how)
        if result.rows is None:
            raise AssertionError("a job without an answer")
        document = result_document([dataclasses.replace(result, rows=None)], 0)
        return {**document, "returned": json.loads(result.rows.rows[0][0])}

    def lineage_touched(self) -> Touched:
        """What the task says of its tables; the function may read the others of them, too."""
        from airflow_hive_acid.sql.parsing.builders import table_name
        from airflow_hive_acid.sql.planning.named_tables import Touched

        found = Touched()
        for name, operation in self.tables.items():
            table = str(table_name(name, "tables"))
            if str(operation).lower() == "select":
                found.reads[table] = None
            else:
                found.write(table)
        return found

    def call(self) -> Call:
        """What to call; the same for every try."""
        from airflow_hive_acid.engine.statements.programs import Call

        source = None if self.application is None else _text_of(self.application)
        name = self.application or self.module or ""
        return Call(name, self.tables, source, self.module, self.function, dict(self.arguments or {}))


def _text_of(application: str) -> str:
    """The text of a Python file.

    :raises InvalidArgumentsError: when it cannot be read, or is no file to be run.
    """
    from airflow_hive_acid.filesystem import open_filesystem

    try:
        if "://" in application:
            text = open_filesystem(application).read_text(application)
        else:
            text = Path(application).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidArgumentsError(f"application {application} cannot be read: {problem}") from problem
    if len(text) > _LONGEST_SOURCE:
        raise InvalidArgumentsError(
            f"application {application} has {len(text):,} characters, and at most {_LONGEST_SOURCE:,} travel to the "
            "driver; put what it uses into a module (spark.submit.pyFiles) and give module="
        )
    return text
