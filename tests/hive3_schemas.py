"""Metastores as Hive 3.1.0 and CDP's 3.1.3000 make them, from our own tables and what differs.

``tests/interop/hive3`` compares the first with what Hive's own script makes. CDP's script is not published; what
differs there was seen on one, and stands below.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_hive_acid.metastore.schema.layouts import NEXT_TXN_ID
from airflow_hive_acid.metastore.setup.schema import EXTENSION_TABLES, METADATA, SERVER_TABLES

KINDS = ("3.1", "cdp")
VERSIONS = {"3.1": "3.1.0", "cdp": "3.1.3000.7.1.9.0-387"}

COUNTERS = {"NEXT_TXN_ID": "NTXN_NEXT", "NEXT_LOCK_ID": "NL_NEXT", "NEXT_COMPACTION_QUEUE_ID": "NCQ_NEXT"}
_LATER = {"COMPACTION_METRICS_CACHE", "TXN_LOCK_TBL", "MIN_HISTORY_WRITE_ID"}
MISSING = {"3.1": _LATER | {"TXN_WRITE_NOTIFICATION_LOG"}, "cdp": _LATER}

_BOTH = {
    "COMPACTION_QUEUE": "CQ_CLEANER_START CQ_POOL_NAME CQ_NUMBER_OF_BUCKETS CQ_ORDER_BY",
    "COMPLETED_COMPACTIONS": "CC_NEXT_TXN_ID CC_TXN_ID CC_COMMIT_TIME CC_POOL_NAME CC_NUMBER_OF_BUCKETS CC_ORDER_BY",
    "DBS": "TYPE DATACONNECTOR_NAME REMOTE_DBNAME",
    "TAB_COL_STATS": "HISTOGRAM",
    "PART_COL_STATS": "HISTOGRAM",
}
_ONLY_3_1 = {
    "COMPACTION_QUEUE": "CQ_ENQUEUE_TIME CQ_ERROR_MESSAGE CQ_NEXT_TXN_ID CQ_TXN_ID CQ_COMMIT_TIME CQ_INITIATOR_ID "
    "CQ_INITIATOR_VERSION CQ_WORKER_VERSION CQ_RETRY_RETENTION",
    "COMPLETED_COMPACTIONS": "CC_ENQUEUE_TIME CC_ERROR_MESSAGE CC_INITIATOR_ID CC_INITIATOR_VERSION CC_WORKER_VERSION",
    "CTLGS": "CREATE_TIME",
    "DBS": "CREATE_TIME DB_MANAGED_LOCATION_URI",
    "TBLS": "WRITE_ID",
    "PARTITIONS": "WRITE_ID",
    "MV_TABLES_USED": "INSERTED_COUNT UPDATED_COUNT DELETED_COUNT",
    "TAB_COL_STATS": "ENGINE",
    "PART_COL_STATS": "ENGINE",
}
_MORE = {
    "TAB_COL_STATS": {"CAT_NAME": 256, "DB_NAME": 128, "TABLE_NAME": 256},
    "PART_COL_STATS": {"CAT_NAME": 256, "DB_NAME": 128, "TABLE_NAME": 256, "PARTITION_NAME": 767},
}
"""Columns that Hive 4.1 no longer has."""
LOWER_CASE = {
    "AUX_TABLE", "COMPACTION_QUEUE", "COMPLETED_COMPACTIONS", "COMPLETED_TXN_COMPONENTS", "HIVE_LOCKS",
    "MATERIALIZATION_REBUILD_LOCKS", "MIN_HISTORY_LEVEL", "NEXT_COMPACTION_QUEUE_ID", "NEXT_LOCK_ID", "NEXT_TXN_ID",
    "NEXT_WRITE_ID", "REPL_TXN_MAP", "RUNTIME_STATS", "TXNS", "TXN_COMPONENTS", "TXN_TO_WRITE_ID", "WRITE_SET",
}  # fmt: skip
"""On PostgreSQL: tables of 3.1.0 in lower case; at CDP views of that name stand beside upper-case tables."""
_NOT_OURS = {t.name for t in EXTENSION_TABLES}
_OURS_ON_THEIRS = {"HIVE_ACID_LOCK_OBJECT", "HIVE_ACID_WRITE_SET", "HIVE_ACID_PARTITION_NAME"}
_NEW_ELSEWHERE = {t.name for t in SERVER_TABLES}


def absent(kind: str) -> set[tuple[str, str]]:
    """Columns of Hive 4 that a schema of this kind lacks, as (table, column)."""
    both = [_BOTH, _ONLY_3_1] if kind == "3.1" else [_BOTH]
    return {(table, name) for columns in both for table, names in columns.items() for name in names.split()}


def create(url: str, kind: str) -> None:
    """Make a metastore of this kind in an empty database."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    lower = LOWER_CASE if engine.dialect.name == "postgresql" else set()
    tables = _tables(kind, lower if kind == "3.1" else set())
    with engine.begin() as connection:
        for made in tables.sorted_tables:
            made.create(connection)
        if kind == "cdp":
            for name in sorted(lower):
                columns = METADATA.tables[name].columns if name in METADATA.tables else NEXT_TXN_ID.columns
                view = ", ".join(
                    f'"{c.name}" AS {c.name.lower()}' for c in columns if (name, c.name) not in absent(kind)
                )
                text = f'CREATE VIEW {name.lower()} AS SELECT {view} FROM "{name}"'  # noqa: S608 - names of ours
                connection.execute(sa.DDL(text))
        for name, column in COUNTERS.items():
            spelled = tables.tables.get(name, tables.tables.get(name.lower()))
            assert spelled is not None
            connection.execute(sa.insert(spelled).values({spelled.c[0]: 1}))
            assert spelled.c[0].name.upper() == column
        insert = lambda name, **values: connection.execute(sa.insert(tables.tables[name]).values(**values))  # noqa: E731
        insert("NOTIFICATION_SEQUENCE", NNI_ID=1, NEXT_EVENT_ID=1)
        insert("SEQUENCE_TABLE", SEQUENCE_NAME="org.apache.hadoop.hive.metastore.model.MNotificationLog", NEXT_VAL=1)
        insert("CTLGS", CTLG_ID=1, NAME="hive", DESC="Default catalog for Hive", LOCATION_URI="TBD")
        insert(
            "VERSION", VER_ID=1, SCHEMA_VERSION=VERSIONS[kind], VERSION_COMMENT=f"Hive release version {VERSIONS[kind]}"
        )
    engine.dispose()


