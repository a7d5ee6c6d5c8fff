"""What the engine gives back: results of statements and rows of queries, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.format.jobs import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self

MOST_ROWS_KEPT = 1000
"""A result with more rows is recorded without them."""
_LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a query.

    :param columns: names and types, in order; names may repeat, as in SQL.
    :param rows: numbers, booleans, ``Decimal`` for decimals, text for strings, dates, timestamps and binary (in
        hexadecimal digits), and for NaN and the infinities, which JSON does not have; lists and dictionaries for nested
        values.
    """

    columns: tuple[Column, ...]
    rows: list[list[Any]]

    @classmethod
    def of(cls, columns: tuple[Column, ...], rows: Iterable[list[Any]]) -> Rows:
        """Rows as a session reads them: every fraction is a ``Decimal`` until here."""
        exact = ["decimal" in column.type for column in columns]
        return cls(columns, [[v if e else _as_float(v) for v, e in zip(row, exact, strict=True)] for row in rows])

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary per row; of columns with the same name the last one counts."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class StatementResult:
    """What a statement did.

    :param statement: its text, without the values of secrets.
    :param kind: ``insert``, ``update``, ``delete``, ``merge``, ``select``, ``show``, ``create_table``, ``begin``, ….
    :param inserted: rows inserted, updated and deleted, as a user counts them: an update is one update.
    :param rows: of a query, None for everything else.
    :param txn_id: the txn it ran in, None for statements that need none.
    :param write_ids: write id by table, for the tables it changed.
    :param seconds: from its start to its commit; inside a transaction, to the end of its publishing.
    :param directories: URIs of the directories it published.
    :param note: what one should know of what was made; empty if there is nothing to say.
    :param notes: what one should know of what happened besides, such as files that could not be deleted.
    """

    statement: str
    kind: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rows: Rows | None = None
    txn_id: int | None = None
    write_ids: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    directories: tuple[str, ...] = ()
    note: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Results become XComs, records of the metastore and lines of logs.
        # Its room brings the parser, which commands that show something do without.
        from airflow_hive_acid.sql.text.masking import hide_secrets

        object.__setattr__(self, "statement", hide_secrets(self.statement))

    def to_document(self) -> dict[str, Any]:
        """As plain values, without the rows, and with the beginning of a long statement: small enough for an XCom."""
        text = self.statement
        said = [*([self.note] if self.note else []), *self.notes]
        return {
            "statement": text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…",
            "kind": self.kind,
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "row_count": None if self.rows is None else len(self.rows),
            "txn_id": self.txn_id,
            "write_ids": dict(self.write_ids),
            "seconds": round(self.seconds, 3),
            "directories": list(self.directories),
            **({"notes": said} if said else {}),
        }

    def to_record(self) -> dict[str, Any]:
        """As plain values, with the rows if they are few: what a later try returns instead of applying it again."""
        record = self.to_document()
        if self.rows is not None and len(self.rows) <= MOST_ROWS_KEPT:
            record["columns"] = [[column.name, column.type] for column in self.rows.columns]
            record["rows"] = [[plain_values(value) for value in row] for row in self.rows.rows]
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The result that :meth:`to_record` made the record of."""
        rows = None
        if "rows" in record:
            columns = tuple(Column(name, type_) for name, type_ in record["columns"])
            exact = [column.type.startswith("decimal") for column in columns]
            rows = Rows(
                columns,
                [
                    [Decimal(v) if e and v is not None else v for v, e in zip(row, exact, strict=True)]
                    for row in record["rows"]
                ],
            )
        return cls(
            statement=record["statement"],
            kind=record["kind"],
            inserted=record["inserted"],
            updated=record["updated"],
            deleted=record["deleted"],
            rows=rows,
            txn_id=record["txn_id"],
            write_ids=dict(record["write_ids"]),
            seconds=record["seconds"],
            directories=tuple(record["directories"]),
            notes=tuple(record.get("notes", ())),
        )

    def __str__(self) -> str:
        took = f" in {self.seconds:.1f} s"
        if self.rows is not None:
            return f"{_count(len(self.rows), 'row')}{took}"
        changes = {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}
        if self.kind in ("insert", "update", "delete", "merge"):
            parts = [f"{n:,} {what}" for what, n in changes.items() if n] or ["nothing changed"]
            return f"{self.kind}: {', '.join(parts)}{took}"
        return f"{self.kind.replace('_', ' ')}: done{took}{f'; {self.note}' if self.note else ''}"


def plain_values(value: Any) -> Any:
    """Values for JSON: decimals become text, because its numbers are floats to most readers and lose digits."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return [plain_values(v) for v in value]
    if isinstance(value, dict):
        return {k: plain_values(v) for k, v in value.items()}
    return value


def _as_float(value: Any) -> Any:
    """Decimals become floats, also inside lists and dictionaries."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_as_float(v) for v in value]
    if isinstance(value, dict):
        return {k: _as_float(v) for k, v in value.items()}
    return value


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
