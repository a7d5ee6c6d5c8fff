"""What pins keep of a directory that is being cleaned: exactly what they read, and nothing else.

Each pin has the lists of its moment; what it reads of a listing is decided as for any reader. If that cannot be said,
everything there stays (R17).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CorruptTableError, SnapshotTooOldError
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.maintenance.warehouse.directories import entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Self

    from airflow_hive_acid.filesystem import FileInfo
    from airflow_hive_acid.format.acid_state import AcidState
    from airflow_hive_acid.metastore.compaction import Resource
    from airflow_hive_acid.metastore.txns import Pin, PinnedTable


@dataclass(slots=True)
class HeldByPins:
    """What pins read of a table or partition, and what of it nobody else needs any more.

    :param needed: names of directories and paths of files outside of them that each pin reads; None: it may need all.
    :ivar paths: URIs of what only pins still need.
    """

    needed: tuple[tuple[Pin, frozenset[str] | None], ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    _held: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, pins: Iterable[PinnedTable], resource: Resource, listing: Sequence[FileInfo]) -> Self:
        """What the pins of a table read of this listing."""
        needed: list[tuple[Pin, frozenset[str] | None]] = []
        for pinned in pins:
            if not pinned.sees(resource.partition):
                continue
            try:
                state = acid_state(entries(listing), pinned.write_ids, pinned.txns)
            except (SnapshotTooOldError, CorruptTableError):
                needed.append((pinned.pin, None))
                continue
            needed.append((pinned.pin, names_read(state)))
        sizes: dict[str, int] = {}
        for info in listing if needed else ():
            if not info.is_dir:
                top = info.relative.partition("/")[0]
                for name in {top, info.relative}:
                    sizes[name] = sizes.get(name, 0) + info.size
        return cls(tuple(needed), sizes)

    def note(self, superfluous: Iterable[str], by_path: Mapping[str, FileInfo]) -> set[str]:
        """Those of the superfluous directories and files that stay for pins."""
        kept = {name for name in superfluous if any(n is None or name in n for _, n in self.needed)}
        self._held |= {name: by_path[name].path for name in kept if name in by_path}
        return kept

    @property
    def names(self) -> frozenset[str]:
        """Names of directories and paths of files that only pins still need."""
        return frozenset(self._held)

    @property
    def paths(self) -> list[str]:
        """URIs of what only pins still need."""
        return [self._held[name] for name in sorted(self._held)]

    @property
    def bytes(self) -> int:
        """Size of that."""
        return sum(self.sizes.get(name, 0) for name in self._held)

    @property
    def of_pin(self) -> dict[int, tuple[int, int]]:
        """By id of the pin, number and bytes of what it holds back; what several hold back counts for each."""
        found = {}
        for pin, needed in self.needed:
            names = [name for name in self._held if needed is None or name in needed]
            if names:
                found[pin.id] = len(names), sum(self.sizes.get(name, 0) for name in names)
        return found

    @property
    def blockers(self) -> tuple[str, ...]:
        """The pins that hold something back, for people."""
        held = self.of_pin
        return tuple(f"{pin} until {pin.until}" for pin, _ in self.needed if pin.id in held)

    def __str__(self) -> str:
        """What is to be said behind what was done."""
        if not self._held:
            return ""
        return f"; {len(self._held)} ({self.bytes:,} bytes) held back by {', '.join(self.blockers)}"


def names_read(state: AcidState) -> frozenset[str]:
    """Names of the directories that a reader of a state reads, and paths of the files outside of them."""
    directories = (d.name for d in (*state.inserts, *state.deletes))
    return frozenset([*directories, *(file.path for file in state.originals)])


NOTHING_HELD = HeldByPins()
"""Without pins."""
