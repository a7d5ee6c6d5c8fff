"""INSERT OVERWRITE [LOCAL] DIRECTORY, read word by word."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.format.jobs import HIVE_TEXT
from airflow_hive_acid.sql.model.statements import InsertDirectory
from airflow_hive_acid.sql.parsing import dml
from airflow_hive_acid.sql.parsing.ddl import source_options
from airflow_hive_acid.sql.parsing.storage import Storage

if TYPE_CHECKING:
    from airflow_hive_acid.sql.parsing.cursor import Cursor

FORMATS = ("orc", "parquet", "json", "csv")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


def parse_insert_directory(cursor: Cursor, origin: dict[str, Any]) -> InsertDirectory:
    """Read what follows INSERT.

    Hive's clauses (ROW FORMAT, STORED AS) and Spark's (USING, OPTIONS) are both understood; without any of them the
    files are Hive's text.
    """
    cursor.expect("OVERWRITE")
    local = cursor.accept("LOCAL")
    cursor.expect("DIRECTORY")
    token = cursor.next("a directory")
    cursor.position -= 1
    uri = cursor.string("a directory")
    if local:
        scheme = _SCHEME.match(uri)
        if scheme is not None and scheme[0].lower() != "file:":
            raise cursor.error(f"a LOCAL directory lies on this machine's disk, not at {scheme[0]}", token)
        uri = uri if scheme is not None else f"file:{uri}"
    if cursor.accept("USING"):
        format = cursor.next("a file format")
        if format.text.lower() not in FORMATS:
            raise cursor.unsupported(f"USING {format.text} is not supported; formats are {', '.join(FORMATS)}", format)
        options = source_options(cursor) if cursor.accept("OPTIONS") else {}
        return InsertDirectory(uri, dml.read_query(cursor), format.text.lower(), options, **origin)
    storage = Storage()
    while storage.read(cursor):
        if storage.using:
            raise cursor.error("USING stands right behind the directory, without ROW FORMAT and STORED AS")
    found = storage.chosen(cursor)
    name = HIVE_TEXT if found is None or found.name == "text" else found.name
    if name not in (HIVE_TEXT, *FORMATS):
        raise cursor.unsupported(f"a directory is not written as {name}, but as ORC, PARQUET or TEXTFILE", token)
    properties = storage.properties if name == HIVE_TEXT else {}
    return InsertDirectory(uri, dml.read_query(cursor), name, properties, **origin)
