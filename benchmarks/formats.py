"""Delta Lake, Apache Iceberg and our tables behind one interface: what ``peers.py`` measures.

Ours go through the engine on a metastore in SQLite, so that claims, locks, snapshots, write ids and commits count, as
log and manifests count for the others. Jobs run in the session at hand, as the statements of the others do.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.metastore import MetastoreClient

DELTA, ICEBERG = "4.4.0", "1.12.0"


class Format(Protocol):
    """A table format: tables by name, each with a state that can be brought back."""

    name: str

    def place(self, table: str) -> str:
        """How statements name a table of it."""

    def directory(self, table: str) -> Path:
        """Where a table lies, its log and metadata included."""

    def run(self, statement: str) -> None:
        """A statement that names tables by their places, and views by :meth:`define_view`."""

    def query(self, query: str) -> list[list[Any]]:
        """The rows of such a query."""

    def define_view(self, name: str, rows: Path) -> None:
        """Let statements read plain ORC files by a name."""

    def create(self, table: str, rows: Path) -> None:
        """A table with the rows of plain ORC files; it replaces one of that name."""

    def append(self, table: str, rows: Path) -> None:
        """One commit."""

    def change(self, statement: str, table: str) -> None:
        """UPDATE, DELETE or MERGE; ``{}`` stands for the table, and ``merged`` is a view."""

    def read(self, query: str, table: str) -> object:
        """All rows of a SELECT; ``{}`` stands for the table."""

    def compact(self, table: str) -> None:
        """Rewrite it without deletes."""

    def state(self, table: str) -> Any:
        """What :meth:`bring_back` takes."""

    def bring_back(self, table: str, state: Any) -> None:
        """Undo what was committed since."""


class Peer:
    """What Delta Lake and Apache Iceberg have in common: statements of the session at hand.

    :param directory: of its tables.
    """

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory

    def place(self, table: str) -> str:
        raise NotImplementedError

    def directory(self, table: str) -> Path:
        return self._directory / table

    def run(self, statement: str) -> None:
        self._spark.sql(statement).collect()

    def query(self, query: str) -> list[list[Any]]:
        return [list(row) for row in self._spark.sql(query).collect()]

    def define_view(self, name: str, rows: Path) -> None:
        plain(self._spark, rows).createOrReplaceTempView(name)

    def change(self, statement: str, table: str) -> None:
        self._spark.sql(statement.format(self.place(table)))

    def read(self, query: str, table: str) -> object:
        return self._spark.sql(query.format(self.place(table))).collect()


class Delta(Peer):
    """Delta Lake with deletion vectors."""

    name = f"Delta {DELTA}"

    def place(self, table: str) -> str:
        return f"delta.`{self._directory / table}`"

    def create(self, table: str, rows: Path) -> None:
        shutil.rmtree(self._directory / table, ignore_errors=True)
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in plain(self._spark, rows).schema)
        self._spark.sql(
            f"CREATE TABLE {self.place(table)} ({columns}) USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        self.append(table, rows)

    def append(self, table: str, rows: Path) -> None:
        plain(self._spark, rows).write.format("delta").mode("append").save(str(self._directory / table))

    def compact(self, table: str) -> None:
        self._spark.sql(f"OPTIMIZE {self.place(table)}").collect()

    def state(self, table: str) -> int:
        history = self._spark.sql(f"DESCRIBE HISTORY {self.place(table)} LIMIT 1")
        return int(history.select("version").collect()[0][0])

    def bring_back(self, table: str, state: int) -> None:
        self._spark.sql(f"RESTORE TABLE {self.place(table)} TO VERSION AS OF {state}").collect()


class Iceberg(Peer):
    """Apache Iceberg, merge-on-read."""

    name = f"Iceberg {ICEBERG}"

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        super().__init__(spark, directory / "ice" / "db")

    def place(self, table: str) -> str:
        return f"ice.db.{table}"

    def create(self, table: str, rows: Path) -> None:
        self._spark.sql(f"DROP TABLE IF EXISTS {self.place(table)} PURGE")
        writer = (
            plain(self._spark, rows).writeTo(self.place(table)).using("iceberg").tableProperty("format-version", "3")
        )
        for kind in ("update", "delete", "merge"):
            writer = writer.tableProperty(f"write.{kind}.mode", "merge-on-read")
        writer.create()

    def append(self, table: str, rows: Path) -> None:
        plain(self._spark, rows).writeTo(self.place(table)).append()

    def compact(self, table: str) -> None:
        self._spark.sql(
            f"CALL ice.system.rewrite_data_files(table => 'db.{table}', options => map('rewrite-all', 'true', "
            "'remove-dangling-deletes', 'true', 'max-concurrent-file-group-rewrites', '2'))"
        ).collect()

    def state(self, table: str) -> int:
        newest = "SELECT snapshot_id FROM {}.snapshots ORDER BY committed_at DESC LIMIT 1"
        return int(self._spark.sql(newest.format(self.place(table))).collect()[0][0])

    def bring_back(self, table: str, state: int) -> None:
        self._spark.sql(f"CALL ice.system.rollback_to_snapshot('db.{table}', {state})").collect()


class HiveAcid:
    """Our tables, by the engine.

    :param settings: by Hive's keys.
    :param codec: table property ``orc.compress``; None: none, so that Hive's default counts.
    """

    name = "ours"
    _client: MetastoreClient
    _engine: Engine

    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        codec: str | None = None,
    ) -> None:
        self._spark = spark
        self._settings = dict(settings or {})
        self._properties = {"transactional": "true"}
        self._home = directory / "hive-acid"
        if codec is not None:
            self.name = f"ours, {codec}"
            self._properties["orc.compress"] = codec
            self._home = directory / f"hive-acid-{codec}"
        self._home.mkdir(parents=True)
        self._views: dict[str, Source] = {}
        self._warehouse = self._home / "warehouse"
        self._warehouse.mkdir()
        self._database = self._home / "metastore.db"
        self._open()
        self._client.create_schema()

    def _open(self) -> None:
        from airflow_hive_acid.engine import Engine
        from airflow_hive_acid.metastore import MetastoreClient
        from airflow_hive_acid.settings import Settings
        from airflow_hive_acid.settings import Source as From

        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        from tests.in_process import InProcess

        settings = Settings({From.CONNECTION: self._settings})
        self._client = MetastoreClient(f"sqlite:///{self._database}", settings)
        self._engine = Engine(self._client, InProcess(self._spark, self._home), f"file:{self._warehouse}")
        for view in self._views.values():
            self._engine.define_view(view)

    def place(self, table: str) -> str:
        return table

    def directory(self, table: str) -> Path:
        return self._warehouse / table

    def run(self, statement: str) -> None:
        self._engine.run(statement)

    def query(self, query: str) -> list[list[Any]]:
        return [list(row) for row in self._engine.query(query).rows]

    def close(self) -> None:
        """Let go of the metastore."""
        self._engine.close()
        self._client.close()

    def create(self, table: str, rows: Path) -> None:
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in plain(self._spark, rows).schema)
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in self._properties.items())
        self._engine.run(
            f"DROP TABLE IF EXISTS {table} PURGE; CREATE TABLE {table} ({columns}) STORED AS ORC "
            f"TBLPROPERTIES ({properties})"
        )
        self.append(table, rows)

    def append(self, table: str, rows: Path) -> None:
        self.define_view("rows_of_files", rows)
        self._engine.run(f"INSERT INTO {table} SELECT * FROM rows_of_files")  # noqa: S608 - a name of our own

    def define_view(self, name: str, rows: Path) -> None:
        """Let statements read plain ORC files by a name."""
        from airflow_hive_acid.format.jobs import Source

        self._views[name] = Source(name, "orc", {"path": str(rows)})
        self._engine.define_view(self._views[name])

    def change(self, statement: str, table: str) -> None:
        self._engine.run(statement.format(table))

    def read(self, query: str, table: str) -> object:
        return self._engine.query(query.format(table))

    def compact(self, table: str) -> None:
        self._engine.run(f"ALTER TABLE {table} COMPACT 'major' AND WAIT")

    def maintain(self) -> str:
        """One look of Initiator, Worker and Cleaner each; what was compacted, in a few words."""
        from airflow_hive_acid.filesystem import AnyFilesystem
        from airflow_hive_acid.maintenance import run_cleaner, run_initiator

        files = AnyFilesystem()
        decisions = run_initiator(self._client, files)
        outcomes = self._engine.run_compactions("longevity")
        run_cleaner(self._client, files)
        for decision in decisions:
            print(f"  {decision}", file=sys.stderr)
        return ", ".join(f"{o.resource.table}: {o.type.name.lower()} {o.kind.value}" for o in outcomes)

    def reads(self, table: str) -> int:
        """How often it was read, as far as that was counted."""
        from airflow_hive_acid.metastore.compaction import Resource

        resource = Resource("default", table)
        _, found = self._client.reads.find([resource])
        return found[resource].reads if resource in found else 0

    def mirror(self, table: str, target: str, key: list[str] | None) -> None:
        """Let a mirror follow."""
        from airflow_hive_acid.mirrors.runner import run_mirror

        opened = partial(nullcontext, self._engine)
        run_mirror(self._client, opened, f"default.{table}", target, key=key)

    def state(self, table: str) -> Path:
        """The whole metastore and the files, which are hard links: nothing of ours writes into a file again."""
        kept = self._home / f"kept-{table}"
        self.close()
        shutil.copy(self._database, kept.with_suffix(".db"))
        shutil.copytree(self._warehouse / table, kept, copy_function=_link)
        self._open()
        return kept

    def bring_back(self, table: str, state: Path) -> None:
        self.close()
        for left in self._home.glob("metastore.db*"):
            left.unlink()
        shutil.copy(state.with_suffix(".db"), self._database)
        shutil.rmtree(self._warehouse / table)
        shutil.copytree(state, self._warehouse / table, copy_function=_link)
        self._open()


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def plain(spark: SparkSession, rows: Path) -> DataFrame:
    """Plain ORC files as they are."""
    return spark.read.orc(str(rows))
