"""What is not found is looked for once more behind the proof that its place is there (R17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import WarehouseMissingError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.filesystem.absence import delete_or_prove, is_absent, list_or_prove

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.rule("R17")


class Disk:
    """A directory that may be away, with a table in it."""

    def __init__(self, root: Path) -> None:
        self.place, self.away = root / "disk", root / "away"
        (self.place / "t").mkdir(parents=True)
        (self.place / "t" / "f").write_text("x")
        self.uri = (self.place / "t").as_uri()
        self.fs = open_filesystem(self.uri)
        self.proofs = 0

    def unmount(self) -> None:
        self.place.rename(self.away)

    def mount(self) -> None:
        """The proof that comes too late: the disk is there by now."""
        self.proofs += 1
        self.away.rename(self.place)

    def refuse(self) -> None:
        self.proofs += 1
        raise WarehouseMissingError("it is not mounted")


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


LOOKS: dict[str, Callable[[Disk, Callable[[], object]], object]] = {
    "exists": lambda disk, proof: not is_absent(disk.fs, disk.uri, proof),
    "list": lambda disk, proof: [i.name for i in list_or_prove(disk.fs, [disk.uri], proof)[disk.uri] or ()] == ["f"],
    "delete": lambda disk, proof: delete_or_prove(disk.fs, disk.uri, inside=disk.place.as_uri(), proof=proof),
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_there_needs_no_proof(disk: Disk, look: str) -> None:
    assert LOOKS[look](disk, disk.refuse)
    assert disk.proofs == 0


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_not_found_on_a_disk_that_is_away_is_no_answer(disk: Disk, look: str) -> None:
    disk.unmount()
    with pytest.raises(WarehouseMissingError):
        LOOKS[look](disk, disk.refuse)


@pytest.mark.parametrize("look", LOOKS)
def test_what_comes_with_its_disk_before_the_proof_is_found(disk: Disk, look: str) -> None:
    disk.unmount()
    assert LOOKS[look](disk, disk.mount)
    assert disk.proofs == 1


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_proved_to_be_absent_is_absent(disk: Disk, look: str) -> None:
    (disk.place / "t" / "f").unlink()
    (disk.place / "t").rmdir()
    assert not LOOKS[look](disk, lambda: None)
