"""From what was gathered to OpenLineage: datasets and facets. Imported only when the OpenLineage provider asks.

Nothing that may be secret gets in: of connections the address without user and password, of views over files the path
without credentials and no options, of statements with values of their own the text without its literals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    datasource_dataset,
    lifecycle_state_change_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    sql_job,
    storage_dataset,
    symlinks_dataset,
)

from airflow_hive_acid.operators.lineage.facets import (
    TRANSACTIONS,
    WRITTEN,
    HiveAcidTransaction,
    HiveAcidTransactionsRunFacet,
    HiveAcidWrittenDatasetFacet,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openlineage.client.generated.base import OutputDatasetFacet

    from airflow_hive_acid.engine.outcomes.events import StatementPlanned
    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.hooks.lineage import Collected, Output
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.lineage.values import Lineage, Uses
    from airflow_hive_acid.sql.planning.named_tables import Touched

LONGEST_SQL = 10_000
"""Characters of the statements that are told; more are left out."""
_OBJECT_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}


@dataclass(frozen=True, slots=True)
class Place:
    """Which metastore it is.

    :param namespace: OpenLineage's namespace of its tables.
    :param conn_id: the connection's id.
    :param uri: of its database, without user and password.
    """

    namespace: str
    conn_id: str
    uri: str


def operator_lineage(
    place: Place,
    touched: Touched,
    collected: Collected | None,
    *,
    files: str | None = None,
    result: Mapping[str, Any] | None = None,
    literals: bool = True,
) -> OperatorLineage[Any, Any]:
    """The lineage of a task.

    :param touched: what it was going to read and write.
    :param collected: what its statements have done so far; None before they have begun.
    :param files: path or URI of files that it writes.
    :param result: what an export returned: ``rows``, ``files`` and ``bytes``.
    :param literals: tell the texts of statements as they are.
    """
    return _Told(place, touched, collected, literals).lineage(files, result)


class _Told:
    """One answer in the making."""

    def __init__(self, place: Place, touched: Touched, collected: Collected | None, literals: bool) -> None:
        self._place = place
        self._touched = touched
        self._literals = literals
        self._planned: list[StatementPlanned] = [] if collected is None else collected.planned
        self._collected = collected
        self._tables: dict[str, Table] = {}
        self._views: dict[str, Source] = dict(touched.views)
        for told in self._planned:
            self._tables.update(told.tables)
            self._views.update(told.views)
        self._snapshot: dict[str, int] = {}
        for told in self._planned:
            self._snapshot.update(told.snapshot)

    def lineage(self, files: str | None, result: Mapping[str, Any] | None) -> OperatorLineage[Any, Any]:
        """Everything."""
        lineages = [] if self._collected is None else self._collected.lineages()
        by_target = {lineage.target: lineage for lineage in lineages}
        outputs: dict[str, Output] = {}
        if self._collected is not None:
            outputs = {**self._collected.still_open(), **self._collected.outputs}
        written = dict.fromkeys((*self._touched.writes, *(t for t in by_target if t), *outputs))
        datasets = [self._output(name, by_target.get(name), outputs.get(name)) for name in written]
        if files is not None:
            datasets.append(self._files(files, by_target.get(None), result))
        return OperatorLineage(
            inputs=self._inputs(lineages), outputs=datasets, run_facets=self._run_facets(), job_facets=self._sql()
        )

    def _inputs(self, lineages: Iterable[Lineage]) -> list[InputDataset]:
        names = dict.fromkeys((*self._touched.reads, *(n for one in lineages for n in one.inputs)))
        found: dict[tuple[str, str], InputDataset] = {}
        for name in names:
            dataset = self._dataset(name)
            if dataset is not None:
                namespace, called, facets = dataset
                found[namespace, called] = InputDataset(namespace, called, facets=facets)
        return list(found.values())

    def _dataset(self, name: str) -> tuple[str, str, dict[str, DatasetFacet]] | None:
        """Namespace, name and facets of a table or of a view over files; None for rows of a job's own making."""
        view = self._views.get(name)
        if view is not None:
            path = next((value for key, value in view.options.items() if key.lower() == "path"), None)
            if not path:
                return None
            return *location(path), _schema((c.name, c.type, None) for c in view.columns)
        facets = self._of_table(name)
        if name in self._snapshot:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(self._snapshot[name]))
        return self._place.namespace, name, facets

    def _of_table(self, name: str) -> dict[str, DatasetFacet]:
        facets: dict[str, DatasetFacet] = {
            "dataSource": datasource_dataset.DatasourceDatasetFacet(name=self._place.conn_id, uri=self._place.uri)
        }
        table = self._tables.get(name)
        if table is None:
            return facets
        columns = (*table.columns, *table.partition_columns)
        facets |= _schema((c.name, c.type, table.comments.get(c.name)) for c in columns)
        namespace, path = location(table.location)
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(
            identifiers=[symlinks_dataset.Identifier(namespace=namespace, name=path, type="LOCATION")]
        )
        facets["storage"] = storage_dataset.StorageDatasetFacet(storageLayer="hive", fileFormat=table.format)
        return facets

    def _output(self, name: str, lineage: Lineage | None, output: Output | None) -> OutputDataset:
        facets = self._of_table(name)
        change = self._touched.writes.get(name)
        if change is not None:
            old = self._touched.renamed.get(name)
            facets["lifecycleStateChange"] = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
                lifecycle_state_change_dataset.LifecycleStateChange(change),
                None
                if old is None
                else lifecycle_state_change_dataset.PreviousIdentifier(name=old, namespace=self._place.namespace),
            )
        if lineage is not None:
            facets |= self._columns(lineage)
        statistics: dict[str, OutputDatasetFacet] = {}
        if output is not None:
            if output.write_id is not None:
                facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(output.write_id))
            facets[WRITTEN] = HiveAcidWrittenDatasetFacet(
                output.write_id, output.inserted, output.updated, output.deleted
            )
            statistics = _statistics(output.inserted + output.updated, output.bytes, output.files)
        return OutputDataset(self._place.namespace, name, facets=facets, outputFacets=statistics)

    def _files(self, uri: str, lineage: Lineage | None, result: Mapping[str, Any] | None) -> OutputDataset:
        """Files that an export leaves."""
        facets = {} if lineage is None else self._columns(lineage)
        statistics = {} if result is None else _statistics(result["rows"], result["bytes"], result["files"])
        return OutputDataset(*location(uri), facets=facets, outputFacets=statistics)

    def _columns(self, lineage: Lineage) -> dict[str, DatasetFacet]:
        fields = {
            name: column_lineage_dataset.Fields(inputFields=used)
            for name, uses in lineage.columns
            if name not in ("", "*") and (used := self._used(uses))
        }
        rows = self._used(lineage.rows)
        if not fields and not rows:
            return {}
        return {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields, dataset=rows)}

    def _used(self, uses: Uses) -> list[column_lineage_dataset.InputField]:
        ways: dict[tuple[str, str], list[tuple[str, str, bool]]] = {}
        for use in uses:
            ways.setdefault((use.relation, use.column), []).append((*use.how.value, use.masking))
        found = []
        for (relation, column), hows in sorted(ways.items()):
            dataset = self._dataset(relation)
            if dataset is not None:
                transformations = [
                    column_lineage_dataset.Transformation(type=kind, subtype=subtype, masking=masking)
                    for kind, subtype, masking in sorted(hows)
                ]
                found.append(column_lineage_dataset.InputField(*dataset[:2], column, transformations))
        return found

    def _run_facets(self) -> dict[str, Any]:
        txns = [] if self._collected is None else [self._collected.txns[i] for i in sorted(self._collected.txns)]
        if not txns:
            return {}
        told = [HiveAcidTransaction(t.txn_id, t.state, t.operations, t.write_ids, t.snapshot) for t in txns]
        return {TRANSACTIONS: HiveAcidTransactionsRunFacet(told)}

    def _sql(self) -> dict[str, Any]:
        from airflow_hive_acid.sql.text.masking import hide_secrets
        from airflow_hive_acid.sql.text.source import without_literals

        texts = list(
            dict.fromkeys(hide_secrets(t.plan.statement.text) for t in self._planned if t.plan.kind != "program")
        )
        if not self._literals:
            texts = [without_literals(text) for text in texts]
        query = ";\n".join(texts)
        if not query:
            return {}
        return {"sql": sql_job.SQLJobFacet(query if len(query) <= LONGEST_SQL else f"{query[:LONGEST_SQL]}…")}


def location(uri: str) -> tuple[str, str]:
    """OpenLineage's namespace and name of a path or URI; without user, password and query."""
    parts = urlsplit(uri)
    scheme = parts.scheme.lower()
    if scheme in ("", "file"):
        return "file", parts.path or "/"
    host = parts.hostname or ""
    address = f"{host}:{parts.port}" if parts.port else host
    if scheme in _OBJECT_STORES:
        # The name of a bucket may hold capitals, which hostname loses.
        return f"{_OBJECT_STORES[scheme]}://{parts.netloc.rpartition('@')[2]}", parts.path.strip("/") or "/"
    return f"{scheme}://{address}", parts.path or "/"


def _schema(columns: Iterable[tuple[str, str, str | None]]) -> dict[str, DatasetFacet]:
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name=name, type=type_, description=comment)
        for name, type_, comment in columns
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)} if fields else {}


def _statistics(rows: int, size: int | None, files: int | None) -> dict[str, OutputDatasetFacet]:
    facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=rows, size=size, fileCount=files
    )
    return {"outputStatistics": facet}
