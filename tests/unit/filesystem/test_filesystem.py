"""Every adapter keeps the same promises; an in-memory object store stands for the remote ones."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import fsspec
import pytest

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError, UnsafePathError
from airflow_hive_acid.filesystem import (
    AnyFilesystem,
    FileInfo,
    Filesystem,
    fence_staging,
    list_many,
    open_filesystem,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["local", "object-store"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URI of an empty table directory."""
    uri = f"file:{tmp_path}/w/t" if request.param == "local" else f"memory://{uuid.uuid4().hex}/w/t"
    open_filesystem(uri).make_directory(uri)
    return uri


@pytest.fixture(params=["one", "any"])
def fs(request: pytest.FixtureRequest, table: str) -> Filesystem:
    return open_filesystem(table) if request.param == "one" else AnyFilesystem()


def fill(fs: Filesystem, table: str, *files: str) -> None:
    for file in files:
        fs.make_directory(f"{table}/{file}".rsplit("/", 1)[0])
        fs.write_text(f"{table}/{file}", file)


def test_a_listing_gives_uris_relative_paths_and_sizes(fs: Filesystem, table: str) -> None:
    fill(fs, table, "delta_1/bucket_0", "ds=a%2Fb c/base_5/bucket_1")
    assert fs.list_files(table) == [
        FileInfo(f"{table}/delta_1", "delta_1", 0, True),
        FileInfo(f"{table}/ds=a%2Fb c", "ds=a%2Fb c", 0, True),
    ]
    assert fs.list_files(table + "/", recursive=True) == [
        FileInfo(f"{table}/delta_1", "delta_1", 0, True),
        FileInfo(f"{table}/delta_1/bucket_0", "delta_1/bucket_0", 16, False),
        FileInfo(f"{table}/ds=a%2Fb c", "ds=a%2Fb c", 0, True),
        FileInfo(f"{table}/ds=a%2Fb c/base_5", "ds=a%2Fb c/base_5", 0, True),
        FileInfo(f"{table}/ds=a%2Fb c/base_5/bucket_1", "ds=a%2Fb c/base_5/bucket_1", 26, False),
    ]


def test_a_recursive_listing_does_not_enter_what_it_is_told_not_to(fs: Filesystem, table: str) -> None:
    fill(fs, table, "_tmp_x/data/f", "delta_1/bucket_0")
    listed = fs.list_files(table, recursive=True, descend=lambda info: not info.name.startswith("_"))
    assert [info.relative for info in listed] == ["_tmp_x", "delta_1", "delta_1/bucket_0"]


def test_a_missing_directory_is_an_error_and_never_an_empty_listing(fs: Filesystem, table: str) -> None:
    with pytest.raises(FileNotFoundError):
        fs.list_files(f"{table}/nothing")
    assert list_many(fs, [table, f"{table}/nothing"]) == {table: [], f"{table}/nothing": None}


def test_listing_a_file_is_an_error(fs: Filesystem, table: str) -> None:
    fill(fs, table, "f")
    with pytest.raises(NotADirectoryError):
        fs.list_files(f"{table}/f")


def test_a_rename_moves_the_whole_directory(fs: Filesystem, table: str) -> None:
    fill(fs, table, "_tmp_1/data/delta_5/bucket_0")
    fs.rename_directory(f"{table}/_tmp_1/data/delta_5", f"{table}/delta_5")
    assert fs.read_text(f"{table}/delta_5/bucket_0") == "_tmp_1/data/delta_5/bucket_0"
    assert not fs.exists(f"{table}/_tmp_1/data/delta_5")


@pytest.mark.rule("R5")
@pytest.mark.parametrize("existing", ["delta_5/bucket_0", "delta_5"])
def test_a_rename_never_lands_on_or_in_something_that_exists(fs: Filesystem, table: str, existing: str) -> None:
    fill(fs, table, "_tmp_1/data/delta_5/bucket_9", existing)
    with pytest.raises(FileExistsError, match="delta_5 exists already"):
        fs.rename_directory(f"{table}/_tmp_1/data/delta_5", f"{table}/delta_5")
    assert fs.read_text(f"{table}/{existing}") == existing
    assert fs.exists(f"{table}/_tmp_1/data/delta_5/bucket_9")


def test_renaming_what_is_not_there_leaves_nothing_behind(fs: Filesystem, table: str) -> None:
    with pytest.raises(FileNotFoundError):
        fs.rename_directory(f"{table}/_tmp_1/data/delta_5", f"{table}/delta_5")
    assert fs.list_files(table) == []


