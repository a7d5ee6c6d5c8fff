"""Copies by Spark: the same files, checksums and refusals with the jar (in tasks) and without it (in the driver)."""

import hashlib

import pytest

from airflow_hive_acid.errors import CopyFailedError, CorruptDumpError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import CopiedFile, Copy, JobSpec
from airflow_hive_acid.format.jobs.documents import result_from_json, spec_from_json, to_json
from airflow_hive_acid.replication.dumps.copiers import copy
from airflow_hive_acid.replication.dumps.copies import FileCopy
from airflow_hive_acid.replication.site import Site
from airflow_hive_acid.settings import Settings, Source
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from airflow_hive_acid.spark.jobs.run import run_step
from airflow_hive_acid.spark.write.copies import copy as copy_in_spark

CONTENTS = {"a": b"", "b c": b"x" * 100, "p=1%2F2/d": bytes(range(256)) * 5000}


def sha(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class _Client:
    settings = Settings({Source.CONNECTION: {"hive.exec.copyfile.maxsize": "10"}})


@pytest.mark.parametrize("jar", ["auto", "off"])
def test_files_are_copied_verified_and_kept(spark, tmp_path, jar):
    """One application for all: what arrives, what a second attempt keeps, what is refused."""
    files = []
    for name, content in CONTENTS.items():
        source = tmp_path / "source" / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(content)
        files.append(FileCopy(f"file:{source}", f"file:{tmp_path}/target/{name}", len(content)))
    asked = []

    def run_job(spec):
        asked.append(spec_from_json(to_json(spec)))
        session = spark.newSession()
        session.conf.set(SESSION_KEY, jar)
        return result_from_json(to_json(run_step(session, asked[-1])))

    site = Site(_Client(), AnyFilesystem(), run_job)
    spark.conf.set(SESSION_KEY, jar)
    try:
        report = copy(site, site.filesystem, site.filesystem, files)
        assert (report.files, report.reused, report.bytes) == (3, 0, sum(map(len, CONTENTS.values())))
        assert report.checksums == {f.target: sha(c) for f, c in zip(files, CONTENTS.values(), strict=True)}
        assert {name: (tmp_path / "target" / name).read_bytes() for name in CONTENTS} == CONTENTS
        (tmp_path / "target/b c").write_bytes(b"y" * 100)
        again = copy(site, site.filesystem, site.filesystem, files)
        assert (again.files, again.reused, again.bytes) == (3, 2, 100)
        assert len(asked) == 2
        one = CopiedFile(files[1].source, f"{files[1].target}-2", 100, sha(b"other"))
        with pytest.raises(CorruptDumpError, match="not the file that was exported"):
            copy_in_spark(spark, Copy((one,)))
        for bad in (CopiedFile(files[1].source, f"{files[1].target}-3", 99), CopiedFile("file:/none/x", one.target, 1)):
            with pytest.raises(CopyFailedError, match="export again"):
                copy_in_spark(spark, Copy((bad,)))
    finally:
        spark.conf.unset(SESSION_KEY)


def test_spec_and_result_travel():
    spec = JobSpec("j", Copy((CopiedFile("a", "b", 1, "sha256:0"),)), name="copy")
    assert spec_from_json(to_json(spec)) == spec
