"""The metastore's schema: all tables, how to create them, and which Hive versions we serve.

Hive's tables (lists 1.1 to 1.5) come from ``schema.hive_transactions`` and ``schema.hive_catalog``, those that only
Hive itself uses from ``schema.hive_server``. Version gate: Hive 4.0, 4.1 and 4.2 have the same columns where it
matters; 4.3 adds catalog columns that change uniqueness, so it is refused by ``VERSION``. Our own (``HIVE_ACID_*``,
``HIVE_LEASE``) have a version of their own (``upgrade``) and never touch Hive's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import insert, select

from airflow_hive_acid.errors import ConfigurationError, SchemaVersionError
from airflow_hive_acid.metastore.database.backend import backend_of
from airflow_hive_acid.metastore.schema.hive_catalog import *  # noqa: F403 - this module is the list of all tables
from airflow_hive_acid.metastore.schema.hive_catalog import CTLGS
from airflow_hive_acid.metastore.schema.hive_server import SERVER_TABLES as SERVER_TABLES
from airflow_hive_acid.metastore.schema.hive_transactions import *  # noqa: F403
from airflow_hive_acid.metastore.schema.hive_transactions import (
    HIVE_ACID_VERSION,
    NEXT_COMPACTION_QUEUE_ID,
    NEXT_LOCK_ID,
    NOTIFICATION_SEQUENCE,
    SEQUENCE_TABLE,
    TXN_LOCK_TBL,
    TXNS,
    VERSION,
)
from airflow_hive_acid.metastore.schema.layouts import NOT_IN_HIVE_3, OPTIONAL_TABLES, not_served
from airflow_hive_acid.metastore.schema.ours import *  # noqa: F403
from airflow_hive_acid.metastore.schema.ours import EXTENSION_TABLES
from airflow_hive_acid.metastore.schema.types import METADATA
from airflow_hive_acid.metastore.setup.abilities import lacking
from airflow_hive_acid.metastore.setup.upgrade import (
    EXTENSION_VERSION as EXTENSION_VERSION,
)
from airflow_hive_acid.metastore.setup.upgrade import (
    SchemaUpgrade as SchemaUpgrade,
)
from airflow_hive_acid.metastore.setup.upgrade import (
    read_extension_version,
    upgrade_extensions,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.schema.layouts import Layout

SCHEMA_VERSION = "4.1.0"
"""Version of the schema we create."""
_SERVED = re.compile(r"4\.[012](\.\d+)+")
_COUNTING = re.compile(r"3\.1(\.\d+)+(-\w+)?")
"""Versions of a Hive that counts txns in a table of its own (NEXT_TXN_ID)."""
_MODEL = "org.apache.hadoop.hive.metastore.model."


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What a metastore database holds.

    :param version: Hive's schema version.
    :param comment: Hive's comment to it.
    :param extension_version: version of our tables, None when they are not there.
    :param lacks: what cannot be had on it, for people; empty for Hive 4's.
    """

    version: str
    comment: str | None
    extension_version: int | None
    lacks: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        """Whether our tables are all there, as this release wants them."""
        return self.extension_version == EXTENSION_VERSION


def create_schema(database: Database) -> None:
    """Create all tables, Hive's and ours, with Hive's first rows; on a schema that is there, check it and add ours.

    :raises ConfigurationError: when the file of an embedded metastore, or its directory, cannot be made.
    :raises SchemaVersionError: when the database holds another version or only some of the tables.
    """
    if database.path is not None and not database.path.exists():
        try:
            database.path.parent.mkdir(parents=True, exist_ok=True)
            database.path.touch(0o644)
        except OSError as error:
            raise ConfigurationError(
                f"the file of the metastore {database.where} cannot be made ({error}); name another file"
            ) from error

    def create(connection: Connection) -> None:
        with backend_of(connection).creating(connection):
            _create(connection)

    database.run(create)
    database.forget_features()


def upgrade_schema(database: Database) -> SchemaUpgrade:
    """Create our own tables in a metastore that Hive's schema tool has made, or bring them to this release's version.

    :return: what was done; nothing when everything was there.
    :raises SchemaVersionError: when it is no metastore of a Hive 3.1 or 4.0 to 4.2, or our tables are newer.
    """

    def upgrade(connection: Connection) -> SchemaUpgrade:
        with backend_of(connection).creating(connection):
            return upgrade_extensions(connection, read_state(connection).extension_version)

    done = database.run(upgrade)
    database.forget_features()
    return done


def check_schema(database: Database) -> SchemaState:
    """What the database holds.

    :raises SchemaVersionError: when it is no metastore of a Hive 3.1 or 4.0 to 4.2; names what was found.
    """
    return database.read(read_state)


