"""How rows are kept in files: ROW FORMAT, STORED AS and USING, as CREATE TABLE and INSERT DIRECTORY have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.catalog import KEYWORDS, storage_format
from airflow_hive_acid.sql.parsing.commands import properties_in_parentheses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.metastore.catalog import StorageFormat
    from airflow_hive_acid.sql.parsing.cursor import Cursor

_DELIMITED = (
    (("FIELDS", "TERMINATED", "BY"), "field.delim"),
    (("ESCAPED", "BY"), "escape.delim"),
    (("COLLECTION", "ITEMS", "TERMINATED", "BY"), "collection.delim"),
    (("MAP", "KEYS", "TERMINATED", "BY"), "mapkey.delim"),
    (("LINES", "TERMINATED", "BY"), "line.delim"),
    (("NULL", "DEFINED", "AS"), "serialization.null.format"),
)
_SPARK_NAMES = {"orc": "ORC", "parquet": "PARQUET", "text": "TEXTFILE", "json": "JSONFILE", "hive": "ORC"}


@dataclass(slots=True)
class Storage:
    """What the clauses of one statement say.

    :param format: of STORED AS or USING, None where neither is said.
    :param using: the format is said as Spark says it.
    :param serde: class of ROW FORMAT SERDE.
    :param properties: of the serde.
    :param classes: of STORED AS INPUTFORMAT … OUTPUTFORMAT ….
    """

    format: StorageFormat | None = None
    using: bool = False
    serde: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    classes: tuple[str, str] | None = None
    delimited: bool = False

    def read(self, cursor: Cursor) -> bool:
        """Read one clause, if one of these follows."""
        if cursor.at("ROW", "FORMAT"):
            self._once(cursor, self.serde is None and not self.delimited, "ROW FORMAT")
            cursor.accept("ROW", "FORMAT")
            self._row_format(cursor)
            return True
        if cursor.at("STORED", "AS"):
            self._once(cursor, self.format is None and self.classes is None, "STORED AS")
            cursor.accept("STORED", "AS")
            if cursor.accept("INPUTFORMAT"):
                read = cursor.string("the name of a class")
                cursor.expect("OUTPUTFORMAT")
                self.classes = (read, cursor.string("the name of a class"))
            else:
                self.format = stored_as(cursor)
            return True
        if cursor.at("USING"):
            self._once(cursor, self.format is None and self.classes is None, "USING")
            cursor.accept("USING")
            self.format, self.using = _using(cursor), True
            return True
        return False

    def chosen(self, cursor: Cursor) -> StorageFormat | None:
        """The format that all clauses together mean; None for the default.

        :raises UnsupportedStatementError: for one that is not known, and for clauses that contradict each other.
        """
        if self.classes is not None:
            found = storage_format(self.classes[0], self.serde)
            if found is None or found.output_format != self.classes[1]:
                raise cursor.source.unsupported(
                    f"this combination of SERDE, INPUTFORMAT and OUTPUTFORMAT is not supported; known are those of "
                    f"{', '.join(KEYWORDS)}: {self.serde}, {self.classes[0]}, {self.classes[1]}",
                    *cursor.span,
                )
            return found
        if self.serde is None:
            if self.delimited and self.format is None:
                return KEYWORDS["TEXTFILE"]
            if self.delimited and self.format is not None and self.format.name != "text":
                raise cursor.source.unsupported(
                    f"ROW FORMAT DELIMITED is for text, and not for STORED AS {self.format.keyword}", *cursor.span
                )
            return self.format
        of_files = self.format or KEYWORDS["TEXTFILE"]
        found = storage_format(of_files.input_format, self.serde)
        if found is None:
            raise cursor.source.unsupported(
                f"ROW FORMAT SERDE '{self.serde}' is not supported with STORED AS {of_files.keyword}; serdes are "
                f"{', '.join(known.serde for known in KEYWORDS.values())}",
                *cursor.span,
            )
        return found

    def _row_format(self, cursor: Cursor) -> None:
        if cursor.accept("SERDE"):
            self.serde = cursor.string("the name of a class")
            if cursor.accept("WITH", "SERDEPROPERTIES"):
                self.properties |= properties_in_parentheses(cursor)
            return
        cursor.expect("DELIMITED")
        self.delimited = True
        while True:
            found = next((key for words, key in _DELIMITED if _accept(cursor, words)), None)
            if found is None:
                return
            if found in self.properties:
                raise cursor.error("this delimiter is given twice", cursor.tokens[cursor.position - 1])
            text = cursor.string("a delimiter")
            self.properties[found] = text
            if found == "field.delim":
                self.properties["serialization.format"] = text

    def _once(self, cursor: Cursor, unsaid: bool, clause: str) -> None:
        if not unsaid:
            raise cursor.error(f"{clause}: the format is given already")


def stored_as(cursor: Cursor) -> StorageFormat:
    """Read a file format of Hive's."""
    token = cursor.next("a file format")
    stored = KEYWORDS.get(token.text.upper())
    if stored is None:
        raise cursor.unsupported(
            f"STORED AS {token.text.upper()} is not supported; full ACID tables are STORED AS ORC, insert-only and "
            "plain ones may also be STORED AS PARQUET or TEXTFILE",
            token,
        )
    return stored


def _using(cursor: Cursor) -> StorageFormat:
    token = cursor.next("a file format")
    keyword = _SPARK_NAMES.get(token.text.lower(), "")
    if keyword not in KEYWORDS:
        raise cursor.unsupported(
            f"USING {token.text} is not supported for tables; USING orc and USING parquet are, and files in other "
            "formats are read by CREATE TEMPORARY VIEW … USING",
            token,
        )
    return KEYWORDS[keyword]


def _accept(cursor: Cursor, words: Sequence[str]) -> bool:
    return cursor.accept(*words)
