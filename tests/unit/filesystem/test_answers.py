"""Only FileNotFoundError means absent (R17, R4): every verb of a filesystem x everything that a storage can say."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from airflow_hive_acid.errors import StorageUnavailableError
from airflow_hive_acid.filesystem import Filesystem, fence_staging, list_many, open_filesystem
from airflow_hive_acid.filesystem.answers import Answers, Proof

from .name_node import AUTHORITY, FAILURES, NameNode, name_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

T = f"hdfs://{AUTHORITY}/w/t"
VERBS: dict[str, Callable[[Any], object]] = {
    "exists": lambda fs: fs.exists(f"{T}/absent"),
    "exists, of what is there": lambda fs: fs.exists(f"{T}/f"),
    "list_files": lambda fs: fs.list_files(T),
    "list_files, all": lambda fs: fs.list_files(T, recursive=True),
    "list_many": lambda fs: list_many(fs, [T, f"{T}/d", f"{T}/absent"]),
    "rename_directory": lambda fs: fs.rename_directory(f"{T}/d", f"{T}/e"),
    "rename": lambda fs: fs.rename(f"{T}/f", f"{T}/g"),
    "replace_file": lambda fs: fs.replace_file(f"{T}/f", f"{T}/other"),
    "delete": lambda fs: fs.delete(f"{T}/d", inside=T),
    "delete, of nothing": lambda fs: fs.delete(f"{T}/absent", inside=T),
    "read_text": lambda fs: fs.read_text(f"{T}/f"),
    "read_range": lambda fs: fs.read_range(f"{T}/f", 0, 2),
    "write_text": lambda fs: fs.write_text(f"{T}/f", "new"),
    "create_file": lambda fs: fs.create_file(f"{T}/new", "new"),
    "make_directory": lambda fs: fs.make_directory(f"{T}/new"),
    "open_input": lambda fs: fs.open_input(f"{T}/f").read(),
    "fence_staging": lambda fs: fence_staging(fs, f"{T}/_tmp_1", inside=T, note="fenced"),
    "fence_staging, of nothing": lambda fs: fence_staging(fs, f"{T}/_tmp_2", inside=T, note="fenced"),
}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NameNode]:
    with name_node(tmp_path / "hdfs") as node:
        conf = {"user": "hive", "namenodes": {AUTHORITY: f"127.0.0.1:{node.port}"}}
        monkeypatch.setitem(fsspec.config.conf, "webhdfs", conf)
        fill(node)
        yield node


def fill(node: NameNode) -> None:
    shutil.rmtree(node.root)
    table = node.root / "w" / "t"
    (table / "d").mkdir(parents=True)
    (table / "_tmp_1" / "data" / "delta_1").mkdir(parents=True)
    (table / "f").write_text("text")
    (table / "other").write_text("other")


@pytest.mark.rule("R17")
@pytest.mark.rule("R4")
def test_a_storage_without_an_answer_is_an_error_of_every_verb_and_nothing_is_changed(node: NameNode) -> None:
    """Each verb x each failure; then the same verb works, so that it was the failure that stopped it."""
    files = open_filesystem(T)
    before = node.tree()
    for failure in FAILURES:
        with node.failing(failure):
            for name, verb in VERBS.items():
                node.asked = 0
                with pytest.raises(StorageUnavailableError):
                    verb(files)
                assert node.asked or failure == "closed", (name, failure)
                assert node.tree() == before, (name, failure)
    for verb in VERBS.values():
        verb(files)
        fill(node)


def test_what_a_data_node_says_in_place_of_bytes_is_no_content(node: NameNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name node answers, the data node that it names does not."""
    from .name_node import _Handler

    def redirect(self: Any, path: Path, query: dict[str, str], _body: bytes) -> None:
        if "there" in query:
            self._send(403, b"<html>expired token</html>")
        else:
            self._send(307, b"", Location=f"http://127.0.0.1:{node.port}{self.path}&there=1")

    monkeypatch.setattr(_Handler, "_op_open", redirect)
    with pytest.raises(StorageUnavailableError, match="403"):
        open_filesystem(T).read_text(f"{T}/f")


class Libhdfs:
    """fsspec's adapter of libhdfs: whatever goes wrong is "not found"."""

    def __init__(self, names: dict[str, list[str]], dead: bool = False) -> None:
        self.names, self.dead = names, dead

    def info(self, path: str) -> dict[str, str]:
        parent, _, name = path.rpartition("/")
        if self.dead or name not in self.names.get(parent or "/", []):
            raise FileNotFoundError(errno.ENOENT, path)
        return {"name": path, "type": "directory" if path in self.names else "file"}

    def ls(self, path: str, detail: bool) -> list[dict[str, str]]:
        if self.dead or path not in self.names:
            raise FileNotFoundError(errno.ENOENT, path)
        return [{"name": f"{path.rstrip('/')}/{name}", "type": "file"} for name in self.names[path]]


