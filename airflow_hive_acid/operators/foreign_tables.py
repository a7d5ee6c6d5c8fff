"""Makes a table of one of another format: Iceberg, Delta, Parquet or plain ORC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.hooks.arguments import Takes, check_parsed, optional_mapping, optional_texts, some_text
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator, result_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook


class HiveAcidImportForeignTableOperator(HiveAcidOperator):
    """Makes a full ACID table of a table of another format, in one commit.

    The rows are those of one version of the source, which becomes a property of the table. However often the task is
    tried, the table is made once. Jars for Iceberg and Delta, and catalogs, are settings of the Spark connection.

    :param source: ``iceberg:catalog.database.table``, ``delta:/path``, ``parquet:/path`` or ``orc:/path``. (templated)
    :param table: ``[db.]table`` to make. (templated)
    :param version: an Iceberg snapshot id or a Delta version; by default the newest. (templated)
    :param partition_by: columns of the source that the table is partitioned by. (templated)
    :param columns: names in the table by name in the source, where they differ. (templated)
    :param properties: more table properties. (templated)
    :param replace: a table of that name that is there becomes this one; otherwise the task fails.
    :param reuse_files: leave the files of plain ORC where they are: the table lies there and owns them, and nothing is
        copied. They get names that Hive takes for original files.
    :param verify: compare both sides afterwards, counts and checksums of each partition; the task fails when they
        differ, and the table stays.
    """

    template_fields: Sequence[str] = (
        "source", "table", "version", "partition_by", "columns", "properties", "lease", "hive_acid_conn_id",
        "spark_conn_id", "spark_service",
    )  # fmt: skip
    template_fields_renderers = {"columns": "json", "properties": "json"}  # noqa: RUF012 - Airflow reads it
    lineage_literals = False
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "source": some_text("iceberg:catalog.database.table, delta:/path, parquet:/path or orc:/path"),
        "table": some_text("[db.]table"),
        "partition_by": optional_texts("the names of columns"),
        "columns": optional_mapping("names in the source to names in the table"),
        "properties": optional_mapping("table properties to their values"),
    }
    never_a_member = "it makes a table; import before the group"

    def __init__(
        self,
        *,
        source: str,
        table: str,
        version: str | int | None = None,
        partition_by: Sequence[str] | str | None = None,
        columns: Mapping[str, str] | None = None,
        properties: Mapping[str, Any] | None = None,
        replace: bool = False,
        reuse_files: bool = False,
        verify: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        self.source = source
        self.table = table
        self.version = version
        self.partition_by = partition_by
        self.columns = columns
        self.properties = properties
        self.replace = replace
        self.reuse_files = reuse_files
        self.verify = verify
        check_parsed(self, self.takes)

    def work(self, hook: HiveAcidHook, engine: Engine, **how: Any) -> dict[str, Any]:
        """Import.

        :return: as of ``HiveAcidOperator``, with ``table``, ``source``, ``version`` and ``imported`` rows.
        """
        from airflow_hive_acid.engine.statements.foreign_tables import TableImport
        from airflow_hive_acid.mirrors.imports import verify_import

        wanted = TableImport.of(
            self.source, self.table, version=self.version or None, partition_by=self.partition_by or (),
            columns=self.columns, properties=self.properties, replace=self.replace, reuse_files=self.reuse_files,
        )  # fmt: skip
        made = engine.import_table(wanted, **how)
        self.log.info("%s", made)
        if self.verify and not self.reuse_files:
            verified = verify_import(hook.get_conn(), engine, made)
            self.log.info("%d rows in %d partitions are the same", verified.target_rows, verified.partitions)
        return result_document(list(made.results), self.xcom_rows) | made.to_document()

    def lineage_script(self) -> str:
        """The rows that are read are no table's of ours, so nothing is known by words."""
        return ""
