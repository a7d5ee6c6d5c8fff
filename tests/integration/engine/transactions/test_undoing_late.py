"""Two undo the same job of a table without transactions; the slower one takes nothing from the next try.

t1  A has published, and was given up; B begins to undo it, and falls asleep
t2              C undoes it to the end
t3                          the next try publishes files of the same names, as an import does
t4  B wakes up, and goes on
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.filesystem.plain_publishing import MovedFile, PlainManifest, publish_files, undo_fenced
from tests.integration.engine.crashes.crashing import Process, effects_counted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.rule("R4"), pytest.mark.rule("R17"), pytest.mark.every_database]
NAME = "000000_0"


def publish(table: Path, job: str, *, replaced: bool) -> tuple[str, PlainManifest]:
    """One try: what it writes is its job's name."""
    staging = table / f"_tmp_{job}"
    (staging / "data" / "files").mkdir(parents=True)
    (staging / "data" / "files" / NAME).write_text(job)
    old = (f"{table.as_uri()}/{NAME}",) if replaced else ()
    manifest = PlainManifest("w.t", job, (MovedFile("", table.as_uri(), NAME, len(job)),), old)
    publish_files(LocalFilesystem(), staging.as_uri(), manifest)
    return staging.as_uri(), manifest


@pytest.mark.parametrize("replaced", [False, True], ids=["into an empty table", "over a file of that name"])
def test_who_undoes_late_takes_nothing_from_the_next_try(tmp_path: Path, monkeypatch: Any, replaced: bool) -> None:
    stop, stopped = 0, True
    with effects_counted(monkeypatch):
        while stopped:
            stop += 1
            table = tmp_path / f"t{stop}"
            table.mkdir()
            if replaced:
                (table / NAME).write_text("old")
            staging, manifest = publish(table, "first", replaced=replaced)

            def undo(staging: str = staging, manifest: PlainManifest = manifest, table: Path = table) -> None:
                assert undo_fenced(LocalFilesystem(), staging, manifest, table.as_uri(), "given up")

            late = Process(undo, stop, sleeps=True)
            late.start()
            stopped = late.stopped
            undo()
            assert [p.read_text() for p in table.iterdir() if not p.name.startswith("_")] == ["old"] * replaced
            publish(table, "next", replaced=replaced)
            late.wake()
            assert (table / NAME).read_text() == "next", late.done
    assert stop > 3


@pytest.mark.parametrize("replaced", [False, True], ids=["into an empty table", "over a file of that name"])
def test_who_is_killed_while_undoing_leaves_the_rest_to_the_next_pass(
    tmp_path: Path, monkeypatch: Any, replaced: bool
) -> None:
    stop, stopped = 0, True
    with effects_counted(monkeypatch):
        while stopped:
            stop += 1
            table = tmp_path / f"t{stop}"
            table.mkdir()
            if replaced:
                (table / NAME).write_text("old")
            staging, manifest = publish(table, "first", replaced=replaced)
            for at in (stop, 0):
                one = Process(
                    lambda s=staging, m=manifest, t=table: undo_fenced(LocalFilesystem(), s, m, t.as_uri(), "given up"),  # type: ignore[misc]
                    at,
                )
                one.start()
                stopped = stopped and (one.stopped or at == 0)
            assert [p.read_text() for p in table.iterdir() if not p.name.startswith("_")] == ["old"] * replaced
            assert [p.name for p in table.iterdir() if p.is_dir()] == []


def test_a_move_that_was_stopped_between_its_two_names_is_undone(tmp_path: Path) -> None:
    """A local move makes a second name, then takes the first away."""
    table = tmp_path / "t"
    table.mkdir()
    staging, manifest = publish(table, "first", replaced=False)
    (table / "_tmp_first" / "data" / "files" / NAME).hardlink_to(table / NAME)
    assert undo_fenced(LocalFilesystem(), staging, manifest, table.as_uri(), "given up")
    assert [p.name for p in table.iterdir()] == ["_tmp_first"]
