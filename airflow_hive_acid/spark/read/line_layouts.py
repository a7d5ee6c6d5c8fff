"""Lines of CSV and JSON files as Hive's OpenCSVSerde and JsonSerDe read and write them.

Both serdes see one line at a time, so a value with a line break cannot be kept in a CSV. Names of JSON fields are
compared without regard to case, as Hive does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from airflow_hive_acid.errors import BadRecordError, UnsupportedStatementError
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import Shown, fail
from airflow_hive_acid.spark.read.text_files import TextLayout, as_character, fields_of, in_replacement, typed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.spark.schema import TableColumn

_FIELDS = f"{schema.INTERNAL_PREFIX}fields"
_COMPLEX = (T.ArrayType, T.MapType, T.StructType)


def layout_of(
    kind: str,
    table: str,
    columns: Sequence[TableColumn],
    serde: Mapping[str, str],
    properties: Mapping[str, str],
) -> TextLayout | CsvLayout | JsonLayout:
    """How the lines of a table's files are divided.

    :param kind: ``text``, ``csv`` or ``json``.
    """
    match kind:
        case "csv":
            return CsvLayout(table, columns, serde)
        case "json":
            return JsonLayout(columns)
    return TextLayout(table, columns, serde, properties)


class CsvLayout:
    """OpenCSVSerde: fields between separators, perhaps in quotes; all of them are texts.

    As opencsv has it, an escape stands for the quote or escape behind it inside of quotes, and is dropped elsewhere. A
    column that is missing is NULL, one that is empty is not; NULL is written as an empty field.

    :raises UnsupportedStatementError: for a separator, quote or escape that is not one character, or not another one.
    """

    def __init__(self, table: str, columns: Sequence[TableColumn], serde: Mapping[str, str]) -> None:
        self._table = table
        self._columns = tuple(columns)
        signs = {
            key: serde.get(key, default)
            for key, default in (("separatorChar", ","), ("quoteChar", '"'), ("escapeChar", "\\"))
        }
        for key, text in signs.items():
            if len(text) != 1 or list(signs.values()).count(text) > 1:
                raise UnsupportedStatementError(
                    f"{table} has the serde property {key}={text!r}; separator, quote and escape are one character "
                    "each, and different ones"
                )
        self._separator, self._quote, self._escape = signs.values()

    def parsed(self, line: str = "value") -> tuple[str, list[str]]:
        """Spark SQL that divides a line, and the values of all columns made of that."""
        d, q, e = map(as_character, (self._separator, self._quote, self._escape))
        quoted = f"{q}(?:[^{q}{e}]++|{e}.?|{q}{q})*+{q}?"
        divided = fields_of(line, self._separator, f"{quoted}|[^{d}{q}{e}]++|{e}")
        values = [
            f"{self._value(f'get({_FIELDS}, {i})', column)} as {schema.quoted(column.name)}"
            for i, column in enumerate(self._columns)
        ]
        return divided, values

    def line(self) -> str:
        """Spark SQL for a row's line."""
        texts = [self._text(column) for column in self._columns]
        return f"concat_ws({schema.sql_text(self._separator)}, {', '.join(texts)}) as value"

    def _value(self, field: str, column: TableColumn) -> str:
        q, e = as_character(self._quote), as_character(self._escape)
        whole, inner = schema.sql_text(f"(?s)^{q}.*{q}$"), schema.sql_text(f"{e}([{q}{e}])|{q}({q})|{e}")
        quoted = f"regexp_replace(substring({field}, 2, length({field}) - 2), {inner}, '$1$2')"
        bare = f"regexp_replace({field}, {schema.sql_text(e)}, '')"
        return typed(f"if({field} rlike {whole}, {quoted}, {bare})", column)

    def _text(self, column: TableColumn) -> str:
        name = f"cast({schema.quoted(column.name)} as string)"
        broken = fail(
            BadRecordError,
            f"column {column.name} of {self._table}: the value '",
            Shown(f"substring({name}, 1, 100)"),
            "' holds a line break, and OpenCSVSerde reads one line at a time; store the table as ORC or Parquet",
        )
        special = schema.sql_text(f"([{as_character(self._quote)}{as_character(self._escape)}])")
        kept = f"regexp_replace({name}, {special}, {schema.sql_text(in_replacement(self._escape))})"
        quote = schema.sql_text(self._quote)
        text = f"coalesce(concat({quote}, {kept}, {quote}), '')"
        return f"if(contains({name}, '\\n') or contains({name}, '\\r'), {broken}, {text})"


class JsonLayout:
    """JsonSerDe: an object in each line."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self._columns = tuple(columns)

    def parsed(self, line: str = "value") -> tuple[str, list[str]]:
        """Spark SQL that divides a line, and the values of all columns made of that; a line that is no JSON fails."""
        found = f"from_json({line}, 'map<string,string>', map('mode', 'FAILFAST'))"
        divided = f"transform_keys({found}, (k, v) -> lower(k)) as {_FIELDS}"
        return divided, [f"{self._value(column)} as {schema.quoted(column.name)}" for column in self._columns]

    def line(self) -> str:
        """Spark SQL for a row's line."""
        fields = [f"{self._shown(column)} as {schema.quoted(column.name)}" for column in self._columns]
        return f"to_json(struct({', '.join(fields)}), map('ignoreNullFields', 'false')) as value"

    def _value(self, column: TableColumn) -> str:
        text = f"try_element_at({_FIELDS}, {schema.sql_text(column.name)})"
        if isinstance(column.type, _COMPLEX):
            kind = schema.sql_text(schema.sql_type(column.type))
            return f"from_json({text}, {kind}, map('timestampFormat', 'yyyy-MM-dd HH:mm:ss[.SSSSSS]'))"
        return typed(text, column)

    def _shown(self, column: TableColumn) -> str:
        name = schema.quoted(column.name)
        if isinstance(column.type, T.DateType | T.TimestampType | T.TimestampNTZType):
            return f"cast({name} as string)"
        return f"base64({name})" if isinstance(column.type, T.BinaryType) else name
