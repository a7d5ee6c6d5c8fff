"""Files of a spool have the rights of their directory, with every umask."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format import spool_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(("directory", "file"), [(0o700, 0o600), (0o770, 0o660), (0o755, 0o644), (0o777, 0o666)])
def test_the_directory_decides_who_may_read_and_write(tmp_path: Path, directory: int, file: int) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    spool.chmod(directory)
    spool_files.write(str(spool / "new"), "é")
    spool_files.replace(str(spool / "there"), "1")
    spool_files.replace(str(spool / "there"), "2")
    spool_files.make_directory(str(spool / "stream"))
    spool_files.make_directory(str(spool / "stream"))
    spool_files.make_directory(f"{spool}/X/")
    expected = {"new": file, "there": file, "stream": directory, "X": directory}
    assert {p.name: rights(p) for p in spool.iterdir()} == expected
    assert ((spool / "new").read_text(), (spool / "there").read_text()) == ("é", "2")


@pytest.mark.usefixtures("umask")
def test_a_spool_that_is_not_there_is_made_for_its_owner(tmp_path: Path) -> None:
    spool_files.make_directory(str(tmp_path / "spool" / "stream"))
    assert {rights(tmp_path / "spool"), rights(tmp_path / "spool" / "stream")} == {0o700}


def test_what_is_there_is_not_written_over_nor_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("whole")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("mine", "link"):
        with pytest.raises(FileExistsError):
            spool_files.write(str(tmp_path / name), "other")
    assert (tmp_path / "mine").read_text() == "whole"
    assert not (tmp_path / "elsewhere").exists()


def test_nobody_may_look_before_the_rights_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    seen = []
    monkeypatch.setattr(
        os, "fchmod", lambda descriptor, mode: seen.append((stat.S_IMODE(os.fstat(descriptor).st_mode), mode))
    )
    spool_files.write(str(tmp_path / "new"), "x")
    assert seen == [(0o600, 0o644)]


def test_nobody_may_enter_a_directory_before_its_rights_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(0)
    seen = []
    monkeypatch.setattr(os, "chmod", lambda path, mode: seen.append((stat.S_IMODE(os.stat(path).st_mode), mode)))
    try:
        spool_files.make_directory(str(tmp_path / "stream"))
    finally:
        os.umask(before)
    assert seen == [(0o700, 0o755)]


def test_a_file_whose_rights_cannot_be_set_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def refuse(descriptor: int, _: int) -> None:
        opened.append(descriptor)
        raise PermissionError("not yours")

    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(PermissionError, match="not yours"):
        spool_files.create(str(tmp_path / "new"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_a_file_that_could_not_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(IsADirectoryError):
        spool_files.replace(str(tmp_path / "there"), "1")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    with pytest.raises(FileNotFoundError):
        spool_files.replace(str(tmp_path / "none" / "file"), "1")


def test_a_name_without_a_directory_is_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o750)
    monkeypatch.chdir(tmp_path)
    spool_files.write("new", "x")
    assert rights(tmp_path / "new") == 0o640


def test_a_text_is_utf_8_in_every_locale(tmp_path: Path) -> None:
    """Both ends read it, and a driver in a bare container has the locale C."""
    spool_files.write(str(tmp_path / "here"), "h\xe9\r\n")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code = (
        "import sys; from airflow_hive_acid.format import spool_files; spool_files.write(sys.argv[1], 'h\\xe9\\r\\n')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], env=os.environ | locale, check=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("here", "there"), b"h\xc3\xa9\r\n"
    )
