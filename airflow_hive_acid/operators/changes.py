"""INSERT, UPDATE, DELETE and MERGE with typed arguments.

Each makes one statement of its arguments and runs it as ``HiveAcidOperator`` does:
the same plan, the same locks, applied once (R14). Names are checked and quoted, values are rendered as literals, and
what is SQL must be one expression or one query by itself (``sql/parsing/builders.py``); so a value from a DAG run's
conf is safe in ``values``, ``rows``, ``partition`` and ``parameters``, and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.arguments import (
    Takes,
    check_parsed,
    many,
    names_of,
    optional_mapping,
    optional_text,
    optional_texts,
    refused,
    some_text,
)
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.sql.parsing.builders import MergeClause

_COMMON = ("lease", "transaction", "hive_acid_conn_id", "spark_conn_id", "spark_service")
_TABLE = some_text("[db.]table")
_VALUES = optional_mapping("names, as :name in the SQL, to their values")
_FORMAT = re.compile(r"[A-Za-z0-9_.]{1,200}")


class HiveAcidInsertOperator(HiveAcidOperator):
    """Inserts rows of a query, of files, or given as Python values; exactly one of these.

    :param table: ``[db.]table``. (templated)
    :param query: a SELECT. (templated)
    :param files: path or URI of files, directories and globs among them. (templated)
    :param format: their format: ``csv``, ``json``, ``parquet``, ``orc``, or any other that Spark has. (templated)
    :param options: of the format, as Spark names them. Not templated and not shown in the rendered template, so that
        they may hold secrets.
    :param schema: Hive type by column, of the files. With it every value must fit its column: the first that does not
        fails the task with file, row and column.
    :param rows: mappings of columns to values, or lists of values, in the order of ``columns`` or of the table's
        columns; an XCom; or a function ``(context, jinja_env)`` that returns them, called when the task runs. A value
        that does not fit its column fails the task with row and column. Up to 16 MB of JSON. (templated)
    :param columns: the columns that are filled; the others become NULL. (templated)
    :param partition: value by partition column; None where it comes from the rows. (templated)
    :param overwrite: replace the table, or the partitions that get rows.
    :param parameters: values for ``:name`` in the query. (templated)
    :param hive_acid_conn_id: see :class:`HiveAcidOperator`, as for all others.
    """

    template_fields: Sequence[str] = (
        "table", "query", "files", "format", "rows", "columns", "partition", "parameters", *_COMMON,
    )  # fmt: skip
    template_fields_renderers = {"query": "sql", "rows": "json", "parameters": "json"}  # noqa: RUF012 - see above
    lineage_literals = False
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "table": _TABLE,
        "query": optional_text("a SELECT"),
        "options": optional_mapping("options of the format to their values"),
        "schema": optional_mapping("columns to their types"),
        "columns": optional_texts("the names of columns"),
        "partition": optional_mapping("partition columns to their values"),
        "parameters": _VALUES,
    }

    def __init__(
        self,
        *,
        table: str,
        query: str | None = None,
        files: str | None = None,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        schema: Mapping[str, str] | None = None,
        rows: Sequence[Mapping[str, Any] | Sequence[Any]] | Callable[..., Any] | None = None,
        columns: Sequence[str] | None = None,
        partition: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        parameters: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        if sum(given is not None for given in (query, format, rows)) != 1:
            raise refused(self, f"task {self.task_id} must be given exactly one of query, files with format, and rows")
        if format is None and (files is not None or options is not None or schema is not None):
            raise refused(self, f"task {self.task_id}: files, options and schema need a format")
        self.table = table
        self.query = query
        self.files = files
        self.format = format
        self.options = options
        self.schema = schema
        self.rows = rows
        self.columns = columns
        self.partition = partition
        self.overwrite = overwrite
        self.parameters = parameters
        check_parsed(self, self.takes)

    def script(self, hook: HiveAcidHook, engine: Engine) -> str:
        """The INSERT; files become a view of the engine, so that their options stand in no statement."""
        columns = names_of(self.columns)
        if self.rows is None:
            for source in self.lineage_views().values():
                engine.define_view(source)
            return self._insert(self._query(), columns)
        from airflow_hive_acid.sql.parsing.builders import table_name
        from airflow_hive_acid.sql.parsing.records import filled, rows_query

        table = hook.get_conn().catalog.get_table(str(table_name(self.table)))
        fixed = [str(c).lower() for c, value in (self.partition or {}).items() if value is not None]
        if callable(self.rows):
            raise InvalidArgumentsError("rows is a function, and only Airflow calls it; give its result")
        rows = rows_query(self.rows, table, columns, fixed)
        return self._insert(rows, [column.name for column in filled(table, columns, fixed)])

    def lineage_script(self) -> str:
        """The INSERT, with nothing in the place of rows."""
        return self._insert(self._query() if self.rows is None else "SELECT NULL", names_of(self.columns))

    def lineage_views(self) -> dict[str, Source]:
        """The files, by the name under which the INSERT reads them."""
        if self.format is None:
            return {}
        source = files_source(self.files, self.format, self.options, self.schema)
        return {source.name: source}

    def _query(self) -> str:
        """What is inserted, if it is not given as rows."""
        from airflow_hive_acid.sql.parsing.builders import bound_query

        if self.query is not None:
            return bound_query(self.query, "query", self.parameters)
        (name,) = self.lineage_views()
        return f"SELECT * FROM {name}"  # noqa: S608 - a name of our own making

    def _insert(self, rows: str, columns: list[str]) -> str:
        from airflow_hive_acid.sql.parsing.builders import insert_statement

        return insert_statement(
            self.table, rows, partition=self.partition, columns=columns, overwrite=self.overwrite
        )  # fmt: skip


class HiveAcidUpdateOperator(HiveAcidOperator):
    """Changes rows of a table.

    :param table: ``[db.]table``. (templated)
    :param set: SQL expression by column; what is no text is a value. (templated)
    :param values: value by column, texts among them. (templated)
    :param where: which rows. (templated)
    :param everything: change all rows; needed when there is no ``where``.
    :param parameters: values for ``:name`` in the expressions and in ``where``. (templated)
    """

    template_fields: Sequence[str] = ("table", "set", "values", "where", "parameters", *_COMMON)
    template_fields_renderers = {"where": "sql", "set": "json", "values": "json"}  # noqa: RUF012 - see above
    lineage_literals = False
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "table": _TABLE,
        "set": optional_mapping("columns to SQL expressions"),
        "values": optional_mapping("columns to values"),
        "where": optional_text("a condition"),
        "parameters": _VALUES,
    }

    def __init__(
        self,
        *,
        table: str,
        set: Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | None = None,
        where: str | None = None,
        everything: bool = False,
        parameters: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        _check_where(self, where, everything)
        self.table = table
        self.set = set
        self.values = values
        self.where = where
        self.everything = everything
        self.parameters = parameters
        check_parsed(self, self.takes)

    def lineage_script(self) -> str:
        """The UPDATE."""
        from airflow_hive_acid.sql.parsing.builders import update_statement

        where = _where(self.where, self.everything)
        return update_statement(self.table, self.set, self.values, where, self.parameters)


class HiveAcidDeleteOperator(HiveAcidOperator):
    """Deletes rows of a table.

    :param table: ``[db.]table``. (templated)
    :param where: which rows. (templated)
    :param everything: delete all rows; needed when there is no ``where``.
    :param parameters: values for ``:name`` in ``where``. (templated)
    """

    template_fields: Sequence[str] = ("table", "where", "parameters", *_COMMON)
    template_fields_renderers = {"where": "sql", "parameters": "json"}  # noqa: RUF012 - see above
    lineage_literals = False
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "table": _TABLE,
        "where": optional_text("a condition"),
        "parameters": _VALUES,
    }

    def __init__(
        self,
        *,
        table: str,
        where: str | None = None,
        everything: bool = False,
        parameters: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        _check_where(self, where, everything)
        self.table = table
        self.where = where
        self.everything = everything
        self.parameters = parameters
        check_parsed(self, self.takes)

    def lineage_script(self) -> str:
        """The DELETE."""
        from airflow_hive_acid.sql.parsing.builders import delete_statement

        return delete_statement(self.table, _where(self.where, self.everything), self.parameters)


class HiveAcidMergeOperator(HiveAcidOperator):
    """Merges a table or the rows of a query into a table.

    :param target: ``[db.]table``. (templated)
    :param source: ``[db.]table``, or a query. (templated)
    :param on: which rows belong together. (templated)
    :param clauses: what becomes of them, see :class:`~airflow_hive_acid.sql.parsing.builders.MergeClause`; the first
        clause whose condition holds decides. (templated)
    :param target_alias: name of the target in the expressions; ``source_alias`` that of the source.
    :param parameters: values for ``:name`` in queries and expressions. (templated)
    """

    template_fields: Sequence[str] = ("target", "source", "on", "clauses", "parameters", *_COMMON)
    template_fields_renderers = {"source": "sql", "on": "sql", "clauses": "json"}  # noqa: RUF012 - see above
    lineage_literals = False
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "target": _TABLE,
        "source": some_text("[db.]table, or a query"),
        "on": some_text("a condition"),
        "clauses": many("a list of clauses, one or more", lambda clause: clause is not None, least=1),
        "target_alias": some_text("a name"),
        "source_alias": some_text("a name"),
        "parameters": _VALUES,
    }

    def __init__(
        self,
        *,
        target: str,
        source: str,
        on: str,
        clauses: Sequence[MergeClause],
        target_alias: str = "t",
        source_alias: str = "s",
        parameters: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        self.target = target
        self.source = source
        self.on = on
        self.clauses = clauses
        self.target_alias = target_alias
        self.source_alias = source_alias
        self.parameters = parameters
        check_parsed(self, self.takes)

    def lineage_script(self) -> str:
        """The MERGE."""
        from airflow_hive_acid.sql.parsing.builders import merge_statement

        return merge_statement(
            self.target,
            self.source,
            self.on,
            self.clauses,
            target_alias=self.target_alias,
            source_alias=self.source_alias,
            parameters=self.parameters,
        )


def files_source(
    files: str | None, format: str, options: Mapping[str, str] | None, schema: Mapping[str, str] | None
) -> Source:
    """Files as a view; its name tells files of another place apart, so that a retry cannot take them for its own.

    :raises InvalidArgumentsError: for a format that is no word, and a column or type that is none.
    """
    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.sql.parsing.builders import columns_of_schema

    name = checked_format(format)
    if files is not None and (not isinstance(files, str) or not files.strip()):
        raise InvalidArgumentsError(f"files must be a path or URI, not {files!r}")
    given = {str(key): str(value) for key, value in (options or {}).items()}
    if files is not None:
        given = {key: value for key, value in given.items() if key.lower() != "path"} | {"path": files}
    columns = columns_of_schema(schema or {})
    what = json.dumps([files, format, [[c.name, c.type] for c in columns]])
    return Source(f"files_{hashlib.sha256(what.encode()).hexdigest()[:16]}", name, given, columns)


def checked_format(format: object) -> str:
    """The name of a Spark format.

    :raises InvalidArgumentsError: when it is none.
    """
    if not isinstance(format, str) or not _FORMAT.fullmatch(format) or format.lower() == "dataframe":
        raise InvalidArgumentsError(f"format must be the name of a Spark format, not {format!r}")
    return format.lower() if "." not in format else format


def _check_where(task: HiveAcidOperator, where: object, everything: bool) -> None:
    if (where is None) != everything:
        both = "not both" if everything else "or everything=True"
        raise refused(
            task, f"task {task.task_id} must be given where, {both}: a forgotten condition would touch all rows"
        )


def _where(where: str | None, everything: bool) -> str | None:
    """A condition that a template made into nothing must not mean all rows."""
    if where is None and not everything:
        raise InvalidArgumentsError("where is empty; a forgotten condition would touch all rows")
    return where
