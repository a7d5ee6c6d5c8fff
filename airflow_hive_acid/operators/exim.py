"""EXPORT TABLE and IMPORT TABLE as tasks: tables carried as dumps, for those who replicate by their own rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.hooks.arguments import (
    Takes,
    check_parsed,
    many,
    optional_place,
    optional_text,
    place,
    refused,
    some_text,
)
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook


_COMMON = ("lease", "hive_acid_conn_id", "spark_conn_id", "spark_service")
_PARTITIONS = many(
    "a list of mappings of partition columns to values", lambda each: isinstance(each, Mapping), none=True
)


class _CarriesTables(HiveAcidOperator):
    """Runs one statement whose only row is the result."""

    template_ext: Sequence[str] = ()
    template_fields_renderers = {"partitions": "json"}  # noqa: RUF012 - Airflow reads it from the class
    lineage_literals = False
    never_a_member = "what it does is seen at once, and stays if the transaction is given up; keep it outside the group"

    def work(self, hook: HiveAcidHook, engine: Engine, **how: Any) -> dict[str, Any]:
        """Run it.

        :return: the row of the statement.
        """
        result = engine.run(self.script(hook, engine), **how)[-1]
        row = {} if result.rows is None else result.rows.to_dicts()[0]
        self.log.info("%s: %s", result.kind, row)
        return row


class HiveAcidExportTableOperator(_CarriesTables):
    """Dumps a table, or some of its partitions: metadata, files with checksums, and for replication the state id.

    For files that others read without Hive there is :class:`HiveAcidExportOperator`.

    :param table: ``[db.]table``. (templated)
    :param location: path or URI of a directory that does not exist yet, outside of all tables. (templated)
    :param partitions: values by column of the partitions to dump; some of the columns name all that fit. (templated)
    :param replication: id of the event that asks for it, or any text that says why; the dump then carries the state id.
        (templated)
    :param metadata_only: for replication without the files.
    """

    template_fields: Sequence[str] = ("table", "location", "partitions", "replication", *_COMMON)
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "table": some_text("[db.]table"),
        "location": place("a path or URI"),
        "partitions": _PARTITIONS,
    }

    def __init__(
        self,
        *,
        table: str,
        location: str,
        partitions: Sequence[Mapping[str, Any]] | None = None,
        replication: str | None = None,
        metadata_only: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        if metadata_only and replication is None:
            raise refused(
                self, f"task {self.task_id}: metadata_only is for replication; say what for (replication='…')"
            )
        self.table = table
        self.location = location
        self.partitions = partitions
        self.replication = replication
        self.metadata_only = metadata_only
        check_parsed(self, self.takes)

    def lineage_script(self) -> str:
        """The statement."""
        from airflow_hive_acid.sql.parsing.builders import literal, quoted_table

        what = quoted_table(str(self.table)) + _clauses(self.partitions)
        text = f"EXPORT TABLE {what} TO {literal(str(self.location), 'location')}"
        if self.replication is not None:
            only = "METADATA " if self.metadata_only else ""
            text += f" FOR {only}REPLICATION({literal(str(self.replication), 'replication')})"
        return text


class HiveAcidImportTableOperator(_CarriesTables):
    """Imports a dump: all of it or nothing; what is as new already stays, and the result says so.

    :param source: path or URI of the dump. (templated)
    :param table: ``[db.]table`` it becomes; by default called as at the source. (templated)
    :param partitions: values by column of those partitions of the dump that are wanted. (templated)
    :param external: the new table is an external one.
    :param location: where the files of a new table go. (templated)
    """

    template_fields: Sequence[str] = ("source", "table", "partitions", "location", *_COMMON)
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "source": place("a path or URI"),
        "table": optional_text("[db.]table"),
        "partitions": _PARTITIONS,
        "location": optional_place("a path or URI"),
    }

    def __init__(
        self,
        *,
        source: str,
        table: str | None = None,
        partitions: Sequence[Mapping[str, Any]] | None = None,
        external: bool = False,
        location: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        if table is None and (partitions or external):
            raise refused(self, f"task {self.task_id}: partitions and external need the table they are of")
        self.source = source
        self.table = table
        self.partitions = partitions
        self.external = external
        self.location = location
        check_parsed(self, self.takes)

    def lineage_script(self) -> str:
        """The statement."""
        from airflow_hive_acid.sql.parsing.builders import literal, quoted_table

        text = "IMPORT"
        if self.table is not None:
            external = " EXTERNAL" if self.external else ""
            text += f"{external} TABLE {quoted_table(str(self.table))}{_clauses(self.partitions)}"
        text += f" FROM {literal(str(self.source), 'source')}"
        return text if self.location is None else f"{text} LOCATION {literal(str(self.location), 'location')}"


def _clauses(partitions: Sequence[Mapping[str, Any]] | None) -> str:
    """``PARTITION (…)`` for each of them."""
    from airflow_hive_acid.sql.parsing.builders import literal, quoted_column

    clauses = []
    for spec in partitions or ():
        pairs = ", ".join(
            f"{quoted_column(column, 'partitions')} = {literal(str(value), 'partitions')}"
            for column, value in spec.items()
        )
        clauses.append(f" PARTITION ({pairs})")
    return ",".join(clauses)
