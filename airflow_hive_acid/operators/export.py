"""Writes the rows of a query or a table as files, all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_hive_acid.hooks.arguments import (
    Takes,
    check_parsed,
    names_of,
    optional_mapping,
    optional_text,
    optional_texts,
    place,
    refused,
)
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook


class HiveAcidExportOperator(HiveAcidOperator):
    """Exports rows as files, which readers see complete or not at all.

    The files are written beside the destination, which gets them with one rename; on an object store, which cannot
    rename, ``_SUCCESS`` comes last. A retry that finds the work done returns its result.

    :param path: path or URI of the directory to make, outside of the warehouse. (templated)
    :param query: a SELECT. (templated)
    :param table: ``[db.]table`` instead of a query. (templated)
    :param format: ``parquet``, ``csv``, ``json``, ``orc``, or any other that Spark can write. (templated)
    :param options: of the format, as Spark names them. Not templated and not shown in the rendered template, so that
        they may hold secrets.
    :param partition_by: columns that become directories.
    :param mode: ``error`` when there is something already, or ``overwrite`` what an earlier export left there.
    :param replace_anything: with ``overwrite``, replace what is there even if no export has made it.
    :param parameters: values for ``:name`` in the query. (templated)
    """

    template_fields: Sequence[str] = (
        "path", "query", "table", "format", "parameters", "lease", "hive_acid_conn_id", "spark_conn_id",
        "spark_service",
    )  # fmt: skip
    template_fields_renderers = {"query": "sql", "parameters": "json"}  # noqa: RUF012 - Airflow reads it from the class
    lineage_literals = False
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "path": place("a path or URI"),
        "query": optional_text("a SELECT"),
        "table": optional_text("[db.]table"),
        "options": optional_mapping("options of the format to their values"),
        "partition_by": optional_texts("the names of columns"),
        "parameters": optional_mapping("names, as :name in the query, to their values"),
    }
    never_a_member = "its files would stay if the transaction is given up; export after the group"

    def __init__(
        self,
        *,
        path: str,
        query: str | None = None,
        table: str | None = None,
        format: str = "parquet",
        options: Mapping[str, str] | None = None,
        partition_by: Sequence[str] | None = None,
        mode: Literal["error", "overwrite"] = "error",
        replace_anything: bool = False,
        parameters: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        if (query is None) == (table is None):
            raise refused(self, f"task {self.task_id} must be given a query or a table, exactly one of them")
        if mode not in ("error", "overwrite"):
            raise refused(self, f"mode of task {self.task_id} must be 'error' or 'overwrite', not {mode!r}")
        if replace_anything and mode != "overwrite":
            raise refused(self, f"task {self.task_id}: replace_anything needs mode='overwrite'")
        self.path = path
        self.query = query
        self.table = table
        self.format = format
        self.options = options
        self.partition_by = partition_by
        self.mode = mode
        self.replace_anything = replace_anything
        self.parameters = parameters
        check_parsed(self, self.takes)

    def work(self, hook: HiveAcidHook, engine: Engine, **how: Any) -> dict[str, Any]:
        """Export.

        :return: ``uri``, ``rows``, ``files``, ``bytes``, ``seconds`` and ``txn_id``.
        """
        from airflow_hive_acid.engine.statements.exports import Destination
        from airflow_hive_acid.operators.changes import checked_format

        destination = Destination(
            str(self.path),
            checked_format(self.format),
            {str(key): str(value) for key, value in (self.options or {}).items()},
            tuple(names_of(self.partition_by)),
            overwrite=self.mode == "overwrite",
            replace_anything=self.replace_anything,
        )
        exported = engine.export(
            self.script(hook, engine), destination, once=how.get("once"), patience=how.get("patience")
        ).to_document()
        self.log.info("exported %(rows)d rows in %(files)d files to %(uri)s (%(seconds).1f s)", exported)
        return exported

    def lineage_files(self) -> str:
        """Where the files go."""
        return str(self.path)

    def lineage_script(self) -> str:
        """The query."""
        from airflow_hive_acid.sql.parsing.builders import bound_query, quoted_table

        if self.query is not None:
            return bound_query(self.query, "query", self.parameters)
        return f"SELECT * FROM {quoted_table(str(self.table))}"  # noqa: S608 - checked and quoted
