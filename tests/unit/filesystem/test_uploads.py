"""Files that are uploads until they are published: what is put together, what is ended, and what is refused."""

from types import SimpleNamespace

import pytest

from airflow_hive_acid.errors import ConfigurationError, PublishError, PublishInterruptedError, StorageUnavailableError
from airflow_hive_acid.filesystem import fence_staging, open_filesystem, publishing
from airflow_hive_acid.filesystem.answers import Answers
from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.filesystem.protocol import Part, Upload, WholeUpload
from airflow_hive_acid.filesystem.publishing import Manifest, Target, check_published, publish, read_staging
from airflow_hive_acid.filesystem.s3_uploads import S3Uploads
from airflow_hive_acid.filesystem.uploads import abort_left, abort_named
from airflow_hive_acid.format.jobs import JobResult, Uploads, WrittenDirectory, WrittenFile
from tests.fake_uploads import FakeUploads

DELTA = "delta_0000005_0000005_0000"
CONTENT = "rows of one bucket"


class Store(LocalFilesystem):
    """Local files, and uploads in memory."""

    def __init__(self):
        super().__init__()
        self.fake = FakeUploads(self)

    def can_fence(self, uri):
        return False

    def uploads(self, uri):
        return self.fake

    def write_text(self, uri, text):
        """An object needs no directory."""
        self.make_directory(uri.rpartition("/")[0])
        super().write_text(uri, text)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def location(tmp_path):
    (tmp_path / "t").mkdir()
    return f"file:{tmp_path}/t"


def target_of(location, **more):
    return Target("db.t", location, **{"partition_columns": (), "partitions": {}, "write_id": 5, **more})


def read(store, location, result, target=None, **elsewhere):
    """What a job that was told these places left in staging."""
    told = Uploads(location, elsewhere)
    return read_staging(store, f"{location}/_tmp_job", result, target or target_of(location), told)


def result_of(*files, partition="", values=()):
    return JobResult("job", "app", directories=(WrittenDirectory(partition, values, DELTA, files),))


def uploaded(number, upload, size=18):
    return WrittenFile(f"bucket_0000{number}", 1, size, upload=upload)


def names(store, location):
    """What readers see."""
    files = [e.relative for e in store.list_files(location, recursive=True) if not e.is_dir]
    return [name for name in files if not name.startswith("_tmp_")]


@pytest.mark.rule("R5")
def test_only_the_upload_that_the_result_names_becomes_the_file(store, location):
    """
    t1  two attempts of a task upload the file; the first was slow and is not dead
    t2  the result names the second: it becomes the file, the first is ended
    """
    uri = f"{location}/{DELTA}/bucket_00000"
    store.fake.start(uri, "first", "rows of")
    store.fake.start(uri, "second", CONTENT[:4], CONTENT[4:])
    store.fake.start(f"{location}/delta_0000006_0000006_0000/bucket_00000", "another txn", "x")
    manifest = read(store, location, result_of(uploaded(0, "second")))
    assert names(store, location) == []
    publish(store, f"{location}/_tmp_job", manifest, location)
    assert names(store, location) == [f"{DELTA}/_orc_acid_version", f"{DELTA}/bucket_00000"]
    assert store.read_text(uri) == CONTENT
    assert [one.upload_id for one in store.fake.open] == ["another txn"]
    check_published(store, target_of(location), [manifest])


@pytest.mark.rule("R4")
def test_what_a_fence_has_ended_is_never_published(store, location):
    """
    t1  A records its manifest
    t2            the fence ends the uploads that it names
    t3  A publishes: refused, and nothing of it is there
    """
    store.fake.start(f"{location}/{DELTA}/bucket_00000", "u", CONTENT)
    manifest = read(store, location, result_of(uploaded(0, "u")))
    document = manifest.to_document()
    assert document["directories"][0]["uploads"] == {"bucket_00000": "u"}
    assert Manifest.from_document(document) == manifest
    abort_named(store, document)
    with pytest.raises(PublishInterruptedError, match="was given up"):
        publish(store, f"{location}/_tmp_job", manifest, location)
    assert names(store, location) == []


@pytest.mark.rule("R4")
def test_a_publisher_that_stops_between_two_uploads_is_fenced(store, location):
    """
    t1  A puts the first of two uploads together; the store does not answer for the second, and A dies
    t2            the fence ends what is left
    t3  A wakes up and tries again: refused, because its directory is there; the Cleaner removes that by its write id
    """
    for number in (0, 1):
        store.fake.start(f"{location}/{DELTA}/bucket_0000{number}", f"u{number}", CONTENT)
    result = result_of(uploaded(0, "u0"), uploaded(1, "u1"))
    manifest = read(store, location, result)
    store.fake.fails = {"bucket_00001"}
    with pytest.raises(StorageUnavailableError):
        publish(store, f"{location}/_tmp_job", manifest, location)
    assert names(store, location) == [f"{DELTA}/bucket_00000"]
    abort_named(store, manifest.to_document())
    store.fake.fails = set()
    assert store.fake.open == {}
    with pytest.raises(PublishError):
        publish(store, f"{location}/_tmp_job", manifest, location)
    assert names(store, location) == [f"{DELTA}/bucket_00000"]
    with pytest.raises(PublishError, match="not the 3"):
        check_published(store, target_of(location), [manifest])


