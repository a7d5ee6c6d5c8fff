"""Files of a spool have the rights of their directory, with every umask."""

from __future__ import annotations

import os
import stat
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
    assert {p.name: rights(p) for p in spool.iterdir()} == {"new": file, "there": file, "stream": directory}
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
