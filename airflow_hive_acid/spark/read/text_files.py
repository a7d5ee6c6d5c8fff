"""Text files as Hive's LazySimpleSerDe reads and writes them: fields between delimiters, ``\\N`` for NULL.

A field that is no value of its column reads as NULL and missing fields at the end do too, as in Hive. Hive writes a
text that holds a delimiter or a line break as it is and reads something else back; here that is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from airflow_hive_acid.errors import BadRecordError, UnsupportedStatementError
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import Shown, fail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.spark.schema import TableColumn

_COMPLEX = (T.ArrayType, T.MapType, T.StructType)
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FIELDS = f"{schema.INTERNAL_PREFIX}fields"
_UNSUPPORTED = (
    "quote.delim",
    "line.delim",
    "serialization.last.column.takes.rest",
    "serialization.encoding",
)


class TextLayout:
    """How one table's lines are divided.

    :raises UnsupportedStatementError: for columns and serde properties that this version does not read.
    """

    def __init__(
        self,
        table: str,
        columns: Sequence[TableColumn],
        serde: Mapping[str, str],
        properties: Mapping[str, str],
    ) -> None:
        self._table = table
        self._columns = tuple(columns)
        self._delimiter = _delimiter(serde)
        self._escape = serde.get("escape.delim", "")[:1]
        self._null = serde.get("serialization.null.format", properties.get("serialization.null.format", "\\N"))
        for column in self._columns:
            if isinstance(column.type, _COMPLEX):
                raise UnsupportedStatementError(
                    f"column {column.name} of {table} is {column.hive_type}; of text tables only columns of simple "
                    "types are read and written: use ORC or Parquet"
                )
        for key in _UNSUPPORTED:
            if serde.get(key, "\n" if key == "line.delim" else "").strip("\n") and serde.get(key) != "UTF-8":
                raise UnsupportedStatementError(
                    f"{table} has the serde property {key}={serde[key]!r}, which this version does not honour; read "
                    "its files with CREATE TEMPORARY VIEW … USING csv, or copy the table in Hive"
                )

    def parsed(self, line: str = "value") -> tuple[str, list[str]]:
        """Spark SQL that divides a line into internal fields, and the values of all columns made of them."""
        pattern = schema.sql_text(_as_pattern(self._delimiter))
        divided = f"split({line}, {pattern}, -1) as {_FIELDS}"
        if self._escape:
            delimiter, escape = as_character(self._delimiter), as_character(self._escape)
            divided = fields_of(line, self._delimiter, f"[^{delimiter}{escape}]++|{escape}.?")
        values = [
            f"{self._value(f'get({_FIELDS}, {i})', column)} as {schema.quoted(column.name)}"
            for i, column in enumerate(self._columns)
        ]
        return divided, values

    def line(self) -> str:
        """Spark SQL for a row's line, from columns of the table's types."""
        texts = [self._text(column) for column in self._columns]
        return f"concat_ws({schema.sql_text(self._delimiter)}, {', '.join(texts)}) as value"

    def _value(self, text: str, column: TableColumn) -> str:
        text = f"nullif({text}, {schema.sql_text(self._null)})"
        if self._escape:
            escaped = schema.sql_text(f"(?s){as_character(self._escape)}(.)")
            text = f"regexp_replace({text}, {escaped}, '$1')"
        return typed(text, column)

    def _text(self, column: TableColumn) -> str:
        name = schema.quoted(column.name)
        null = schema.sql_text(self._null)
        if isinstance(column.type, T.BinaryType):
            return f"coalesce(base64({name}), {null})"
        if not isinstance(column.type, T.StringType):
            # Hive would take an instant without a zone for one in its own.
            zone = " || ' UTC'" if column.is_instant else ""
            return f"coalesce(cast({name} as string){zone}, {null})"
        broken = fail(
            BadRecordError,
            f"column {column.name} of {self._table}: the value '",
            Shown(f"substring({name}, 1, 100)"),
            "' holds a delimiter or line break, and a text file cannot tell it from the end of the field; store the "
            "table as ORC or Parquet",
        )
        signs = ("'\\n'", "'\\r'") if self._escape else (schema.sql_text(self._delimiter), "'\\n'", "'\\r'")
        bad = " or ".join(f"contains({name}, {text})" for text in signs)
        if not self._escape:
            return f"if({bad} or {name} = {null}, {broken}, coalesce({name}, {null}))"
        special = f"([{as_character(self._escape)}{as_character(self._delimiter)}])"
        kept = f"regexp_replace({name}, {schema.sql_text(special)}, {schema.sql_text(in_replacement(self._escape))})"
        return f"if({bad} or {kept} = {null}, {broken}, coalesce({kept}, {null}))"


def fields_of(line: str, delimiter: str, parts: str) -> str:
    """Spark SQL that divides a line whose fields may hold the delimiter.

    :param parts: a regular expression: what a field is made of.
    """
    # With the delimiter in front of each field, a field that is empty is found as well.
    field = schema.sql_text(f"(?s){as_character(delimiter)}((?:{parts})*+)")
    return f"regexp_extract_all(concat({schema.sql_text(delimiter)}, {line}), {field}, 1) as {_FIELDS}"


def typed(text: str, column: TableColumn) -> str:
    """Spark SQL for a column's value, from a text; NULL where it is none."""
    kind = column.type
    if isinstance(kind, T.StringType):
        return text
    if isinstance(kind, T.BinaryType):
        return f"coalesce(try_to_binary({text}, 'base64'), cast({text} as binary))"
    if isinstance(kind, T.BooleanType):
        return f"case lower({text}) when 'true' then true when 'false' then false end"
    if isinstance(kind, _INTEGERS):
        # Hive cuts decimals off, and takes no blanks.
        text = f"nullif(regexp_extract({text}, '^([+-]?[0-9]+)([.][0-9]*)?$', 1), '')"
    return f"try_cast({text} as {schema.sql_type(kind)})"


def skipped_lines(table: str, properties: Mapping[str, str]) -> tuple[int, int]:
    """How many lines at the beginning and at the end of each file are no rows.

    :raises UnsupportedStatementError: when the property is no number.
    """
    found = []
    for key in ("skip.header.line.count", "skip.footer.line.count"):
        text = properties.get(key, "0").strip()
        if not text.isdecimal():
            raise UnsupportedStatementError(f"{table} has {key}={text!r}; it is a number of lines")
        found.append(int(text))
    return found[0], found[1]


def lines_of_file(header: int, footer: int) -> str:
    """Spark SQL for the lines of a text that is a whole file, without the first and the last ones."""
    ends, last = schema.sql_text(r"\r\n|\r|\n"), schema.sql_text(r"(\r\n|\r|\n)$")
    lines = f"split(regexp_replace(value, {last}, ''), {ends}, -1)"
    kept = f"filter({lines}, (line, n) -> n >= {header} and n < size({lines}) - {footer})"
    return f"explode(if(value = '', array(), {kept})) as value"


def _delimiter(serde: Mapping[str, str]) -> str:
    """``field.delim``, else Hive's old ``serialization.format``, else Ctrl-A; a number means that byte."""
    text = serde.get("field.delim", serde.get("serialization.format", "1"))
    if text.lstrip("-").isdecimal():
        return chr(int(text) % 256)
    return text[:1] or "\x01"


def _as_pattern(text: str) -> str:
    return f"\\Q{text}\\E"


def as_character(text: str) -> str:
    """A character as it may stand in a pattern, in brackets or without."""
    return f"\\x{{{ord(text):x}}}"


def in_replacement(escape: str) -> str:
    """What puts an escape in front of what a group has found."""
    return f"\\{escape}$1"