@pytest.mark.rule("R5")
def test_files_are_gathered_in_a_directory_that_is_not_there_yet(fs: Filesystem, table: str) -> None:
    fill(fs, table, "_tmp_1/a/part-0", "_tmp_1/b/part-0", "_tmp_1/b/part-1", "delta_4/bucket_0")
    files = {"bucket_0": f"{table}/_tmp_1/a/part-0", "bucket_1": f"{table}/_tmp_1/b/part-1"}
    with pytest.raises(FileExistsError, match="delta_4 exists already"):
        fs.gather(files, f"{table}/delta_4")
    fs.gather(files, f"{table}/delta_5")
    assert [e.relative for e in fs.list_files(table, recursive=True) if not e.is_dir] == [
        "_tmp_1/b/part-0",
        "delta_4/bucket_0",
        "delta_5/bucket_0",
        "delta_5/bucket_1",
    ]
    assert fs.read_text(f"{table}/delta_5/bucket_1") == "_tmp_1/b/part-1"
    with pytest.raises(FileNotFoundError):
        fs.gather(files, f"{table}/delta_6")


def test_deleting_takes_the_named_directory_and_nothing_else(fs: Filesystem, table: str) -> None:
    fill(fs, table, "delta_1/bucket_0", "delta_10/bucket_0", "delta_1x/bucket_0")
    assert fs.delete(f"{table}/delta_1", inside=table) is True
    assert [info.relative for info in fs.list_files(table)] == ["delta_10", "delta_1x"]
    assert fs.delete(f"{table}/delta_1", inside=table) is False


def test_deleting_stays_inside(fs: Filesystem, table: str) -> None:
    parent = table.rsplit("/", 1)[0]
    fill(fs, table, "f")
    fill(fs, parent, "other/f")
    for outside in (table, table + "/", parent, f"{parent}/other", f"{table}/../other", f"{table}/./.."):
        with pytest.raises(UnsafePathError):
            fs.delete(outside, inside=table)
    assert fs.exists(f"{parent}/other/f")
    assert fs.exists(f"{table}/f")


def test_texts_are_replaced_as_a_whole_and_created_once(fs: Filesystem, table: str) -> None:
    fs.write_text(f"{table}/f", "é1\r\n")
    fs.write_text(f"{table}/f", "2\n")
    assert fs.read_text(f"{table}/f") == "2\n"
    assert [fs.read_range(f"{table}/f", 0, 1), fs.read_range(f"{table}/f", 1, 2)] == [b"2", b"\n"]
    with pytest.raises(FileExistsError):
        fs.create_file(f"{table}/f", "3")
    assert [info.relative for info in fs.list_files(table)] == ["f"]


def test_a_directory_is_not_made_over_a_file(fs: Filesystem, table: str) -> None:
    fs.make_directory(f"{table}/a/b")
    fs.make_directory(f"{table}/a/b")
    fill(fs, table, "f")
    with pytest.raises(FileExistsError):
        fs.make_directory(f"{table}/f")


def test_symbolic_links_are_neither_followed_nor_deleted(tmp_path: Path) -> None:
    table, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    for directory in (table / "delta_1", elsewhere / "base_1"):
        directory.mkdir(parents=True)
        (directory / "bucket_0").write_text("rows")
    os.symlink(elsewhere, table / "link")
    fs = open_filesystem(str(table))
    assert [i.relative for i in fs.list_files(str(table), recursive=True)] == ["delta_1", "delta_1/bucket_0", "link"]
    for path in ("link", "link/base_1"):
        with pytest.raises(UnsafePathError, match="symbolic link"):
            fs.delete(f"{table}/{path}", inside=str(table))
    os.symlink(elsewhere, table / "delta_1" / "link")
    fs.delete(f"{table}/delta_1", inside=str(table))
    assert (elsewhere / "base_1" / "bucket_0").read_text() == "rows"


@pytest.mark.rule("R4")
def test_a_fenced_staging_directory_can_not_be_published_any_more(tmp_path: Path) -> None:
    """
    t1  a driver writes _tmp_1/data/delta_10 and falls asleep
    t2  we fence it
    t3  the driver wakes up: writing on and renaming both fail
    """
    table = f"file://{tmp_path}"
    fs = open_filesystem(table)
    fill(fs, table, "_tmp_1/data/delta_10/bucket_0")
    assert fence_staging(fs, f"{table}/_tmp_1", inside=table, note="txn 10 was aborted") is True
    with pytest.raises(OSError, match="delta_10"):
        fs.rename_directory(f"{table}/_tmp_1/data/delta_10", f"{table}/delta_10")
    with pytest.raises(OSError, match="_tmp_1"):
        fs.make_directory(f"{table}/_tmp_1/data/delta_11")
    assert [i.relative for i in fs.list_files(table, recursive=True)] == ["_tmp_1"]
    assert fs.read_text(f"{table}/_tmp_1") == "txn 10 was aborted\n"
    assert fence_staging(fs, f"{table}/_tmp_1", inside=table, note="again") is True


