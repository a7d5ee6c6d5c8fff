"""What files say of themselves, as a Spark job reads it: footers of ORC and Parquet, by the readers of the JVM."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError

from airflow_hive_acid.errors import CorruptTableError, HiveAcidError, JobFailedError
from airflow_hive_acid.spark.java_errors import java_message
from airflow_hive_acid.spark.outages import login_is_over, storage_is_silent

_EVENT_COLUMNS = 6
_ORC_NAME = re.compile(r"(?:`((?:[^`]|``)+)`|([^:`]+)):")


class OrcSummary(NamedTuple):
    """What the footer of an ACID file says: rows, and the smallest and largest value of ``bucket``.

    None if it is empty, or has no statistics.
    """

    rows: int
    min_bucket: int | None
    max_bucket: int | None


class OrcEvents(NamedTuple):
    """What the footer of an ACID file says: rows, and the smallest and largest ``operation``.

    None if it is empty, or has no statistics.
    """

    rows: int
    min_operation: int | None
    max_operation: int | None


class Footers:
    """Reads footers with the credentials of the Spark application.

    :param mapper: writes what the JVM returns as JSON.
    """

    def __init__(self, jvm: Any, conf: Any, mapper: Any) -> None:
        self._jvm = jvm
        self._conf = conf
        self._mapper = mapper
        # Each is a call: look classes up once.
        self._path = jvm.org.apache.hadoop.fs.Path
        self._orc_file = jvm.org.apache.orc.OrcFile
        parquet = jvm.org.apache.parquet.hadoop
        self._parquet_reader = parquet.ParquetFileReader
        self._parquet_input = parquet.util.HadoopInputFile

    def orc_summary(self, uri: str) -> OrcSummary:
        """Rows and bucket values of an ACID file, from its footer."""
        reader = self.orc_reader(uri)
        try:
            rows = int(reader.getNumberOfRows())
            if rows == 0 and reader.getStripes().size() == 0:
                return OrcSummary(0, None, None)
            # Column 0 is the file itself, then operation, originalTransaction, bucket.
            statistics = reader.getStatistics()
            if not _has_statistics(uri, reader, rows, int(statistics[0].getNumberOfValues())):
                return OrcSummary(rows, None, None)
            bucket = statistics[3]
            return OrcSummary(rows, int(bucket.getMinimum()), int(bucket.getMaximum()))
        finally:
            reader.close()

    def orc_events(self, uri: str) -> OrcEvents:
        """Rows and kinds of events of an ACID file, from its footer.

        :raises CorruptTableError: when the footer cannot be read, contradicts itself, or is not that of an ACID file.
        """
        reader = self.orc_reader(uri)
        try:
            rows = int(reader.getNumberOfRows())
            if rows == 0 and reader.getStripes().size() == 0:
                return OrcEvents(0, None, None)
            fields = reader.getSchema().getFieldNames()
            every = reader.getStatistics() if fields is not None and fields.size() == _EVENT_COLUMNS else None
            if every is None or str(fields.get(0)).lower() != "operation":
                raise CorruptTableError(f"{uri} is called like an ACID file, but does not have its six columns")
            if not _has_statistics(uri, reader, rows, int(every[0].getNumberOfValues())):
                return OrcEvents(rows, None, None)
            statistics = every[1]
            return OrcEvents(rows, int(statistics.getMinimum()), int(statistics.getMaximum()))
        finally:
            reader.close()

    def orc_row_names(self, uri: str) -> list[str]:
        """Names of the fields of ``row`` in an ACID file, from its footer.

        :raises CorruptTableError: when the footer cannot be read, or is not that of an ACID file.
        """
        reader = self.orc_reader(uri)
        try:
            fields = reader.getSchema().getChildren()
            if fields is None or fields.size() != 6 or fields.get(5).getFieldNames() is None:
                raise CorruptTableError(f"{uri} is called like an ACID file, but does not have its six columns")
            names: list[str] = json.loads(self._mapper.writeValueAsString(fields.get(5).getFieldNames()))
            return names
        finally:
            reader.close()

    def orc_columns(self, uri: str) -> list[tuple[str, str]]:
        """Name and ORC type of the columns of any ORC file, from its footer.

        :raises CorruptTableError: when the footer cannot be read.
        """
        reader = self.orc_reader(uri)
        try:
            return orc_fields(str(reader.getSchema().toString()))
        finally:
            reader.close()

    def orc_rows(self, uri: str) -> int:
        """Rows of any ORC file, from its footer.

        :raises CorruptTableError: when the footer cannot be read.
        """
        reader = self.orc_reader(uri)
        try:
            rows = int(reader.getNumberOfRows())
            _has_statistics(uri, reader, rows, rows)  # other writers' files may have no statistics
            return rows
        finally:
            reader.close()

    def parquet_rows(self, uri: str) -> int:
        """Rows of a Parquet file, from its footer.

        :raises CorruptTableError: when the footer cannot be read.
        """
        reader = self._open_parquet(uri)
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()

    def parquet_types(self, uri: str, sql_conf: Any) -> dict[str, Any]:
        """The columns of a Parquet file, by their names in lower case, with Spark's types as JSON values.

        :param sql_conf: Spark's settings of a session (an ``SQLConf``).
        :return: nothing for a file with a column of a type that Spark has not.
        :raises CorruptTableError: when the footer cannot be read.
        """
        reader = self._open_parquet(uri)
        try:
            parquet = self._jvm.org.apache.spark.sql.execution.datasources.parquet
            converter = parquet.ParquetToSparkSchemaConverter(sql_conf)
            found = json.loads(converter.convert(reader.getFileMetaData().getSchema()).json())
        except Py4JJavaError:
            return {}  # whoever asks for that column is told by the scan
        finally:
            reader.close()
        return {field["name"].lower(): field["type"] for field in found["fields"]}

    def _open_parquet(self, uri: str) -> Any:
        try:
            return self._parquet_reader.open(self._parquet_input.fromPath(self._path(uri), self._conf))
        except Py4JJavaError as error:
            raise _unreadable(uri, error, "") from error

    def orc_reader(self, uri: str) -> Any:
        """ORC's reader of a file; close it.

        :raises CorruptTableError: when its footer cannot be read.
        """
        try:
            return self._orc_file.createReader(self._path(uri), self._orc_file.readerOptions(self._conf))
        except Py4JJavaError as error:
            raise _unreadable(uri, error, ", and rows would be lost without it") from error


def orc_fields(text: str) -> list[tuple[str, str]]:
    """Name and type of the fields of a struct, as orc-core writes it: ``struct<a:int,`b c`:array<int>>``."""
    fields, at, end = [], len("struct<"), len(text) - 1
    while at < end:
        match = _ORC_NAME.match(text, at)
        if match is None:
            return []
        begin = at = match.end()
        depth = 0
        while at < end and (depth or text[at] != ","):
            if text[at] == "`":  # a name inside of the type
                at = text.index("`", at + 1)
            depth += (text[at] in "<(") - (text[at] in ">)")
            at += 1
        fields.append((match[1].replace("``", "`") if match[1] is not None else match[2], text[begin:at]))
        at += 1
    return fields


def _unreadable(uri: str, error: Py4JJavaError, without: str) -> HiveAcidError:
    """What it means that a file cannot be opened: damage, unless its storage says nothing about it (R17)."""
    text = str(error)
    unknown = login_is_over(text) or storage_is_silent(text)
    if unknown is not None:
        return JobFailedError(f"{uri}: {unknown}")
    return CorruptTableError(f"{uri} is missing or cannot be read{without}: {java_message(error)}")


def _has_statistics(uri: str, reader: Any, rows: int, counted: int) -> bool:
    """Refuse a file whose footer contradicts itself about its rows; all of it has been read already.

    A Hive 3.1 that compacts writes files without row index, and counts nothing in their statistics: false for those.

    :param counted: what the statistics say.
    """
    stripes = reader.getStripes()
    stored = sum(int(stripes.get(i).getNumberOfRows()) for i in range(stripes.size()))
    says_nothing = counted == 0 and int(reader.getRowIndexStride()) == 0
    if rows != stored or not (rows == counted or says_nothing):
        raise CorruptTableError(
            f"{uri} has a footer that says {rows} rows, its stripes say {stored} and its statistics {counted}: the "
            "file is damaged, and rows would be missing or counted wrongly; restore it"
        )
    return rows == counted
