"""The routes about tables: how large they are, how that came, and why they are not compacted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.initiator.explain import explain
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog import named_by
from airflow_hive_acid.metastore.compaction import Resource
from airflow_hive_acid.metastore.compaction import series as measure_series
from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.metastore.listing import (
    HOUR_MS,
    CompactionsWanted,
    Slice,
    TablesWanted,
    compactions_page,
    partitions_page,
    tables_page,
)
from airflow_hive_acid.plugins import cursors, models, shaping, shaping_tables
from airflow_hive_acid.plugins import models_tables as tables_models
from airflow_hive_acid.plugins.access import reader
from airflow_hive_acid.plugins.routes.activity import compactions_of
from airflow_hive_acid.plugins.routes.parameters import Client, Cursor, Limit, Text

_POINTS = 500
_EVENTS = 500
_FEW = 10
_DECISIONS = 5

Name = Annotated[str, Query(min_length=1, max_length=256)]

router = APIRouter(
    prefix="/connections/{conn_id}/tables", tags=["tables"], dependencies=[Depends(reader)], responses=models.RESPONSES
)


@router.get("")
def tables(
    client: Client,
    database: Text = None,
    name: Annotated[str | None, Query(min_length=1, max_length=256, description="A part of the name.")] = None,
    transactional: bool | None = None,
    order: Literal["name", "deltas", "bytes", "delete_ratio"] = "name",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> models.Page[tables_models.TableRow]:
    """Tables by name, or those with the most deltas, bytes or deletes first; nothing is listed for it."""
    wanted = TablesWanted(database, name, transactional, order)
    shape = (str, str) if order == "name" else (int, str, str)
    part = Slice(limit, cursors.decode(cursor, *shape))
    page = client.database.read(
        lambda connection: tables_page(connection, client.database.features(connection), wanted, part)
    )
    rows = [shaping_tables.table(row) for row in page.items]
    return models.Page(items=rows, next=cursors.encode(page.after), total=page.total, now=page.now)


@router.get("/detail")
def table_detail(client: Client, database: Name, table: Name) -> tables_models.TableDetail:
    """A table with what was decided about it and asked for."""
    found = client.cache.table(f"{database}.{table}")

    def read(connection: Any) -> tables_models.TableDetail:
        features = client.database.features(connection)
        wanted = TablesWanted(found.db, only=found.name)
        page = tables_page(connection, features, wanted, Slice(1))
        if not page.items:
            raise NoSuchObjectError(f"table {database}.{table} is not there any more")
        asked = compactions_page(connection, CompactionsWanted(database=found.db, table=found.name), Slice(_FEW))
        return tables_models.TableDetail(
            now=page.now,
            row=shaping_tables.table(page.items[0]),
            location=shaping.public_uri(found.location),
            properties=shaping.properties(shaping_tables.of_compaction(found.properties)),
            decisions=[],
            requests=compactions_of(connection, client, list(asked.items)),
        )

    detail = client.database.read(read)
    decided = client.compactions.decisions.of_table(found.db, found.name, _DECISIONS)
    detail.decisions = [shaping.stored_decision(one) for one in decided]
    return detail


@router.get("/partitions")
def partitions(
    client: Client,
    database: Name,
    table: Name,
    name: Annotated[str | None, Query(min_length=1, max_length=767, description="A part of the name.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> models.Page[tables_models.PartitionRow]:
    """The partitions of a table by name, each with what was decided about it last."""
    client.cache.table(f"{database}.{table}")
    part = Slice(limit, cursors.decode(cursor, str))
    page = client.database.read(
        lambda connection: partitions_page(
            connection, client.database.features(connection), database, table, name, part
        )
    )
    rows = [shaping_tables.partition(row) for row in page.items]
    return models.Page(items=rows, next=cursors.encode(page.after), total=page.total, now=page.now)


@router.get("/series")
def series(
    client: Client,
    database: Name,
    table: Name,
    partition: Text = None,
    hours: Annotated[int, Query(ge=1, le=2160)] = 720,
) -> tables_models.Series:
    """How large a table or partition was, at each change, and when it was compacted."""
    found = client.cache.table(f"{database}.{table}")
    resource = Resource(found.db, found.name, partition and named_by(client.database, found, partition))
    now = client.database.read(now_ms)
    start = now - hours * HOUR_MS
    measured = client.measures.of_table(found.db, found.name, start)
    if partition is not None:
        measured = [one for one in measured if one.resource == resource]
    wanted = CompactionsWanted(database=found.db, table=found.name, partition=resource.partition)
    asked = client.database.read(lambda connection: compactions_page(connection, wanted, Slice(_EVENTS)))
    ended = sorted(
        (one for one in asked.items if one.end is not None and one.end >= start), key=lambda one: (one.end or 0, one.id)
    )
    return tables_models.Series(
        now=now,
        object=shaping.place(resource),
        points=[shaping_tables.point(one) for one in measure_series(measured, start, _POINTS)],
        compactions=[shaping_tables.last_compaction(one) for one in ended],
    )


@router.get("/explain")
def explanation(client: Client, database: Name, table: Name, partition: Text = None) -> tables_models.Explanation:
    """Why a table or partition was or was not compacted; lists its files, and changes nothing."""
    found = explain(client, AnyFilesystem(), f"{database}.{table}", partition)
    return tables_models.Explanation(
        now=client.database.read(now_ms),
        object=shaping.place(found.resource),
        writes=found.writes,
        decision=shaping.decision(found.decision),
        before=[shaping.stored_decision(one) for one in found.before],
        requests=_requests(client, found),
        cleaning=[shaping.cleaning(one) for one in found.cleaning],
        cleaned=[shaping.cleaned(one) for one in found.cleaned],
    )


def _requests(client: MetastoreClient, found: Any) -> list[models.Compaction]:
    return client.database.read(lambda connection: compactions_of(connection, client, list(found.requests)))