def read_state(connection: Connection) -> SchemaState:
    """The schema's state, checked (see :func:`check_schema`)."""
    names = set(sa.inspect(connection).get_table_names())
    if VERSION.name not in names:
        found = f"it holds {len(names)} other tables" if names else "it is empty"
        raise SchemaVersionError(
            f"the database is no Hive metastore: {found} and no VERSION; run 'hive-acid schema create' on an empty one"
        )
    row = connection.execute(
        select(VERSION.c.SCHEMA_VERSION, VERSION.c.VERSION_COMMENT).where(VERSION.c.VER_ID == 1)
    ).first()
    if row is None:
        raise SchemaVersionError(f"the metastore has no schema version: {_UNFINISHED}")
    version = str(row[0])
    layout = backend_of(connection).layout
    if not (_COUNTING if layout.counts_txns else _SERVED).fullmatch(version):
        raise SchemaVersionError(not_served(version))
    hive_tables = {t.name for t in METADATA.sorted_tables if t not in EXTENSION_TABLES}
    there = {name.upper() if name.upper() in layout.lower_case else name for name in names}
    missing = sorted(hive_tables - there - _not_needed(layout))
    missing += sorted(f"{table}.{column}" for table, column in _NEEDED_COLUMNS & layout.absent)
    if missing:
        raise SchemaVersionError(
            f"the metastore of version {version} lacks the tables {', '.join(missing)}: {_UNFINISHED}"
        )
    extension = None
    if HIVE_ACID_VERSION.name in names:
        extension = read_extension_version(connection)
    return SchemaState(version, row[1], extension, lacking(layout))


_NEEDED_COLUMNS = {
    ("TXNS", "TXN_TYPE"),
    ("TXN_COMPONENTS", "TC_WRITEID"),
    ("COMPLETED_TXN_COMPONENTS", "CTC_UPDATE_DELETE"),
}
"""Without them, as before Hive 3.1, nobody can tell what a txn is and what it wrote."""


def _not_needed(layout: Layout) -> frozenset[str]:
    """Hive's tables that a metastore of this layout need not have."""
    return NOT_IN_HIVE_3 if layout.counts_txns else OPTIONAL_TABLES


_UNFINISHED = (
    "its creation was interrupted, or this user may not see all of it. If nobody uses it yet and it holds nothing, "
    "drop the database and create it anew; if a Hive uses it, leave it as it is and check the user's rights and, with "
    "that Hive's own tool, 'schematool -validate'"
)


def _create(connection: Connection) -> None:
    names = set(sa.inspect(connection).get_table_names())
    if names & {t.name for t in METADATA.sorted_tables}:
        upgrade_extensions(connection, read_state(connection).extension_version)
        return
    if names:
        raise SchemaVersionError(
            f"the database is not empty: it holds {len(names)} tables, among them {sorted(names)[0]}; "
            "create the metastore in an empty database"
        )
    with backend_of(connection).all_or_nothing(connection, METADATA):
        _create_all(connection)


def _create_all(connection: Connection) -> None:
    METADATA.create_all(connection, tables=[t for t in METADATA.sorted_tables if t not in EXTENSION_TABLES])
    connection.execute(
        insert(TXNS),
        {"TXN_ID": 0, "TXN_STATE": "c", "TXN_STARTED": 0, "TXN_LAST_HEARTBEAT": 0, "TXN_USER": "", "TXN_HOST": ""},
    )
    connection.execute(insert(TXN_LOCK_TBL), {"TXN_LOCK": 1})
    connection.execute(insert(NEXT_LOCK_ID), {"NL_NEXT": 1})
    connection.execute(insert(NEXT_COMPACTION_QUEUE_ID), {"NCQ_NEXT": 1})
    connection.execute(insert(NOTIFICATION_SEQUENCE), {"NNI_ID": 1, "NEXT_EVENT_ID": 1})
    connection.execute(
        insert(SEQUENCE_TABLE),
        [{"SEQUENCE_NAME": _MODEL + name, "NEXT_VAL": 1} for name in ("MNotificationLog", "MTxnWriteNotificationLog")],
    )
    connection.execute(
        insert(CTLGS), {"CTLG_ID": 1, "NAME": "hive", "DESC": "Default catalog for Hive", "LOCATION_URI": "TBD"}
    )
    upgrade_extensions(connection, None)
    # Last, as in Hive's scripts: a schema without this row is unfinished.
    connection.execute(
        insert(VERSION),
        {"VER_ID": 1, "SCHEMA_VERSION": SCHEMA_VERSION, "VERSION_COMMENT": f"Hive release version {SCHEMA_VERSION}"},
    )
