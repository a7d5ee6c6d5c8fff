"""Roles, their members, owners and privileges, as the metastore holds them (Hive's SQL-standard authorization).

Values and thin SQL, for replication: nothing here decides who may do what, and nothing of Hive's is understood beyond
its columns. There are no events for any of it, so whoever follows them reads the state and compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.metastore.catalog.rows.ids import IdKind, allocate_ids
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import (
    DB_PRIVS,
    DBS,
    PART_COL_PRIVS,
    PART_PRIVS,
    PARTITIONS,
    TBL_COL_PRIVS,
    TBL_PRIVS,
    TBLS,
)
from airflow_hive_acid.metastore.schema.hive_server import GLOBAL_PRIVS, ROLE_MAP, ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection


class Principal(NamedTuple):
    """Who is granted something, owns it or gives it: a name and USER, ROLE or GROUP."""

    name: str | None
    type: str | None


class Securable(NamedTuple):
    """What a privilege is for: everything in the metastore when no database is named.

    :param partition: its name, '' for none; :param column: likewise.
    """

    database: str = ""
    table: str = ""
    partition: str = ""
    column: str = ""

    def __str__(self) -> str:
        if not self.database:
            return "the whole metastore"
        parts = [f"{self.database}.{self.table}" if self.table else f"database {self.database}"]
        parts += [f"partition {self.partition}"] if self.partition else []
        parts += [f"column {self.column}"] if self.column else []
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Role:
    """A role; its value is who made it."""

    name: str

    def __str__(self) -> str:
        return f"role {self.name}"


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody in a role; its value says whether they may let others in."""

    role: str
    principal: Principal
    grantor: Principal

    def __str__(self) -> str:
        return f"role {self.role} of {_person(self.principal)} by {_person(self.grantor)}"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a database or table is; its value is the principal."""

    on: Securable

    def __str__(self) -> str:
        return f"owner of {self.on}"


@dataclass(frozen=True, slots=True)
class Privilege:
    """A privilege of somebody; its value says whether they may pass it on."""

    on: Securable
    principal: Principal
    privilege: str
    grantor: Principal
    authorizer: str | None

    def __str__(self) -> str:
        return f"{self.privilege} on {self.on} of {_person(self.principal)} by {_person(self.grantor)}"


Entry: TypeAlias = Role | Member | Owner | Privilege
Value: TypeAlias = "bool | str | Principal | None"
Entries: TypeAlias = "dict[Entry, Value]"


def _person(principal: Principal) -> str:
    return f"{(principal.type or 'nobody').lower()} {principal.name or ''}".rstrip()


class Level(Enum):
    """The tables of privileges."""

    GLOBAL = "global"
    DATABASE = "database"
    TABLE = "table"
    COLUMN = "column"
    PARTITION = "partition"
    PARTITION_COLUMN = "partition column"


def level_of(on: Securable) -> Level:
    """Which table a privilege on something stands in."""
    if not on.database:
        return Level.GLOBAL
    if on.partition:
        return Level.PARTITION_COLUMN if on.column else Level.PARTITION
    if on.table:
        return Level.COLUMN if on.column else Level.TABLE
    return Level.DATABASE


@dataclass(frozen=True)
class _Shape:
    """Columns of a table of privileges."""

    table: sa.Table
    id: str
    privilege: str
    kind: IdKind
    object: str | None = None
    column: bool = False

    def row(self, entry: Privilege, object_id: int | None) -> dict[str, Any]:
        """What identifies a row."""
        row: dict[str, Any] = {
            self.privilege: entry.privilege, "PRINCIPAL_NAME": entry.principal.name,
            "PRINCIPAL_TYPE": entry.principal.type, "GRANTOR": entry.grantor.name,
            "GRANTOR_TYPE": entry.grantor.type, "AUTHORIZER": entry.authorizer,
        }  # fmt: skip
        if self.object is not None:
            row[self.object] = object_id
        if self.column:
            row["COLUMN_NAME"] = entry.on.column
        return row

    def where(self, row: Mapping[str, Any]) -> list[sa.ColumnElement[bool]]:
        """The row's condition; NULL is compared as Hive writes it."""
        return [self.table.c[name].is_(None) if value is None else self.table.c[name] == value
                for name, value in row.items()]  # fmt: skip


