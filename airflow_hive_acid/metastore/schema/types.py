"""Column shorthand for Hive's metastore tables: one spelling per Hive type, on all three databases.

Hive's scripts differ between databases only in a few types (boolean is ``bit(1)`` on MySQL, text is ``mediumtext``,
times of the catalog are ``int`` there). Those differences live here, so that the tables read like Hive's own list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    CHAR,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    TypeDecorator,
    false,
    func,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Dialect
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeEngine

METADATA = MetaData()
"""Every table this package knows: Hive's own and ours."""

_MYSQL = {"mysql_engine": "InnoDB", "mysql_default_charset": "latin1"}

_IDENTITY: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
_LATIN1 = {"charset": "latin1", "collation": "latin1_bin"}
_MEDIUM: TypeEngine[str] = Text().with_variant(mysql.MEDIUMTEXT(), "mysql")
_EXACT_MEDIUM: TypeEngine[str] = Text().with_variant(mysql.MEDIUMTEXT(**_LATIN1), "mysql")
_LONG: TypeEngine[str] = Text().with_variant(mysql.LONGTEXT(), "mysql")
_NARROW: TypeEngine[int] = BigInteger().with_variant(Integer(), "mysql")
_TIMESTAMP: TypeEngine[datetime] = DateTime().with_variant(mysql.TIMESTAMP(), "mysql")
_BINARY: TypeEngine[bytes] = LargeBinary()
_META_INFO: TypeEngine[bytes] = LargeBinary().with_variant(mysql.VARBINARY(2048), "mysql")


class _Bit(TypeDecorator[bool]):
    """bit(1), which MySQL's driver reads as a number."""

    impl = mysql.BIT(1)
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> bool | None:
        """As on the other databases."""
        return None if value is None else bool(value)


_FLAG: TypeEngine[bool] = Boolean().with_variant(_Bit(), "mysql")


def table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """A table under Hive's exact name; upper-case names are quoted by every dialect."""
    return Table(name, METADATA, *items, **{**_MYSQL, **options})


def key(name: str, references: str | None = None) -> Column[Any]:
    """A bigint that is (part of) the primary key; ids come from sequence tables, never from the database."""
    return Column(name, BigInteger, *_reference(references), primary_key=True, autoincrement=False)


def identity(name: str) -> Column[Any]:
    """The one identity column (TXNS): sequence on PostgreSQL, AUTO_INCREMENT elsewhere."""
    return Column(name, _IDENTITY, primary_key=True, autoincrement=True)


def number(
    name: str, references: str | None = None, *, null: bool = True, default: int | None = None, in_key: bool = False
) -> Column[Any]:
    """bigint."""
    return Column(
        name,
        BigInteger,
        *_reference(references),
        nullable=null and not in_key,
        primary_key=in_key,
        autoincrement=False,
        server_default=None if default is None else str(default),
    )


def integer(name: str, *, null: bool = True, in_key: bool = False) -> Column[Any]:
    """int."""
    return Column(name, Integer, nullable=null and not in_key, primary_key=in_key, autoincrement=False)


def small(name: str, *, null: bool = True) -> Column[Any]:
    """smallint."""
    return Column(name, SmallInteger, nullable=null)


def words(
    name: str,
    length: int,
    *,
    null: bool = True,
    in_key: bool = False,
    default: str | None = None,
    references: str | None = None,
    exact: bool = False,
) -> Column[Any]:
    """varchar(length); ``exact`` asks MySQL for Hive's case-sensitive collation."""
    kind: TypeEngine[str] = String(length)
    if exact:
        kind = kind.with_variant(mysql.VARCHAR(length, **_LATIN1), "mysql")
    return Column(
        name, kind, *_reference(references), nullable=null and not in_key, primary_key=in_key, server_default=default
    )


def code(name: str, *, null: bool = True) -> Column[Any]:
    """char(1): one of Hive's one-letter codes."""
    return Column(name, CHAR(1), nullable=null)


def text_value(name: str, *, null: bool = True, exact: bool = False) -> Column[Any]:
    """text, mediumtext on MySQL; ``exact`` as for :func:`words`."""
    return Column(name, _EXACT_MEDIUM if exact else _MEDIUM, nullable=null)


def long_text(name: str, *, null: bool = True) -> Column[Any]:
    """text, longtext on MySQL."""
    return Column(name, _LONG, nullable=null)


def flag(name: str, *, default: bool | None = None) -> Column[Any]:
    """boolean NOT NULL, bit(1) on MySQL."""
    return Column(name, _FLAG, nullable=False, server_default=None if default is None else false())


def narrow(name: str, *, null: bool = True, in_key: bool = False) -> Column[Any]:
    """What Hive stores as bigint, but as int on MySQL: counts, positions, times of the catalog in seconds."""
    return Column(name, _NARROW, nullable=null and not in_key, primary_key=in_key, autoincrement=False)


def timestamp_now(name: str) -> Column[Any]:
    """A timestamp of the database's clock, set when the row is inserted."""
    return Column(name, _TIMESTAMP, nullable=False, server_default=func.current_timestamp())


def double(name: str) -> Column[Any]:
    """double precision."""
    return Column(name, Double)


def binary(name: str) -> Column[Any]:
    """bytea, blob on MySQL."""
    return Column(name, _BINARY)


def meta_info(name: str) -> Column[Any]:
    """bytea, varbinary(2048) on MySQL."""
    return Column(name, _META_INFO)


def _reference(target: str | None) -> tuple[SchemaItem, ...]:
    if target is None:
        return ()
    # Hive's keys are deferrable on PostgreSQL and never cascade: children are deleted by hand.
    return (ForeignKey(target, deferrable=True),)


@compiles(ForeignKeyConstraint, "mysql")
def _foreign_key_without_deferrable(element: ForeignKeyConstraint, compiler: Any, **options: Any) -> str:
    """MySQL has no deferrable constraints and refuses the word."""
    return str(compiler.visit_foreign_key_constraint(element, **options)).replace(" DEFERRABLE", "")