@pytest.mark.rule("R4")
def test_a_driver_that_had_not_started_is_fenced_too(tmp_path: Path) -> None:
    fs = open_filesystem(str(tmp_path))
    assert fence_staging(fs, f"{tmp_path}/_tmp_1", inside=str(tmp_path), note="gone") is True
    with pytest.raises(FileExistsError):
        fs.make_directory(f"{tmp_path}/_tmp_1")


@pytest.mark.rule("R4")
def test_an_object_store_admits_that_a_file_does_not_fence() -> None:
    table = f"memory://{uuid.uuid4().hex}/t"
    fs = open_filesystem(table)
    fill(fs, table, "_tmp_1/data/delta_10/bucket_0")
    assert fence_staging(fs, f"{table}/_tmp_1", inside=table, note="gone") is False
    assert not fs.exists(f"{table}/_tmp_1")


def test_only_staging_directories_of_the_table_are_fenced(tmp_path: Path) -> None:
    fs = open_filesystem(str(tmp_path))
    fill(fs, str(tmp_path), "delta_1/bucket_0")
    with pytest.raises(InvalidArgumentsError, match="no staging directory"):
        fence_staging(fs, f"{tmp_path}/delta_1", inside=str(tmp_path), note="")
    with pytest.raises(UnsafePathError):
        fence_staging(fs, f"{tmp_path}/../_tmp_1", inside=str(tmp_path), note="")
    assert fs.exists(f"{tmp_path}/delta_1/bucket_0")


@pytest.mark.parametrize(
    ("uri", "error"),
    [("ftp://host/w", ConfigurationError), ("w/t", UnsafePathError), ("", UnsafePathError), ("//w", UnsafePathError)],
)
def test_a_location_we_cannot_serve_is_refused_by_name(uri: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        open_filesystem(uri)


def test_hdfs_without_libhdfs_is_refused_with_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(*_: object, **__: object) -> None:
        raise OSError("Unable to load libhdfs")

    monkeypatch.setattr(fsspec.core, "url_to_fs", no_library)
    with pytest.raises(ConfigurationError, match=r"Unable to load libhdfs\); install libhdfs, or .* FSSPEC_WEBHDFS"):
        open_filesystem("hdfs://nn:8020/w")


def test_a_configured_gateway_serves_its_own_name_node_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fsspec.config.conf, "webhdfs", {"namenodes": {"nn:8020": "web:9870"}})
    fs = open_filesystem("hdfs://nn:8020/w")
    with pytest.raises(InvalidArgumentsError, match="not on nn:8020"):
        fs.exists("hdfs://other:8020/w")
    assert fs.can_fence("hdfs://nn:8020/w/t")


def test_what_shows_while_a_directory_is_being_deleted_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is not dead yet puts an object below a staging directory while its objects are being deleted."""
    table = f"memory://{uuid.uuid4().hex}/t"
    fs = open_filesystem(table)
    fill(fs, table, "_tmp_x/data/f")
    remove, late = fs._fs.rm_file, []

    def remove_slowly(name: str) -> None:
        if not late:
            late.append(name)
            fill(fs, table, "_tmp_x/data/g")
        remove(name)

    monkeypatch.setattr(fs._fs, "rm_file", remove_slowly)
    assert fs.delete(f"{table}/_tmp_x", inside=table) is True
    assert not fs.exists(f"{table}/_tmp_x")


def test_a_filesystem_says_when_a_location_is_not_its_own(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentsError, match="path of this machine"):
        open_filesystem(str(tmp_path)).list_files("hdfs://namenode/w")
    with pytest.raises(InvalidArgumentsError, match="serves memory"):
        open_filesystem("memory://x/w").list_files("hdfs://namenode/w")
    with pytest.raises(InvalidArgumentsError, match="path of this machine"):
        open_filesystem(str(tmp_path)).list_files("file://otherhost/w")


def test_a_rename_does_not_copy_from_one_filesystem_to_another(tmp_path: Path) -> None:
    fs = AnyFilesystem()
    fill(fs, str(tmp_path), "a/f")
    with pytest.raises(InvalidArgumentsError, match="different filesystems"):
        fs.rename_directory(f"{tmp_path}/a", "memory://x/a")
    with pytest.raises(InvalidArgumentsError, match="different filesystems"):
        fs.gather({"f": f"{tmp_path}/a/f"}, "memory://x/a")
    assert fs.exists(f"{tmp_path}/a/f")