@pytest.mark.rule("R4")
@pytest.mark.parametrize("way", ["uploaded", "copied"])
def test_a_publisher_that_wakes_up_behind_its_fence_makes_no_base(monkeypatch, tmp_path, way):
    """
    t1  A's overwrite gives its files their names, and sleeps
    t2            the fence removes A's staging and ends its uploads; a quarter of an hour later A's base is removed,
                  and its write id forgotten
    t3  A wakes up: refused. A base with its version file alone would be valid, and hide all rows before it
    """
    store = open_filesystem("memory://bucket/w")
    fake = FakeUploads(store)
    monkeypatch.setattr(type(store), "uploads", lambda self, uri: fake)
    location = f"memory://bucket{tmp_path}"
    staging, base = f"{location}/_tmp_job", f"{location}/base_0000005"
    file = uploaded(0, "u")
    if way == "uploaded":
        fake.start(f"{base}/bucket_00000", "u", CONTENT)
    else:
        file = WrittenFile("bucket_00000", 1, len(CONTENT), staged="write_1/part-0.orc")
        store.write_text(f"{staging}/write_1/part-0.orc", CONTENT)
    result = JobResult("job", "app", directories=(WrittenDirectory("", (), "base_0000005", (file,)),))
    manifest = read(store, location, result)
    complete_all = publishing.complete_all

    def complete_and_sleep(*given):
        complete_all(*given)
        assert names(store, base) == ["bucket_00000"]
        assert not fence_staging(store, staging, inside=location, note="its txn was given up")
        abort_named(store, manifest.to_document())
        store.delete(base, inside=location)

    monkeypatch.setattr(publishing, "complete_all", complete_and_sleep)
    with pytest.raises(PublishInterruptedError, match="was given up"):
        publish(store, staging, manifest, location)
    assert not store.exists(base)


@pytest.mark.rule("R5")
def test_the_store_says_how_large_an_upload_is_not_the_job(store, location):
    store.fake.start(f"{location}/{DELTA}/bucket_00000", "u", CONTENT)
    result = result_of(uploaded(0, "u", size=3))
    with pytest.raises(PublishError, match="the job reported 3 bytes, the listing says 18 bytes"):
        read(store, location, result)


def test_an_upload_of_another_store_or_of_nobody_is_refused(store, location):
    result = result_of(uploaded(0, "u"))
    with pytest.raises(PublishInterruptedError, match="was ended"):
        read(store, location, result)
    with pytest.raises(PublishError, match="no store that has them"):
        read(open_filesystem("/"), location, result)


def test_a_partition_that_was_moved_while_its_files_were_uploaded_is_refused(store, location):
    result = result_of(uploaded(0, "u"), partition="p=1", values=("1",))
    where = f"{location}/elsewhere"
    moved = target_of(location, partition_columns=("p",), partitions={"p=1": where})
    moves = f"of db.t lies at {where}, and its files were uploaded to {location}/p=1"
    with pytest.raises(PublishInterruptedError, match=moves):
        read(store, location, result, moved)
    back = target_of(location, partition_columns=("p",), partitions={})
    with pytest.raises(PublishError, match=f"lies at {location}/p=1, and its files were uploaded to {where}"):
        read(store, location, result, back, **{"p=1": where})
    with pytest.raises(PublishError, match="the job was not to upload its files") as lied:
        read(store, location, result, back, **{"p=1": ""})
    assert not lied.value.retryable


@pytest.mark.rule("R4")
@pytest.mark.rule("R5")
def test_files_of_a_partition_that_lies_elsewhere_become_files_there_and_no_others(store, location, tmp_path):
    """
    t1  two attempts of a task upload a file of a partition outside of the table's directory
    t2  in the partition's directory lies another table, whose txn has the same write id and uploads, too
    t3  the first attempt becomes the file, the second is ended, the other table's goes on
    """
    far = f"file:{tmp_path}/far"
    for upload in ("first", "second"):
        store.fake.start(f"{far}/{DELTA}/bucket_00000", upload, CONTENT)
    store.fake.start(f"{far}/other/{DELTA}/bucket_00000", "another table", CONTENT)
    result = result_of(uploaded(0, "first"), partition="p=1", values=("1",))
    target = target_of(location, partition_columns=("p",), partitions={"p=1": far})
    manifest = read(store, location, result, target, **{"p=1": far})
    publish(store, f"{location}/_tmp_job", manifest, location)
    assert names(store, far) == [f"{DELTA}/_orc_acid_version", f"{DELTA}/bucket_00000"]
    assert [one.upload_id for one in store.fake.open] == ["another table"]
    check_published(store, target, [manifest])


