"""Publishing: the listing decides, not the job's word."""

import shutil

import pytest

from airflow_hive_acid.errors import PublishError, PublishInterruptedError, WarehouseMissingError
from airflow_hive_acid.filesystem import fence_staging, open_filesystem
from airflow_hive_acid.filesystem.publishing import (
    Manifest,
    Target,
    add_to_published,
    check_published,
    new_partitions,
    publish,
    read_staging,
)
from airflow_hive_acid.format.jobs import JobResult, WrittenDirectory, WrittenFile

FS = open_filesystem("/")


@pytest.fixture
def table(tmp_path):
    location = tmp_path / "w" / "t"
    location.mkdir(parents=True)
    return location


def target_of(table, **kwargs):
    options = {"partition_columns": (), "partitions": {}, "write_id": 5, "statement_ids": (0, 1), **kwargs}
    return Target(table="db.t", location=f"file:{table}", **options)


def staging_of(table):
    return f"file:{table}/_tmp_job"


def stage(table, *files):
    """Write files below staging; each has as many bytes as its path has characters."""
    for file in files:
        path = table / "_tmp_job" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * len(file))


def directory(name, *files, partition="", values=()):
    path = f"data/{partition}/{name}" if partition else f"data/{name}"
    return WrittenDirectory(partition, values, name, tuple(WrittenFile(f, 1, len(f"{path}/{f}")) for f in files))


def result_of(*directories):
    return JobResult("job", "local-1", directories=directories)


def staged_delta(table, name="delta_0000005_0000005_0000"):
    stage(table, f"data/{name}/bucket_00000", f"data/{name}/_orc_acid_version", f"data/{name}/.bucket_00000.crc")
    return directory(name, "bucket_00000")


def published(table, *directories, **target):
    manifest = read_staging(FS, staging_of(table), result_of(*directories), target_of(table, **target))
    publish(FS, staging_of(table), manifest, f"file:{table}")
    return manifest


def test_directory_moves_to_the_table_and_staging_goes(table):
    manifest = published(table, staged_delta(table))
    assert sorted(p.name for p in table.iterdir()) == ["delta_0000005_0000005_0000"]
    assert sorted(p.name for p in (table / "delta_0000005_0000005_0000").iterdir()) == [
        ".bucket_00000.crc", "_orc_acid_version", "bucket_00000",
    ]  # fmt: skip
    assert manifest.to_document() == {
        "table": "db.t",
        "job_id": "job",
        "directories": (
            {
                "partition": "", "values": (), "place": f"file:{table}", "name": "delta_0000005_0000005_0000",
                "files": (("_orc_acid_version", 49), ("bucket_00000", 44)),
            },
        ),
    }  # fmt: skip
    check_published(FS, target_of(table), [manifest])


def test_step_that_wrote_nothing_publishes_nothing(table):
    manifest = published(table)
    assert manifest == Manifest("db.t", "job", ())
    assert list(table.iterdir()) == []
    check_published(FS, target_of(table), [manifest])


def test_new_partitions_lie_below_the_table_and_known_ones_where_the_catalog_says(table, tmp_path):
    name = "delta_0000005_0000005_0000"
    elsewhere = f"file:{tmp_path}/elsewhere"
    for partition in ("k=1", "k=a%2Fb"):
        stage(table, f"data/{partition}/{name}/bucket_00000", f"data/{partition}/{name}/_orc_acid_version")
    written = [
        directory(name, "bucket_00000", partition="k=1", values=("1",)),
        directory(name, "bucket_00000", partition="k=a%2Fb", values=("a/b",)),
    ]
    where = {"partition_columns": ("k",), "partitions": {"k=1": elsewhere}}
    with pytest.raises(WarehouseMissingError, match=r"elsewhere of a partition of .* is not there"):
        published(table, *written, **where)
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "elsewhere").mkdir()
    manifest = published(table, *written, **where)
    assert (tmp_path / "elsewhere" / name / "bucket_00000").is_file()
    assert (table / "k=a%2Fb" / name / "bucket_00000").is_file()
    assert new_partitions(target_of(table, **where), [manifest]) == {"k=a%2Fb": ("a/b",)}
    check_published(FS, target_of(table, **where), [manifest])


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ("data/delta_0000005_0000005_0000/bucket_00001", "bucket_00001: the job reported no such file"),
        ("data/delta_0000005_0000005_0001/bucket_00000", "left 1 files .* did not report"),
        ("left_over", r"left 1 files .*\.\./left_over"),
    ],
)
def test_file_that_was_not_reported_is_refused(table, extra, reason):
    written = staged_delta(table)
    stage(table, extra)
    with pytest.raises(PublishError, match=reason):
        published(table, written)
    assert not (table / written.name).exists()


