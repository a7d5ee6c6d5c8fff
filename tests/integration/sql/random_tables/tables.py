"""Kinds of tables, and a plain model of one table: the rows it shows and the partitions it has.

The model knows SQL's meaning of statements and nothing of files, txns or row ids.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Value = int | str | None
Place = tuple[Value, ...]
"""The values of the partition columns; empty in a table without partitions."""
Data = tuple[Value, ...]
"""The values of the data columns. A row from before a column was added lacks it."""
Row = tuple[Data, Place]

KEYS: dict[str, tuple[str, tuple[Value, ...]]] = {
    "k": ("STRING", ("x", "y", "a b/c=d", "é")),
    "n": ("INT", (1, 7, None)),
    "d": ("DATE", ("2024-01-01", "2023-12-31")),
    "c": ("CHAR(3)", ("ab ", "abc", "b  ")),
}
"""By partition column, its type and its values."""


@dataclass(frozen=True)
class Kind:
    """A kind of table.

    :param transactional: ``default`` (full ACID), ``insert_only``, or None for a table without txns.
    :param external: its files stay when it, or a partition, is dropped.
    """

    stored: str
    transactional: str | None
    external: bool = False
    buckets: bool = False

    @property
    def has_row_ids(self) -> bool:
        """Full ACID: rows can be changed."""
        return self.transactional == "default"

    @property
    def has_versions(self) -> bool:
        """It has write ids: it can be compacted, pinned and read as of then."""
        return self.transactional is not None

    @property
    def by_position(self) -> bool:
        """Columns are found in files by their position, so that they can be renamed."""
        return self.stored != "PARQUET"

    def options(self, first: str) -> str:
        """What comes behind the columns of CREATE TABLE.

        :param first: the first column, which rows are bucketed by.
        """
        properties = "'transactional'='false'"
        if self.transactional is not None:
            properties = f"'transactional'='true', 'transactional_properties'='{self.transactional}'"
        buckets = f"CLUSTERED BY ({first}) INTO 2 BUCKETS " if self.buckets else ""
        return f"{buckets}STORED AS {self.stored}" + ("" if self.external else f" TBLPROPERTIES ({properties})")


ACID = Kind("ORC", "default")
PLAIN_ORC = Kind("ORC", None)
KINDS = (
    ACID,
    Kind("ORC", "insert_only"),
    PLAIN_ORC,
    Kind("ORC", "default", buckets=True),
    Kind("PARQUET", "insert_only"),
    Kind("ORC", None, external=True),
    Kind("TEXTFILE", "insert_only"),
    ACID,
    Kind("PARQUET", None),
    Kind("TEXTFILE", None),
)
"""A seed takes the one of its number, so that ten seeds in a row have all. The everyday kind is there twice."""


@dataclass(frozen=True)
class Column:
    """A data column."""

    name: str
    type: str


@dataclass(frozen=True)
class State:
    """The table as the model has it.

    :param keys: partition columns.
    :param partitions: those that there are.
    """

    name: str
    kind: Kind
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    partitions: frozenset[Place] = frozenset()

    @property
    def names(self) -> list[str]:
        """All columns, those of the partitions last."""
        return [*(column.name for column in self.columns), *self.keys]

    @property
    def named_partitions(self) -> list[Place]:
        """The partitions that a statement can name: those without NULL."""
        return sorted((place for place in self.partitions if None not in place), key=repr)

    def whole(self, data: Data) -> Data:
        """The data of a row with NULL in columns that were added later."""
        return (*data, *[None] * (len(self.columns) - len(data)))

    def shown(self, rows: Iterable[Row]) -> list[tuple[Value, ...]]:
        """Rows as a query shows them, sorted: a number in a column that has become text is text."""
        return sorted(
            (
                (
                    *(
                        str(value) if isinstance(value, int) and column.type == "STRING" else value
                        for value, column in zip(self.whole(data), self.columns, strict=True)
                    ),
                    *place,
                )
                for data, place in rows
            ),
            key=repr,
        )

    def with_rows(self, rows: Sequence[Row]) -> State:
        """The table with these rows instead, and partitions for them."""
        return replace(self, rows=tuple(rows), partitions=self.partitions | {place for _, place in rows})

    def with_more(self, rows: Sequence[Row]) -> State:
        """The table with these rows, too."""
        return self.with_rows([*self.rows, *rows])

    def with_column(self, at: int, column: Column) -> State:
        """The table with another column there."""
        return replace(self, columns=put(self.columns, at, column))

    def partition(self, place: Place | None) -> str:
        """The clause PARTITION of a statement; empty for None and for a table without partitions."""
        if not place:
            return ""
        pairs = (f"{key} = {_key_literal(key, value)}" for key, value in zip(self.keys, place, strict=True))
        return f" PARTITION ({', '.join(pairs)})"


def _key_literal(key: str, value: Value) -> str:
    # A CHAR shows its blanks; in PARTITION it is written without them, as people do.
    return literal(value.rstrip() if key == "c" and isinstance(value, str) else value)


def literal(value: Value, type: str = "") -> str:
    """The value as SQL has it.

    :param type: of its column; a DATE is written as one, and NULL as one of that type.
    """
    if value is None:
        return f"CAST(NULL AS {type})" if type else "NULL"
    if isinstance(value, int):
        return str(value)
    text = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"DATE {text}" if type == "DATE" else text


def put(values: tuple, at: int, value: object) -> tuple:  # type: ignore[type-arg]
    """The tuple with another value there."""
    return (*values[:at], value, *values[at + 1 :])


def create(table: State) -> str:
    """CREATE TABLE of a table without rows."""
    data = ", ".join(f"{column.name} {column.type}" for column in table.columns)
    keys = ", ".join(f"{key} {KEYS[key][0]}" for key in table.keys)
    return (
        f"CREATE {'EXTERNAL ' if table.kind.external else ''}TABLE {table.name} ({data})"
        f"{f' PARTITIONED BY ({keys})' if keys else ''} {table.kind.options(table.columns[0].name)}"
    )
