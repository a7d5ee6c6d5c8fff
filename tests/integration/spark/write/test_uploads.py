"""Where a job uploads files under their final names: on S3 through S3A, unless S3A encrypts them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.spark.hadoop import HadoopFilesystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_store_that_does_not_say_that_it_takes_uploads_is_written_to_as_before(spark: SparkSession) -> None:
    """This Spark has no S3A; ``tests/storage`` has one."""
    files = HadoopFilesystem.of(spark)
    places = ("file:/w/t", "hdfs://nowhere/w/t", "gs://bucket/w/t", "s3a://bucket/w/t")
    assert [files.can_upload(place) for place in places] == [False] * 4


@pytest.mark.parametrize("key", ["fs.s3a.encryption.algorithm", "fs.s3a.bucket.hidden.encryption.algorithm"])
def test_what_s3a_encrypts_itself_is_not_uploaded_in_parts(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    files = HadoopFilesystem.of(spark)
    asked: list[str] = []

    class S3A:
        def hasPathCapability(self, path: object, capability: str) -> bool:
            asked.append(capability)
            return True

    monkeypatch.setattr(files, "_filesystem", lambda uri: S3A())
    assert files.can_upload("s3a://hidden/w/t")
    assert asked == ["fs.capability.multipart.uploader"]
    files.conf.set(key, "CSE-KMS")
    try:
        assert not files.can_upload("s3a://hidden/w/t")
        assert files.can_upload("s3a://other/w/t") == ("hidden" in key)
        files.conf.set(key, "SSE-KMS")
        assert files.can_upload("s3a://hidden/w/t")
    finally:
        files.conf.unset(key)