_SHAPES = {
    Level.GLOBAL: _Shape(GLOBAL_PRIVS, "USER_GRANT_ID", "USER_PRIV", IdKind.GLOBAL_PRIVILEGE),
    Level.DATABASE: _Shape(DB_PRIVS, "DB_GRANT_ID", "DB_PRIV", IdKind.DATABASE_PRIVILEGE, "DB_ID"),
    Level.TABLE: _Shape(TBL_PRIVS, "TBL_GRANT_ID", "TBL_PRIV", IdKind.TABLE_PRIVILEGE, "TBL_ID"),
    Level.COLUMN: _Shape(
        TBL_COL_PRIVS, "TBL_COLUMN_GRANT_ID", "TBL_COL_PRIV", IdKind.COLUMN_PRIVILEGE, "TBL_ID", column=True
    ),
    Level.PARTITION: _Shape(PART_PRIVS, "PART_GRANT_ID", "PART_PRIV", IdKind.PARTITION_PRIVILEGE, "PART_ID"),
    Level.PARTITION_COLUMN: _Shape(
        PART_COL_PRIVS,
        "PART_COLUMN_GRANT_ID",
        "PART_COL_PRIV",
        IdKind.PARTITION_COLUMN_PRIVILEGE,
        "PART_ID",
        column=True,
    ),
}
_OWN_COLUMNS = ("PRINCIPAL_NAME", "PRINCIPAL_TYPE", "GRANTOR", "GRANTOR_TYPE", "AUTHORIZER", "GRANT_OPTION")
_CATALOG = DBS.c.CTLG_NAME == "hive"
_OF_DATABASES = DBS.c.NAME.in_(bindparam("databases", expanding=True))


def _read_statement(level: Level) -> sa.Select[Any]:
    """Names of the object, then the grant's columns; every level has the same shape."""
    shape = _SHAPES[level]
    empty = sa.literal("")
    joins: sa.FromClause = shape.table
    database, table, partition = DBS.c.NAME, TBLS.c.TBL_NAME, PARTITIONS.c.PART_NAME
    names: list[sa.ColumnElement[Any]] = [empty, empty, empty]
    if level is Level.DATABASE:
        joins, names = joins.join(DBS), [database, empty, empty]
    elif level in (Level.TABLE, Level.COLUMN):
        joins, names = joins.join(TBLS).join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID), [database, table, empty]
    elif level is not Level.GLOBAL:
        joins = joins.join(PARTITIONS).join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
        joins, names = joins.join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID), [database, table, partition]
    column = shape.table.c.COLUMN_NAME if shape.column else empty
    own = [shape.table.c[name] for name in (shape.privilege, *_OWN_COLUMNS)]
    labelled = [c.label(f"n{i}") for i, c in enumerate((*names, column))]
    found = select(*labelled, *own).select_from(joins)
    return found if level is Level.GLOBAL else found.where(_CATALOG, _OF_DATABASES)


