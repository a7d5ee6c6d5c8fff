"""Our own tables in a metastore, version by version (``HIVE_ACID_VERSION``); Hive's ``VERSION`` is never touched.

Every step can be repeated: PostgreSQL and SQLite make all of them or none, MySQL commits each CREATE by itself, so the
version is noted after each step, and whoever comes after an interruption goes on where it ended. Afterwards the tables
are looked at: what is noted must be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import insert, select, update

from airflow_hive_acid.errors import SchemaVersionError
from airflow_hive_acid.metastore.database.backend import backend_of
from airflow_hive_acid.metastore.schema.hive_catalog import HIVE_ACID_PARTITION_NAME
from airflow_hive_acid.metastore.schema.hive_transactions import (
    HIVE_ACID_JOB,
    HIVE_ACID_LEGACY_LOCK,
    HIVE_ACID_LOCK_OBJECT,
    HIVE_ACID_VERSION,
    HIVE_ACID_WRITE_SET,
)
from airflow_hive_acid.metastore.schema.ours import (
    EXTENSION_TABLES,
    VERSION_5,
    VERSION_6,
    VERSION_7,
    VERSION_8,
    VERSION_9,
    VERSION_10,
)
from airflow_hive_acid.metastore.schema.types import METADATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """What takes our tables to a version from the one before.

    :param does: for people, what it makes.
    """

    version: int
    does: str
    apply: Callable[[Connection], None]


@dataclass(frozen=True, slots=True)
class SchemaUpgrade:
    """What an upgrade has done.

    :param before: version of our tables before, None when there were none.
    :param done: what each step made; empty when everything was there.
    """

    before: int | None
    after: int
    done: tuple[str, ...]


def _create_tables(connection: Connection) -> None:
    METADATA.create_all(connection, tables=[HIVE_ACID_VERSION, HIVE_ACID_JOB])


def _index_locks(connection: Connection) -> None:
    _create_index(connection, HIVE_ACID_LOCK_OBJECT)


def _index_write_set(connection: Connection) -> None:
    _create_index(connection, HIVE_ACID_WRITE_SET)


def _create_index(connection: Connection, index: sa.Index) -> None:
    """One of ours on a table of Hive's."""
    table = index.table
    if table is None:
        raise AssertionError(f"index {index.name} is of no table")
    spelled = backend_of(connection).layout.spelled(table.name)
    if index.name not in {found["name"] for found in sa.inspect(connection).get_indexes(spelled)}:
        index.create(connection)


def _create_legacy_locks(connection: Connection) -> None:
    METADATA.create_all(connection, tables=[HIVE_ACID_LEGACY_LOCK])


def _create_version_5(connection: Connection) -> None:
    METADATA.create_all(connection, tables=list(VERSION_5))


def _create_version_6(connection: Connection) -> None:
    METADATA.create_all(connection, tables=list(VERSION_6))


def _create_version_7(connection: Connection) -> None:
    METADATA.create_all(connection, tables=list(VERSION_7))


def _create_version_8(connection: Connection) -> None:
    METADATA.create_all(connection, tables=list(VERSION_8))


def _create_version_9(connection: Connection) -> None:
    METADATA.create_all(connection, tables=list(VERSION_9))


def _create_version_10(connection: Connection) -> None:
    METADATA.create_all(connection, tables=list(VERSION_10))


def _index_partition_names(connection: Connection) -> None:
    if backend_of(connection).indexes_names:
        _create_index(connection, HIVE_ACID_PARTITION_NAME)


STEPS = (
    UpgradeStep(1, "tables HIVE_ACID_VERSION and HIVE_ACID_JOB", _create_tables),
    UpgradeStep(2, "index HIVE_ACID_LOCK_OBJECT on HIVE_LOCKS", _index_locks),
    UpgradeStep(3, "index HIVE_ACID_WRITE_SET on WRITE_SET", _index_write_set),
    UpgradeStep(4, "table HIVE_ACID_LEGACY_LOCK", _create_legacy_locks),
    UpgradeStep(5, f"tables {', '.join(table.name for table in VERSION_5)}", _create_version_5),
    UpgradeStep(6, f"tables {', '.join(table.name for table in VERSION_6)}", _create_version_6),
    UpgradeStep(7, f"tables {', '.join(table.name for table in VERSION_7)}", _create_version_7),
    UpgradeStep(8, f"table {', '.join(table.name for table in VERSION_8)}", _create_version_8),
    UpgradeStep(9, f"table {', '.join(table.name for table in VERSION_9)}", _create_version_9),
    UpgradeStep(10, f"table {', '.join(table.name for table in VERSION_10)}", _create_version_10),
    UpgradeStep(11, "on PostgreSQL, index HIVE_ACID_PARTITION_NAME on PARTITIONS", _index_partition_names),
)
EXTENSION_VERSION = STEPS[-1].version
"""The version of our tables that this release works with."""


def read_extension_version(connection: Connection) -> int | None:
    """The version of our tables; the table that holds it must exist. None when no step was finished.

    :raises SchemaVersionError: when a newer release has made them.
    """
    version = connection.execute(select(HIVE_ACID_VERSION.c.HAV_VERSION)).scalar()
    if version is not None and version > EXTENSION_VERSION:
        raise SchemaVersionError(
            f"our tables in this metastore are version {version}, made by a newer release of this package; this one "
            f"knows versions up to {EXTENSION_VERSION}: install the newer release here, too"
        )
    return version


def upgrade_extensions(connection: Connection, before: int | None) -> SchemaUpgrade:
    """Bring our tables to :data:`EXTENSION_VERSION`; the metastore itself has been checked.

    :param before: the version found.
    :raises SchemaVersionError: when something of another shape stands where ours should be.
    """
    done = []
    for step in STEPS:
        if before is None or step.version > before:
            step.apply(connection)
            _note(connection, step.version)
            done.append(step.does)
    _require_complete(connection)
    return SchemaUpgrade(before, EXTENSION_VERSION, tuple(done))


def _note(connection: Connection, version: int) -> None:
    if not connection.execute(update(HIVE_ACID_VERSION).values(HAV_VERSION=version)).rowcount:
        connection.execute(insert(HIVE_ACID_VERSION), {"HAV_ID": 1, "HAV_VERSION": version})


def _require_complete(connection: Connection) -> None:
    found = sa.inspect(connection)
    for table in EXTENSION_TABLES:
        lacks = {c.name for c in table.columns} - {c["name"] for c in found.get_columns(table.name)}
        wanted = {str(index.name) for index in table.indexes if backend_of(connection).reflects(index)}
        lacks |= wanted - {index["name"] or "" for index in found.get_indexes(table.name)}
        if lacks:
            raise SchemaVersionError(
                f"the table {table.name} lacks {', '.join(sorted(lacks))}: it was not made by this package, or changed "
                "since; drop it when no Spark job of ours is running, and run 'hive-acid schema upgrade' again"
            )