UNNAMED = ("write_1/part-0.orc", "write_1/part-1-failed.orc", "write_1/_SUCCESS", "write_2/k/part-0.orc")
OBJECTS = open_filesystem("memory://bucket/")


class TestOnAnObjectStore:
    """There names cost copies: publishing gives files theirs."""

    location = "memory://bucket/w/t"
    staging = f"{location}/_tmp_job"

    @pytest.fixture(autouse=True)
    def table(self):
        yield
        OBJECTS.delete(self.location, inside="memory://bucket")

    def target(self):
        return Target("db.t", self.location, (), {}, write_id=5, statement_ids=(0,))

    def written(self, *files, name="delta_0000005_0000005_0000"):
        """A directory of files without names, beside what a failed task and one without rows have left."""
        for file in UNNAMED:
            OBJECTS.write_text(f"{self.staging}/{file}", "x" * len(file))
        return WrittenDirectory("", (), name, tuple(WrittenFile(n, 1, len(s), s) for n, s in files))

    def read(self, *directories):
        return read_staging(OBJECTS, self.staging, result_of(*directories), self.target())

    def published(self, *directories):
        manifest = self.read(*directories)
        publish(OBJECTS, self.staging, manifest, self.location)
        return manifest

    def files(self):
        found = OBJECTS.list_files(self.location, recursive=True) if OBJECTS.exists(self.location) else []
        return {e.relative: OBJECTS.read_text(e.path) for e in found if not e.is_dir}

    def test_files_get_their_names(self):
        written = self.written(("bucket_00000", UNNAMED[0]), ("bucket_00001", UNNAMED[3]))
        manifest = self.published(written)
        assert self.files() == {
            f"{written.name}/_orc_acid_version": "2",
            f"{written.name}/bucket_00000": "x" * len(UNNAMED[0]),
            f"{written.name}/bucket_00001": "x" * len(UNNAMED[3]),
        }
        assert "staged" not in manifest.to_document()["directories"][0]
        assert Manifest.from_document(manifest.to_document()) == manifest
        check_published(OBJECTS, self.target(), [manifest])
        with pytest.raises(PublishError, match="exists already"):
            self.published(self.written(("bucket_00000", UNNAMED[0])))

    def test_tasks_without_rows_publish_nothing(self):
        self.written()
        assert self.published() == Manifest("db.t", "job", ())
        assert self.files() == {}

    def test_files_join_a_base_of_their_txn(self):
        first = self.published(self.written(("bucket_00000", UNNAMED[0]), name="base_0000005"))
        more = self.read(self.written(("bucket_00001", UNNAMED[3]), name="base_0000005"))
        add_to_published(OBJECTS, self.staging, more, self.location)
        check_published(OBJECTS, self.target(), [first, more])
        assert sorted(self.files()) == [
            f"base_0000005/{n}" for n in ("_orc_acid_version", "bucket_00000", "bucket_00001")
        ]

    @pytest.mark.parametrize(
        ("where", "extra", "reason"),
        [
            ("write_1/part-9.orc", None, "the listing says no such file"),
            ("write_1/../../delta_0000001_0000001/bucket_00000", None, "the listing says no such file"),
            ("left_over", "left_over", "the listing says no such file"),
            (UNNAMED[0], "left_over", r"left 1 files .*\.\./left_over"),
            (UNNAMED[0], "data/delta_0000005_0000005_0001/bucket_00000", "left 1 files .* did not report"),
        ],
    )
    def test_a_file_is_one_that_was_listed(self, where, extra, reason):
        written = self.written(("bucket_00000", where))
        if extra:
            OBJECTS.write_text(f"{self.staging}/{extra}", "x" * len(extra))
        with pytest.raises(PublishError, match=reason):
            self.published(written)
        assert {name.partition("/")[0] for name in self.files()} == {"_tmp_job"}

    def test_a_file_has_the_size_that_was_reported(self):
        written = self.written(("bucket_00000", UNNAMED[0]))
        OBJECTS.write_text(f"{self.staging}/{UNNAMED[0]}", "short")
        with pytest.raises(PublishError, match="the listing says 5 bytes"):
            self.published(written)

    def test_a_job_that_was_fenced_publishes_nothing(self):
        manifest = self.read(self.written(("bucket_00000", UNNAMED[0])))
        OBJECTS.delete(self.staging, inside=self.location)
        with pytest.raises(PublishError, match="was fenced"):
            publish(OBJECTS, self.staging, manifest, self.location)
        # What it made in staging before it noticed is seen by nobody.
        assert list(self.files()) == ["_tmp_job/_orc_acid_version"]