_READ = {level: _read_statement(level) for level in Level}
_READ_ROLES = select(ROLES.c.ROLE_NAME, ROLES.c.OWNER_NAME)
_READ_MEMBERS = select(
    ROLES.c.ROLE_NAME,
    *(ROLE_MAP.c[name] for name in ("PRINCIPAL_NAME", "PRINCIPAL_TYPE", "GRANTOR", "GRANTOR_TYPE", "GRANT_OPTION")),
).select_from(ROLE_MAP.join(ROLES))
_READ_DATABASES = select(DBS.c.NAME, DBS.c.DB_ID, DBS.c.OWNER_NAME, DBS.c.OWNER_TYPE).where(_CATALOG, _OF_DATABASES)
_READ_TABLES = (
    select(DBS.c.NAME, TBLS.c.TBL_NAME, TBLS.c.TBL_ID, TBLS.c.OWNER, TBLS.c.OWNER_TYPE)
    .select_from(TBLS.join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID))
    .where(_CATALOG, _OF_DATABASES)
)
_PARTITION_ID = select(PARTITIONS.c.PART_ID).where(
    PARTITIONS.c.TBL_ID == bindparam("table"), PARTITIONS.c.PART_NAME == bindparam("name")
)
_ROLE_ID = select(ROLES.c.ROLE_ID).where(ROLES.c.ROLE_NAME == bindparam("role"))


@dataclass(frozen=True)
class Privileges:
    """What a metastore holds for some databases.

    :param entries: value by entry.
    :param ids: DB_ID of databases and TBL_ID of tables, by what they are.
    """

    entries: Entries = field(default_factory=dict)
    ids: dict[Securable, int] = field(default_factory=dict)


def read_privileges(connection: Connection, databases: Sequence[str]) -> Privileges:
    """Everything granted on some databases and all that is in them, all roles, and what holds everywhere."""
    found = Privileges()
    for level, statement in _READ.items():
        for part in [None] if level is Level.GLOBAL else chunks(list(databases)):
            for row in connection.execute(statement, {} if part is None else {"databases": list(part)}):
                found.entries.update([_privilege(row)])
    for name, owner in connection.execute(_READ_ROLES):
        found.entries[Role(name)] = owner
    for role, name, kind, grantor, grantor_kind, option in connection.execute(_READ_MEMBERS):
        found.entries[Member(role, Principal(name, kind), Principal(grantor, grantor_kind))] = bool(option)
    for part in chunks(list(databases)):
        for name, number, owner, kind in connection.execute(_READ_DATABASES, {"databases": list(part)}):
            found.ids[Securable(name)] = number
            found.entries[Owner(Securable(name))] = Principal(owner, kind)
        for database, name, number, owner, kind in connection.execute(_READ_TABLES, {"databases": list(part)}):
            found.ids[Securable(database, name)] = number
            found.entries[Owner(Securable(database, name))] = Principal(owner, kind)
    return found


def _privilege(row: Sequence[Any]) -> tuple[Entry, Value]:
    database, table, partition, column, privilege, name, kind, grantor, grantor_kind, authorizer, option = row
    on = Securable(database, table, partition, column)
    entry = Privilege(on, Principal(name, kind), privilege, Principal(grantor, grantor_kind), authorizer)
    return entry, bool(option)


