"""Good inputs: what a real Hive wrote (tests/fixtures), and what the product's own writers write."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_hive_acid.format import jobs
from airflow_hive_acid.format.changes import Changes
from airflow_hive_acid.format.jobs.documents import to_json
from airflow_hive_acid.format.orc_tail import TAIL_BYTES
from airflow_hive_acid.metastore.catalog.thrift.parser import parse_partition, parse_table
from airflow_hive_acid.metastore.notifications.events import GZIP_FORMAT, PLAIN_FORMAT, encode
from airflow_hive_acid.metastore.notifications.log import LoggedEvent
from airflow_hive_acid.replication.dumps import dump
from airflow_hive_acid.replication.events.segments import encode_segment

FIXTURES = Path(__file__).parent.parent / "fixtures"
_SUM = "sha256:" + "0" * 64


def specs() -> list[str]:
    """A spec of every kind of step."""
    table = jobs.TableSnapshot(
        "db.t", "file:/w/t", (jobs.Column("a", "int"), jobs.Column("b", "decimal(12,2)", True)), (jobs.Column("p",
        "string"),),
        (jobs.PartitionRef("p=1", "file:/w/t/p=1", ("1",)),), "db.t:3:2:2:1", "7:5:5:3",
        properties={"orc.compress": "ZLIB"},
        bucketing=jobs.Bucketing(("a",), 4, "2", (("a", True),)),
        expected={"p=1": jobs.Expected(7, True, (("delta_0000001_0000001_0000", ("bucket_00000",)),))},
    )  # fmt: skip
    insert = jobs.Insert(table, "SELECT * FROM v", 3, 0, ("a",), (("p", "1"),))
    assignment = jobs.Assignment("a", "a + 1")
    steps: list[Any] = [
        insert,
        jobs.Append(insert, "1-2", 1, 10),
        jobs.CloseBatch("1-2", True),
        jobs.Update(table, "t", (assignment,), "a > 1", 3, 0, 1),
        jobs.Delete(table, "t", None, 3, 0),
        jobs.Merge(table, "t", "s", "s", "t.a = s.a", (jobs.MergeClause("update", True, "s.a > 1", (assignment,)),),
        3, 0, 1),
        jobs.Select("SELECT 1", "file:/r", 10),
        jobs.Compact(table, "rebalance", 9, 4, "a DESC"),
        jobs.Export("SELECT 1", "file:/e", "csv", {"header": "true"}, ("p",), "file:/r"),
        jobs.Program("f", "def f(job): ...", None, "f", {"x": [1, {"y": None}]}, "file:/r"),
        jobs.Copy((jobs.CopiedFile("file:/a", "file:/b", 12, _SUM),)),
    ]  # fmt: skip
    view = jobs.View("v", table, True, None, Changes(1, 3) if _takes_two(Changes) else None)
    source = jobs.Source("s", "csv", {"path": "/x"}, (jobs.Column("a", "int"),))
    return [to_json(jobs.JobSpec("j-1", step, (view,), (source,), "file:/w/t/_tmp_j", {"k": "v"})) for step in steps]


def _takes_two(kind: Any) -> bool:
    return list(kind.__dataclass_fields__)[:2] == ["after", "upto"]


def results() -> list[str]:
    """Results of writes, queries, copies, and failures."""
    result = jobs.JobResult("j-1", "app-1", seconds=1.5)
    files = (jobs.WrittenFile("bucket_00000", 3, 900), jobs.WrittenFile("bucket_00001", 0, 0))
    written = jobs.WrittenDirectory("p=a%2Fb", ("a/b",), "delta_0000003_0000003_0000", files)
    return [
        to_json(replace(result, directories=(written, written), inserted=3, updated=1, deleted=2)),
        to_json(replace(result, columns=(jobs.Column("a", "int"),), rows=7)),
        to_json(replace(result, copied=(jobs.CopiedFile("file:/a", "file:/b", 12, _SUM, True),))),
        to_json(replace(result, error=jobs.JobError("BadRecordError", "no"))),
        to_json(replace(result, error=jobs.JobError("CommitStateUnknownError", "no"))),
    ]


def orc_tails() -> list[bytes]:
    """Ends of files that a Hive wrote."""
    files = sorted(path for path in FIXTURES.rglob("bucket_*") if path.is_file())
    return [path.read_bytes()[-TAIL_BYTES:] for path in files[:: max(1, len(files) // 20)]]


def flush_lengths() -> list[bytes]:
    """Side files of one flush, of some, of a torn one, of none."""
    return [struct.pack(">3q", 100, 300, 700), struct.pack(">q", 1_000), struct.pack(">2q", 5, 9) + b"\0\0", b""]


def events() -> list[tuple[str, ...]]:
    """Rows of a notification log: type, database, table, message, format."""
    found = []
    for number, line in enumerate((FIXTURES / "events.jsonl").read_text().splitlines()):
        row = json.loads(line)
        if "message" in row:
            form = GZIP_FORMAT if number % 7 == 0 else PLAIN_FORMAT
            found.append((row["type"], row["database"] or "", row["table"] or "", encode(row["message"], form), form))
    return found


def thrift() -> list[str]:
    """Thrift's JSON of databases, tables and partitions."""
    found = [
        text
        for line in (FIXTURES / "events.jsonl").read_text().splitlines()
        for key, text in json.loads(line).get("message", {}).items()
        if key.endswith("Json") and isinstance(text, str)
    ]
    return list(dict.fromkeys(found))