def test_files_that_were_staged_and_files_that_were_uploaded_share_a_directory(store, location):
    """As after a MERGE: changed rows are staged, new ones uploaded."""
    store.make_directory(f"{location}/_tmp_job/write_1")
    store.write_text(f"{location}/_tmp_job/write_1/part-0.orc", "changed")
    store.fake.start(f"{location}/{DELTA}/bucket_00001", "u", CONTENT)
    staged = WrittenFile("bucket_00000", 1, 7, staged="write_1/part-0.orc")
    manifest = read(store, location, result_of(staged, uploaded(1, "u")))
    publish(store, f"{location}/_tmp_job", manifest, location)
    assert names(store, location) == [f"{DELTA}/{n}" for n in ("_orc_acid_version", "bucket_00000", "bucket_00001")]
    check_published(store, target_of(location), [manifest])


@pytest.mark.rule("R17")
def test_uploads_that_cannot_be_listed_are_left_and_said(store, location, caplog):
    store.fake.start(f"{location}/{DELTA}/bucket_00000", "u", CONTENT)
    store.fake.fails = {"below"}
    assert "AccessDenied" in abort_left(store, location, lambda directory: True)
    assert "cost money" in caplog.text
    store.fake.fails = set()
    assert abort_left(store, location, lambda directory: directory.max_write_id == 4) is None
    assert len(store.fake.open) == 1
    assert abort_left(store, location, lambda directory: directory.max_write_id == 5) is None
    assert store.fake.open == {}


def test_a_right_that_is_missing_is_named_with_the_way_without_it():
    def refuse(method, **asked):
        raise PermissionError("Access Denied")

    fs = SimpleNamespace(call_s3=refuse)
    uploads = S3Uploads(fs, Answers(fs), lambda uri: uri.removeprefix("s3a://"))
    upload = Upload("s3a://bucket/w/t/delta/bucket_00000", "1")
    refused = {
        "s3:ListBucketMultipartUploads": lambda: uploads.below("s3a://bucket/w/t"),
        "s3:ListMultipartUploadParts": lambda: uploads.look_at(upload),
        "s3:PutObject": lambda: uploads.complete(WholeUpload(upload, (Part(1, "x", 1),))),
        "s3:AbortMultipartUpload": lambda: uploads.abort(upload),
    }
    for right, call in refused.items():
        with pytest.raises(ConfigurationError, match=rf"right {right}, or set hive\.acid\.spark\.s3\.uploads to copy"):
            call()


def test_listings_of_uploads_and_parts_are_read_page_by_page():
    """S3 gives a thousand at a time, and wants checksums back that it has computed."""
    pages = {
        ("list_multipart_uploads", None): {
            "IsTruncated": True, "NextKeyMarker": "w/t[1]/a", "NextUploadIdMarker": "1",
            "Uploads": [{"Key": "w/t[1]/a", "UploadId": "1"}],
        },
        ("list_multipart_uploads", "w/t[1]/a"): {"Uploads": [{"Key": "w/t[1]/p=a%2Fb/b", "UploadId": "2"}]},
        ("list_parts", None): {
            "IsTruncated": True, "NextPartNumberMarker": 1,
            "Parts": [{"PartNumber": 1, "ETag": '"x"', "Size": 5, "ChecksumCRC32": "c"}],
        },
        ("list_parts", 1): {"Parts": [{"PartNumber": 2, "ETag": '"y"', "Size": 2}]},
    }  # fmt: skip
    completed = []

    def call(method, **asked):
        if method == "complete_multipart_upload":
            completed.append(asked)
            return {}
        return pages[method, asked.get("KeyMarker") or asked.get("PartNumberMarker")]

    fs = SimpleNamespace(call_s3=call)
    uploads = S3Uploads(fs, Answers(fs), lambda uri: uri.removeprefix("s3a://"))
    assert uploads.below("s3a://bucket/w/t[1]/") == [
        Upload("s3a://bucket/w/t[1]/a", "1"),
        Upload("s3a://bucket/w/t[1]/p=a%2Fb/b", "2"),
    ]
    whole = uploads.look_at(Upload("s3a://bucket/w/t[1]/a", "1"))
    assert (whole.size, whole.parts[0].checksums) == (7, (("ChecksumCRC32", "c"),))
    uploads.complete(whole)
    parts = [{"PartNumber": 1, "ETag": '"x"', "ChecksumCRC32": "c"}, {"PartNumber": 2, "ETag": '"y"'}]
    asked = {"Bucket": "bucket", "Key": "w/t[1]/a", "UploadId": "1", "MultipartUpload": {"Parts": parts}}
    assert completed == [asked]