def put_entry(connection: Connection, entry: Entry, value: Value, ids: Mapping[Securable, int]) -> bool:
    """Make an entry hold with a value; false when what it is about is not there.

    :param ids: as read with the state.
    """
    if isinstance(entry, Role):
        return _put_role(connection, entry, value)
    if isinstance(entry, Member):
        return _put_member(connection, entry, value)
    if isinstance(entry, Owner):
        return isinstance(value, tuple) and _put_owner(connection, entry, Principal(*value), ids)
    object_id = _object_id(connection, entry.on, ids)
    if object_id is None and entry.on.database:
        return False
    shape = _SHAPES[level_of(entry.on)]
    row = shape.row(entry, object_id)
    option = {"GRANT_OPTION": int(bool(value))}
    if connection.execute(update(shape.table).where(*shape.where(row)).values(**option)).rowcount:
        return True
    (new,) = allocate_ids(connection, shape.kind, 1)
    connection.execute(insert(shape.table), {shape.id: new, "CREATE_TIME": now_ms(connection) // 1000, **row, **option})
    return True


def remove_entry(connection: Connection, entry: Entry, ids: Mapping[Securable, int]) -> bool:
    """Take an entry away; false when it is not there. Owners stay."""
    if isinstance(entry, Owner):
        return False
    if isinstance(entry, Privilege):
        object_id = _object_id(connection, entry.on, ids)
        if object_id is None and entry.on.database:
            return False
        shape = _SHAPES[level_of(entry.on)]
        return bool(connection.execute(delete(shape.table).where(*shape.where(shape.row(entry, object_id)))).rowcount)
    role_id = connection.execute(_ROLE_ID, {"role": entry.name if isinstance(entry, Role) else entry.role}).scalar()
    if role_id is None:
        return False
    if isinstance(entry, Member):
        return bool(connection.execute(delete(ROLE_MAP).where(*_member_where(entry, role_id))).rowcount)
    connection.execute(delete(ROLE_MAP).where(ROLE_MAP.c.ROLE_ID == role_id))
    return bool(connection.execute(delete(ROLES).where(ROLES.c.ROLE_ID == role_id)).rowcount)


def _put_role(connection: Connection, role: Role, owner: Value) -> bool:
    if connection.execute(_ROLE_ID, {"role": role.name}).scalar() is None:
        (new,) = allocate_ids(connection, IdKind.ROLE, 1)
        connection.execute(
            insert(ROLES),
            {"ROLE_ID": new, "CREATE_TIME": now_ms(connection) // 1000, "OWNER_NAME": owner, "ROLE_NAME": role.name},
        )
    return True


def _member_where(member: Member, role_id: int) -> list[sa.ColumnElement[bool]]:
    wanted = {"PRINCIPAL_NAME": member.principal.name, "PRINCIPAL_TYPE": member.principal.type,
              "GRANTOR": member.grantor.name, "GRANTOR_TYPE": member.grantor.type}  # fmt: skip
    found = [ROLE_MAP.c[name].is_(None) if value is None else ROLE_MAP.c[name] == value
             for name, value in wanted.items()]  # fmt: skip
    return [ROLE_MAP.c.ROLE_ID == role_id, *found]


def _put_member(connection: Connection, member: Member, option: Value) -> bool:
    role_id = connection.execute(_ROLE_ID, {"role": member.role}).scalar()
    if role_id is None:
        return False
    values = {"GRANT_OPTION": int(bool(option))}
    if connection.execute(update(ROLE_MAP).where(*_member_where(member, role_id)).values(**values)).rowcount:
        return True
    (new,) = allocate_ids(connection, IdKind.ROLE_MEMBER, 1)
    row = {"ROLE_GRANT_ID": new, "ADD_TIME": now_ms(connection) // 1000, "ROLE_ID": role_id, **values,
           "PRINCIPAL_NAME": member.principal.name, "PRINCIPAL_TYPE": member.principal.type,
           "GRANTOR": member.grantor.name, "GRANTOR_TYPE": member.grantor.type}  # fmt: skip
    connection.execute(insert(ROLE_MAP), row)
    return True


def _put_owner(connection: Connection, owner: Owner, principal: Principal, ids: Mapping[Securable, int]) -> bool:
    object_id = ids.get(owner.on)
    if object_id is None:
        return False
    if owner.on.table:
        change = update(TBLS).where(TBLS.c.TBL_ID == object_id)
        return bool(connection.execute(change.values(OWNER=principal.name, OWNER_TYPE=principal.type)).rowcount)
    of_database = update(DBS).where(DBS.c.DB_ID == object_id)
    return bool(connection.execute(of_database.values(OWNER_NAME=principal.name, OWNER_TYPE=principal.type)).rowcount)


def _object_id(connection: Connection, on: Securable, ids: Mapping[Securable, int]) -> int | None:
    found = ids.get(Securable(on.database, on.table))
    if found is None or not on.partition:
        return found
    return connection.execute(_PARTITION_ID, {"table": found, "name": on.partition}).scalar()


def securables(entries: Iterable[Entry]) -> Iterator[Securable]:
    """What entries are about, where that is a database or something in one."""
    for entry in entries:
        if isinstance(entry, Owner | Privilege) and entry.on.database:
            yield entry.on