def dumps() -> list[tuple[str, ...]]:
    """Metadata and list of files of dumps."""
    tables = [(parse_table(text), text) for text in thrift() if '"columns"' not in text and _is_table(text)]
    found = []
    for table, _ in tables[:12]:
        parts = [p for p in map(_partition_of(table), thrift()) if p is not None][:2] if table.partition_columns else []
        files = tuple(
            dump.DumpFile(p.name if p else "", f"delta_0000001_0000001_0000/bucket_{i:05d}", 10 + i, _SUM)
            for p in (parts or [None]) for i in range(2)
        )  # fmt: skip
        whole = dump.Dump(
            table, dump.Scope.ALL if hasattr(dump.Scope,
            "ALL") else next(s for s in dump.Scope if s is not dump.Scope.NONE),
            7, "9", tuple(parts), files=files, write_ids=f"{table.db}.{table.name}:5:3:3:2",
        )  # fmt: skip
        found.append((dump.metadata_text(whole), dump.file_list_text(files)))
    return found


def _is_table(text: str) -> bool:
    fields = json.loads(text) if text.startswith("{") else {}
    return "7" in fields and "rec" in fields["7"] and "12" in fields


def _partition_of(table: Any) -> Any:
    def read(text: str) -> Any:
        try:
            return parse_partition(text, table.partition_columns)
        except ValueError:
            return None

    return read


def segments() -> list[bytes]:
    """Segments of an event store."""
    rows = [LoggedEvent(n, 1_700_000_000, e[0], "hive", e[1], e[2], e[3], e[4]) for n, e in enumerate(events()[:8], 1)]
    return [encode_segment(rows), encode_segment(rows[:1])]


def listings() -> list[str]:
    """Listings of tables that a Hive wrote, a path a line."""
    found = []
    for path in sorted(FIXTURES.rglob("listing.txt")):
        lines = [line.split("\t")[0].split()[-1] for line in path.read_text().splitlines() if line.strip()]
        found.append("\n".join("/".join(line.split("/")[-2:]) for line in lines))
    return found[:20]


def partitions() -> list[str]:
    """Names of partitions as Hive and others spell them."""
    return [
        "ds=2024-01-01",
        "ds=a%2Fb/hr=02",
        "ds=a%252Fb",
        "day=1/hr=2",
        "ds=__HIVE_DEFAULT_PARTITION__",
        "p=\u00e9 x=%3D",
    ]


def id_lists() -> list[str]:
    """Texts of snapshots."""
    return [
        "9223372036854775807:9223372036854775807::", "17:3:3,5:1,9", "100:10:10-20,30:40-90", "db.t:5:3:3:1,2",
        "db.t:7:::",
        "null:7:2:2-4:", "",
    ]  # fmt: skip


def scripts() -> list[str]:
    """SQL of every kind."""
    return [
        "CREATE TABLE db.t (a INT, b DECIMAL(12,2) NOT NULL) PARTITIONED BY (p STRING) CLUSTERED BY (a) INTO 4 BUCKETS "
        "STORED AS ORC TBLPROPERTIES ('transactional'='true')",
        "INSERT INTO t PARTITION (p='1') SELECT a, b FROM s WHERE a > 1 AND b IN (SELECT 1); SELECT * FROM t",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND s.b > 1 THEN UPDATE SET b = s.b WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)",
        "UPDATE t SET a = a + 1, b = 'x''y' WHERE p = '1'; DELETE FROM t WHERE a BETWEEN 1 AND 2",
        "BEGIN; INSERT OVERWRITE TABLE t VALUES (1, 'a'), (2, NULL); COMMIT",
        "ALTER TABLE t ADD IF NOT EXISTS PARTITION (p='a/b') LOCATION '/x'; ALTER TABLE t RENAME TO u; "
        "DROP TABLE IF EXISTS u",
        "SHOW LOCKS t EXTENDED; SHOW COMPACTIONS; ABORT TRANSACTIONS 1, 2; "
        "ALTER TABLE t PARTITION (p='1') COMPACT 'major'",
        "WITH x AS (SELECT 1 AS a) SELECT /*+ BROADCAST(x) */ x.a, t.* FROM x LEFT JOIN db.t AS t ON x.a = t.a -- end",
        "LOAD DATA INPATH '/a' OVERWRITE INTO TABLE t; EXPORT TABLE t TO '/e'; IMPORT TABLE u FROM '/e'",
        "EXPLAIN LOCKS SELECT * FROM t FOR SYSTEM_VERSION AS OF 3",
    ]  # fmt: skip