def test_files_without_names_are_refused_where_names_cost_nothing(table):
    stage(table, *UNNAMED)
    file = WrittenFile("bucket_00000", 1, len(UNNAMED[0]), UNNAMED[0])
    with pytest.raises(PublishError, match="the listing says no such file"):
        published(table, WrittenDirectory("", (), "delta_0000005_0000005_0000", (file,)))


def test_file_that_is_missing_or_of_another_size_is_refused(table):
    written = staged_delta(table)
    file = table / "_tmp_job" / "data" / written.name / "bucket_00000"
    file.write_text("short")
    with pytest.raises(PublishError, match="reported 44 bytes, the listing says 5 bytes"):
        published(table, written)
    file.unlink()
    with pytest.raises(PublishError, match="the listing says no such file"):
        published(table, written)


def test_directory_without_version_file_is_refused(table):
    stage(table, "data/delta_0000005_0000005_0000/bucket_00000")
    with pytest.raises(PublishError, match="_orc_acid_version"):
        published(table, directory("delta_0000005_0000005_0000", "bucket_00000"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("delta_0000004_0000004_0000", "does not carry write id 5"),
        ("delta_0000004_0000005_0000_v0000009", "does not carry write id 5"),
        ("delta_5_5_0000", "does not carry write id 5"),
        ("delta_0000005_0000005_0007", "statement id is none of"),
        ("../delta_0000005_0000005_0000", "does not carry write id 5"),
        ("base_0000004", "does not carry write id 5"),
    ],
)
def test_name_that_is_not_the_steps_is_refused(table, name, reason):
    with pytest.raises(PublishError, match=reason):
        published(table, directory(name, "bucket_00000"))


def test_base_of_an_overwrite_is_published(table):
    published(table, staged_delta(table, "base_0000005"))
    assert (table / "base_0000005").is_dir()


@pytest.mark.parametrize(
    ("partition", "values", "reason"),
    [
        ("k=1", ("2",), "its values make the partition k=2"),
        ("k=../../x", ("../../x",), "its values make the partition k=..%2F..%2Fx"),
        ("k=1", ("1", "2"), "1 partition columns"),
        ("", (), "1 partition columns"),
    ],
)
def test_partition_that_is_not_what_its_values_say_is_refused(table, partition, values, reason):
    written = directory("delta_0000005_0000005_0000", "bucket_00000", partition=partition, values=values)
    with pytest.raises(PublishError, match=reason):
        published(table, written, partition_columns=("k",))


def test_partition_of_an_unpartitioned_table_is_refused(table):
    written = directory("delta_0000005_0000005_0000", "bucket_00000", partition="k=1", values=("1",))
    with pytest.raises(PublishError, match="the table has no partitions"):
        published(table, written)


@pytest.mark.rule("R5")
def test_place_that_is_taken_is_refused(table):
    """
    t1  attempt 1 publishes delta_5_5_0
    t2  attempt 2 of the same statement wants to publish it too: refused, attempt 1's files are untouched
    """
    written = staged_delta(table)
    (table / written.name).mkdir()
    (table / written.name / "bucket_00000").write_text("first")
    with pytest.raises(PublishInterruptedError, match="exists already: another attempt"):
        published(table, written)
    assert (table / written.name / "bucket_00000").read_text() == "first"


