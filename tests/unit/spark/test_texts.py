"""Texts that travel between Python, Spark and the file system."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import types as T

from airflow_hive_acid.errors import BadRecordError, CorruptTableError, InvalidArgumentsError, JobFailedError
from airflow_hive_acid.spark import conf
from airflow_hive_acid.spark.events import delete_event, insert_event, row_of
from airflow_hive_acid.spark.failures import Shown, explain, fail
from airflow_hive_acid.spark.hadoop import _entry
from airflow_hive_acid.spark.mirrors.columns import MirrorColumns
from airflow_hive_acid.spark.mirrors.merging import same_key
from airflow_hive_acid.spark.read.scan import metadata_path
from airflow_hive_acid.spark.schema import TableColumn
from airflow_hive_acid.spark.write.assignment import assigned
from airflow_hive_acid.spark.write.change import bucket_index
from airflow_hive_acid.spark.write.output import orc_options

STATUS = "DeprecatedRawLocalFileStatus{{path={}; isDirectory={}; {}modification_time=1; owner=; group=}}"


@pytest.mark.parametrize("path", ["file:/w/t/f", "file:/w/a; isDirectory=true; length=7; x", "s3a://b/ü {path=x}"])
def test_a_file_status_is_read_whatever_its_name(path: str) -> None:
    file = _entry(path, STATUS.format(path, "false", "length=42; replication=1; blocksize=3; "))
    assert (file.uri, file.size, file.is_directory) == (path, 42, False)
    directory = _entry(path, STATUS.format(path, "true", ""))
    assert (directory.size, directory.is_directory) == (0, True)
    assert directory.name == path.rpartition("/")[2]


_READING = (
    "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
    "hdfs://ns/w/t/f.  SQLSTATE: KD001\nCaused by: "
)


@pytest.mark.rule("R17")
@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (
            "org.apache.hadoop.security.token.SecretManager$InvalidToken: Token has expired",
            "principal and keytab.*KRB5",
        ),
        ("java.io.IOException: DestHost:destPort nn:8020, GSS initiate failed", "principal and keytab.*KRB5CCNAME"),
        ("java.net.ConnectException: Call From a to nn:8020 failed on connection exception", "gave no answer"),
        ("org.apache.hadoop.ipc.StandbyException: Operation category READ is not supported", "gave no answer"),
    ],
)
def test_a_storage_that_cannot_be_asked_is_no_damaged_table(cause: str, words: str) -> None:
    said = explain(None, RuntimeError(_READING + cause), ["hdfs://ns/w/t"])  # type: ignore[arg-type]
    assert type(said) is JobFailedError
    assert said.retryable
    assert re.search(words, str(said)), said
    assert cause in str(said)


def test_a_file_that_the_storage_says_is_not_there_is_damage() -> None:
    missing = "java.io.FileNotFoundException: File does not exist: /w/t/f"
    said = explain(None, RuntimeError(_READING + missing), ["hdfs://ns/w/t"])  # type: ignore[arg-type]
    assert type(said) is CorruptTableError, said


def test_a_failed_job_says_what_failed_and_not_through_which_frames_it_came() -> None:
    chain = (
        "org.apache.spark.SparkException: Job aborted: Lost task 0.0: java.io.IOException: Mkdirs failed: f:/w/t\n"
        "\tat org.apache.hadoop.fs.ChecksumFileSystem.create(ChecksumFileSystem.java:774)\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:840)\n\nDriver stacktrace:\n"
        "\tat org.apache.spark.rdd.RDD.$anonfun$collect$1(RDD.scala:1057)\n"
        "Caused by: java.io.IOException: Mkdirs failed: f:/w/t\n\t... 31 more\n"
        "Caused by: java.io.IOException: the disk is at fault (really)\n"
    )
    said = explain(None, RuntimeError(chain), [])  # type: ignore[arg-type]
    assert type(said) is JobFailedError
    assert str(said).splitlines() == [
        "org.apache.spark.SparkException: Job aborted: Lost task 0.0: java.io.IOException: Mkdirs failed: f:/w/t",
        "Caused by: java.io.IOException: the disk is at fault (really)",
    ]


def test_paths_are_spelled_as_spark_spells_them() -> None:
    assert metadata_path("file:/w/a b%20;é}x/f") == "file:/w/a%20b%2520;é%7Dx/f"
    assert metadata_path("hdfs://n:8020/p=1,2&+@!'()*~/#?[]") == "hdfs://n:8020/p=1,2&+@!'()*~/%23%3F%5B%5D"


def test_writer_options_follow_the_table() -> None:
    assert orc_options({}) == {"compression": "zlib"}
    assert orc_options({"ORC.COMPRESS": "SNAPPY", "orc.bloom.filter.columns": "A, b", "transactional": "true"}) == {
        "compression": "snappy",
        "orc.bloom.filter.columns": "row.a,row.b",
    }


def test_a_failure_carries_its_class_and_its_values() -> None:
    text = fail(BadRecordError, "it's '", Shown("x"), "' in ", Shown("y"))
    assert text == (
        "raise_error(concat('[hive-acid BadRecordError] it\\'s \\'', coalesce(cast(x as string), 'NULL'), "
        "'\\' in ', coalesce(cast(y as string), 'NULL'), '', ' [end hive-acid]'))"
    )
    assert fail(BadRecordError, "{} {0.x} %s") == (
        "raise_error(concat('[hive-acid BadRecordError] {} {0.x} %s', ' [end hive-acid]'))"
    )


def test_names_in_messages_may_hold_what_formats_are_made_of() -> None:
    """A column may be called anything in backquotes."""
    column = TableColumn("a{}b", "int", T.IntegerType(), required=True)
    text = assigned("c0", T.StringType(), column, "w.t")
    assert "column a{}b of w.t: the value \\'', coalesce(cast(substring(cast(c0 as string), 1, 100) as string)" in text
    assert "column a{}b of w.t takes no NULL" in text
    mirror = MirrorColumns((("{}", T.IntegerType()), ("b", T.IntegerType())), (), ("{}",), hidden=False)
    assert "w.t have the key {} = ', coalesce(cast(s.`{}` as string)" in same_key("w.t", mirror, "s.")


def test_values_of_the_right_type_are_stored_without_a_check() -> None:
    assert assigned("c0", T.LongType(), TableColumn("a", "bigint", T.LongType()), "t") == "c0"
    assert "try_cast(c0 as int)" in assigned("c0", T.LongType(), TableColumn("a", "int", T.IntegerType()), "t")
    needed = TableColumn("a", "bigint", T.LongType(), required=True)
    assert assigned("c0", T.LongType(), needed, "t").startswith("coalesce(c0, raise_error(")
    with pytest.raises(InvalidArgumentsError, match="column a of t is int; a value of type date cannot be stored"):
        assigned("c0", T.DateType(), TableColumn("a", "int", T.IntegerType()), "t")


def test_events_are_six_columns() -> None:
    row = row_of([("a`b", "x + 1")])
    assert insert_event(row, 7, 3, bucket_offset=2) == [
        "0 as operation",
        "7L as originalTransaction",
        "536870915 | shiftleft(spark_partition_id() + 2, 16) as bucket",
        "monotonically_increasing_id() & 8589934591L as rowId",
        "7L as currentTransaction",
        "struct(x + 1 as `a``b`) as row",
    ]
    kind = T.StructType([T.StructField("a", T.IntegerType())])
    assert delete_event(("w", "b", "r"), 8, kind) == [
        "2 as operation",
        "w as originalTransaction",
        "b as bucket",
        "r as rowId",
        "8L as currentTransaction",
        "cast(null as struct<`a`:int>) as row",
    ]


def test_bucket_numbers_with_gaps_are_looked_up() -> None:
    assert bucket_index("b", (0, 1, 2)) == "(b)"
    assert bucket_index("b", (0, 2)) == "(cast(array_position(array(0, 2), b) as int) - 1)"


def test_settings_of_a_session_leave_out_what_exists_once_per_application() -> None:
    settings = conf.session_settings()
    assert "spark.sql.ansi.enabled" in settings
    assert not [key for key in settings if key.startswith("spark.hadoop.")]