@pytest.mark.rule("R17")
def test_what_libhdfs_does_not_find_is_absent_only_when_a_directory_above_it_says_so() -> None:
    names = {"/": ["w"], "/w": ["t"], "/w/t": ["f"]}
    asked = Answers(Libhdfs(names), Proof.LISTED_PARENT)
    assert (asked.kind("/w/t"), asked.kind("/w/t/f")) == ("directory", "file")
    assert [asked.kind(path) for path in ("/w/t/g", "/w/x/y/z", "/x")] == [None, None, None]
    with pytest.raises(FileNotFoundError):
        asked.listing("/w/x")
    dead = Answers(Libhdfs(names, dead=True), Proof.LISTED_PARENT)
    for path in ("/w/t/f", "/w/t/g", "/w", "/x"):
        with pytest.raises(StorageUnavailableError, match="neither was the root"):
            dead.kind(path)
        with pytest.raises(StorageUnavailableError, match="neither was the root"):
            dead.listing(path)


@pytest.mark.rule("R17")
def test_what_libhdfs_does_not_find_although_its_parent_holds_it_is_not_known() -> None:
    class Flickering(Libhdfs):
        """Fails once."""

        def info(self, path: str) -> dict[str, str]:
            raise FileNotFoundError(errno.ENOENT, path)

    with pytest.raises(StorageUnavailableError, match="holds it"):
        Answers(Flickering({"/": ["w"], "/w": ["t"]}), Proof.LISTED_PARENT).kind("/w/t")


class Bucket:
    """An object store that answers with one error, as s3fs gives it."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def _fail(self, *_: object, **__: object) -> None:
        raise self.error

    info = ls = find = _fail


class ClientError(Exception):
    """As botocore has it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


def _caused(error: Exception, code: str) -> Exception:
    error.__cause__ = ClientError(code)
    return error


@pytest.mark.rule("R17")
@pytest.mark.parametrize(
    "error",
    [
        _caused(FileNotFoundError("The specified bucket does not exist"), "NoSuchBucket"),
        _caused(PermissionError("Access Denied"), "AccessDenied"),
        PermissionError("Forbidden"),
        _caused(OSError(errno.EBUSY, "Reduce your request rate"), "SlowDown"),
        TimeoutError("timed out"),
        RuntimeError("no credentials"),
    ],
    ids=["NoSuchBucket", "AccessDenied", "403", "SlowDown", "timeout", "no credentials"],
)
def test_an_object_store_that_refuses_says_nothing_of_its_objects(error: Exception) -> None:
    asked = Answers(Bucket(error))
    for ask in (asked.kind, asked.listing, asked.objects):
        with pytest.raises(StorageUnavailableError):
            ask("bucket/w/t")


def test_an_object_store_says_what_is_absent() -> None:
    asked = Answers(Bucket(_caused(FileNotFoundError("no key"), "NoSuchKey")))
    assert asked.kind("bucket/w/t") is None


@pytest.mark.rule("R17")
@pytest.mark.parametrize("code", [errno.EACCES, errno.ESTALE, errno.EIO, errno.ELOOP])
def test_a_local_disk_that_fails_says_nothing_of_its_files(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``os.path.lexists`` and ``isdir`` answer "no" to a stale handle of NFS."""
    files: Filesystem = open_filesystem(f"file:{tmp_path}")
    table, lstat = f"file:{tmp_path}/t", os.lstat
    (tmp_path / "t" / "_tmp_1").mkdir(parents=True)

    def fail(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        if str(path).startswith(f"{tmp_path}/t"):
            raise OSError(code, os.strerror(code), str(path))
        return lstat(path, *args, **kwargs)

    monkeypatch.setattr(os, "lstat", fail)
    monkeypatch.setattr(os, "stat", fail)
    for verb in (
        lambda: files.exists(table),
        lambda: fence_staging(files, f"{table}/_tmp_1", inside=table, note="fenced"),
        lambda: files.rename(f"{table}/_tmp_1", f"{table}/x"),
        lambda: files.rename_directory(f"{table}/_tmp_1", f"{table}/x"),
        lambda: files.delete(f"{table}/_tmp_1", inside=table),
    ):
        with pytest.raises(OSError, match=os.strerror(code)):
            verb()
    monkeypatch.undo()
    assert files.list_files(table, recursive=True)[0].is_dir
    assert not files.exists(f"{table}/_tmp_1/x")
    assert not files.exists(f"{table}/x/y")