@pytest.mark.rule("R4")
def test_fenced_attempt_cannot_publish(table):
    """
    t1  the job has finished, its control plane sleeps
    t2                    the reaper gives the txn up and fences the staging directory
    t3  the control plane wakes up and wants to publish: refused
    """
    manifest = read_staging(FS, staging_of(table), result_of(staged_delta(table)), target_of(table))
    fence_staging(FS, staging_of(table), inside=f"file:{table}", note="given up")
    with pytest.raises(PublishInterruptedError, match="fenced"):
        publish(FS, staging_of(table), manifest, f"file:{table}")
    with pytest.raises(PublishInterruptedError, match="fenced"):
        read_staging(FS, staging_of(table), result_of(staged_delta_report()), target_of(table))


@pytest.mark.rule("R4")
def test_a_job_whose_staging_was_taken_away_can_be_tried_again_and_one_that_lies_cannot(table):
    """A fence on an object store, or one that has gone with its table, leaves nothing of staging."""
    written = staged_delta(table)
    stage(table, "data/delta_0000005_0000005_0000/bucket_00009")
    with pytest.raises(PublishError, match="bucket_00009") as lied:
        published(table, written)
    assert not lied.value.retryable
    shutil.rmtree(table / "_tmp_job")
    with pytest.raises(PublishInterruptedError, match="is gone: job job was fenced") as gone:
        published(table, written)
    assert gone.value.retryable


def staged_delta_report():
    return directory("delta_0000005_0000005_0000", "bucket_00000")


@pytest.mark.rule("R5")
def test_directory_of_another_attempt_refuses_the_commit(table):
    """
    t1  attempt 1 publishes delta_5_5_1 and dies
    t2  attempt 2 publishes delta_5_5_0 and commits: refused, or the rows would be there twice
    """
    manifest = published(table, staged_delta(table))
    (table / "delta_0000005_0000005_0001").mkdir()
    with pytest.raises(PublishInterruptedError, match="another attempt"):
        check_published(FS, target_of(table), [manifest])


def test_directories_of_other_write_ids_do_not_matter(table):
    manifest = published(table, staged_delta(table))
    for name in ("delta_0000004_0000004_0000", "base_0000004", "delta_0000001_0000005_v0000009", "_tmp_other"):
        (table / name).mkdir()
    check_published(FS, target_of(table), [manifest])


def test_directory_that_vanished_refuses_the_commit(table):
    manifest = published(table, staged_delta(table))
    FS.delete(manifest.directories[0].uri, inside=f"file:{table}")
    with pytest.raises(PublishInterruptedError, match="was published and is gone"):
        check_published(FS, target_of(table), [manifest])


def test_file_that_changed_refuses_the_commit(table):
    manifest = published(table, staged_delta(table))
    (table / manifest.directories[0].name / "bucket_00001").write_text("more")
    with pytest.raises(PublishInterruptedError, match="holds 3 files with 97 bytes, not the 2 with 93"):
        check_published(FS, target_of(table), [manifest])


def test_compaction_owns_its_visibility_txn(table):
    compaction = {"write_id": 5, "statement_ids": (), "visibility_txn_id": 9}
    manifest = published(table, staged_delta(table, "base_0000005_v0000009"), **compaction)
    (table / "base_0000005").mkdir()
    check_published(FS, target_of(table, **compaction), [manifest])
    (table / "delta_0000001_0000005_v0000009").mkdir()
    with pytest.raises(PublishError, match="another attempt"):
        check_published(FS, target_of(table, **compaction), [manifest])


def test_many_directories_move_in_parallel(table):
    name = "delta_0000005_0000005_0000"
    written = []
    for k in range(40):
        stage(table, f"data/k={k}/{name}/bucket_00000", f"data/k={k}/{name}/_orc_acid_version")
        written.append(directory(name, "bucket_00000", partition=f"k={k}", values=(str(k),)))
    manifest = published(table, *written, partition_columns=("k",))
    assert len(list(table.glob(f"k=*/{name}/bucket_00000"))) == 40
    check_published(FS, target_of(table, partition_columns=("k",)), [manifest])
