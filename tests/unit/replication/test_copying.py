"""Copies: verified on both sides, gone on with, and refused where the source is not what was said."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_hive_acid.errors import CopyFailedError, CorruptDumpError, UnsafePathError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.replication.dumps.copies import BUFFER, FileCopy, checksum_of, copy_files

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

FS = AnyFilesystem()


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Faulty:
    """A filesystem that writes other bytes than it was given, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(FS, name)

    def local_path(self, uri: str) -> str | None:
        return None

    def open_output(self, uri: str) -> BinaryIO:
        inner = FS.open_output(uri)
        if self.times > 0:
            self.times -= 1
            inner.write(b"?")
            inner.seek(0)
            return cast("BinaryIO", _Deaf(inner))
        return inner


class _Deaf(io.RawIOBase):
    """Takes bytes and drops the first."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._inner.write(b"!" + bytes(data)[1:])
        return len(data)

    def close(self) -> None:
        self._inner.close()
        super().close()


def copies(root: Path, contents: dict[str, bytes], *, known: bool = False, scheme: str = "file:") -> list[FileCopy]:
    made = []
    for name, content in contents.items():
        source = root / "source" / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(content)
        target = f"{scheme}{root}/target/{name}"
        made.append(FileCopy(f"file:{source}", target, len(content), sha(content) if known else None))
    return made


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("scheme", ["file:", "memory://bucket"])
def test_every_file_arrives_and_its_checksum_is_told(tmp_path: Path, known: bool, scheme: str) -> None:
    contents = {"a": b"", "b/c": b"x" * 10, "b/d": bytes(range(256)) * (BUFFER // 128), "ä b%2F": b"1"}
    # All of one process share that memory, and a directory of tests may be used again.
    own = f"{scheme}-{known}" if scheme.startswith("memory") else scheme
    files = copies(tmp_path, contents, known=known, scheme=own)
    seen: list[str] = []
    report = copy_files(FS, FS, files, threads=3, on_file=lambda file: seen.append(file.target))
    assert sorted(seen) == sorted(f.target for f in files)
    assert (report.files, report.reused, report.bytes) == (4, 0, sum(map(len, contents.values())))
    assert report.checksums == {f.target: sha(c) for f, c in zip(files, contents.values(), strict=True)}
    for file, content in zip(files, contents.values(), strict=True):
        with FS.open_input(file.target) as stream:
            assert stream.read() == content


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
def test_whole_files_of_an_attempt_before_are_kept_and_others_are_not(tmp_path: Path, known: bool) -> None:
    files = copies(tmp_path, {"whole": b"abc", "short": b"abc", "long": b"abc", "other": b"abc"}, known=known)
    target = tmp_path / "target"
    target.mkdir()
    for name, content in {"whole": b"abc", "short": b"ab", "long": b"abcd", "other": b"abd"}.items():
        (target / name).write_bytes(content)
    report = copy_files(FS, FS, files, threads=1)
    assert (report.files, report.reused, report.bytes) == (4, 1, 9)
    assert {f.name: f.read_bytes() for f in target.iterdir()} == dict.fromkeys(
        ("whole", "short", "long", "other"), b"abc"
    )


def test_a_source_that_is_not_the_one_of_its_checksum_is_refused(tmp_path: Path) -> None:
    file = copies(tmp_path, {"a": b"abc"}, known=True)[0]
    (tmp_path / "source/a").write_bytes(b"abd")
    with pytest.raises(CorruptDumpError, match="not the file that was exported"):
        copy_files(FS, FS, [file])


@pytest.mark.parametrize("change", ["longer", "shorter", "gone"])
def test_a_source_that_changes_is_told(tmp_path: Path, change: str) -> None:
    file = copies(tmp_path, {"a": b"abc"})[0]
    source = tmp_path / "source/a"
    source.unlink() if change == "gone" else source.write_bytes(b"abcd" if change == "longer" else b"")
    with pytest.raises(CopyFailedError, match="changed while it was copied"):
        copy_files(FS, FS, [file])


def test_links_are_neither_read_nor_written_through(tmp_path: Path) -> None:
    file = copies(tmp_path, {"a": b"abc"})[0]
    secret = tmp_path / "secret"
    secret.write_bytes(b"xyz")
    (tmp_path / "target").mkdir()
    (tmp_path / "target/a").symlink_to(secret)
    with pytest.raises(UnsafePathError, match="symbolic link"):
        copy_files(FS, FS, [file])
    assert secret.read_bytes() == b"xyz"
    (tmp_path / "target/a").unlink()
    (tmp_path / "source/a").unlink()
    (tmp_path / "source/a").symlink_to(secret)
    with pytest.raises(UnsafePathError, match="symbolic link"):
        copy_files(FS, FS, [file])


def test_what_does_not_arrive_as_it_was_sent_is_sent_once_more(tmp_path: Path) -> None:
    file = copies(tmp_path, {"a": b"abc"})[0]
    faulty: Any = Faulty(1)
    assert copy_files(FS, faulty, [file]).checksums == {file.target: sha(b"abc")}
    assert checksum_of(FS, file.target) == sha(b"abc")
    (tmp_path / "target/a").unlink()
    faulty = Faulty(2)
    with pytest.raises(CopyFailedError, match="twice"):
        copy_files(FS, faulty, [file])


def test_after_the_first_error_nothing_new_is_begun(tmp_path: Path) -> None:
    files = copies(tmp_path, {f"f{i:03d}": b"x" for i in range(200)})
    (tmp_path / "source/f000").unlink()
    started: list[str] = []
    with pytest.raises(CopyFailedError):
        copy_files(FS, FS, files, threads=2, on_file=lambda file: started.append(file.target))
    assert len(started) < 199