def _tables(kind: str, lower: set[str]) -> sa.MetaData:
    """The tables, with what is absent left out and names in lower case where they are."""
    made, gone = sa.MetaData(), absent(kind)
    source = sa.MetaData()
    for table in METADATA.sorted_tables:
        if table.name not in _NOT_OURS | MISSING[kind]:
            table.to_metadata(source)
    NEXT_TXN_ID.to_metadata(source)

    def spelled(table: str, name: str) -> str:
        return name.lower() if table in lower else name

    for table in source.tables.values():
        name = table.name
        columns = []
        for c in table.columns:
            if (name, c.name) in gone:
                continue
            keys = [
                sa.ForeignKey(".".join(spelled(*_parts(k.target_fullname), part) for part in _both(k.target_fullname)))
                for k in c.foreign_keys
            ] if name in LOWER_CASE else []  # fmt: skip
            counted = name == "TXNS" and c.name == "TXN_ID"
            columns.append(
                sa.Column(
                    spelled(name, c.name),
                    sa.BigInteger if counted else c.type,
                    *keys,
                    primary_key=c.primary_key,
                    nullable=c.nullable,
                    autoincrement=False,
                    server_default=c.server_default.arg if isinstance(c.server_default, sa.DefaultClause) else None,
                )
            )
        columns += [sa.Column(more, sa.String(length)) for more, length in _MORE.get(name, {}).items()]
        copy = sa.Table(spelled(name, name), made, *columns, **table.dialect_kwargs)
        for index in table.indexes:
            if str(index.name) in _OURS_ON_THEIRS | {"TXN_STATE_IDX"} or str(index.name).endswith("_KEY"):
                continue
            if all((name, c.name) not in gone for c in index.columns):
                sa.Index(
                    str(index.name).lower() if name in lower else str(index.name),
                    *(copy.c[spelled(name, c.name)] for c in index.columns),
                    unique=index.unique,
                    **index.dialect_kwargs,
                )
    return made


def _both(target: str) -> list[str]:
    return target.split(".")


def _parts(target: str) -> tuple[str]:
    return (target.split(".")[0],)
