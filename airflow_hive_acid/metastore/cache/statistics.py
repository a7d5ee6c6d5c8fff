"""What a cache can say of itself: how many reads it answered, from where the others were, and how far it is behind."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """One look at a cache.

    :param state: ``off``, ``following`` or ``behind``.
    :param hits: reads answered from memory.
    :param missing: reads of what was not in memory; the others below went to the database although there was an entry.
    :param stale: the reader's list was newer than the entry.
    :param older: the reader's list was older; ``unconfirmed`` the entry waits for the log; ``replaced`` the name
        belongs to another table id; ``behind`` there was no look at the log for too long; ``off`` nobody follows.
    :param entries: tables, databases and lists in memory; ``bytes`` of ``max_bytes``.
    :param position: last event processed, None while nobody follows.
    :param lag_events: events of the log after it; None if it is not known.
    :param lag_seconds: since the last successful look, None before the first.
    :param restarts: how often everything was forgotten, ``restarted_because`` of what at last.
    """

    state: Literal["off", "following", "behind"]
    hits: int = 0
    missing: int = 0
    stale: int = 0
    older: int = 0
    unconfirmed: int = 0
    replaced: int = 0
    behind: int = 0
    off: int = 0
    entries: int = 0
    bytes: int = 0
    max_bytes: int = 0
    evictions: int = 0
    position: int | None = None
    lag_events: int | None = None
    lag_seconds: float | None = None
    rounds: int = 0
    events: int = 0
    refreshed: int = 0
    failures: int = 0
    last_failure: str | None = None
    restarts: int = 0
    restarted_because: str | None = None

    @property
    def reads(self) -> int:
        """All reads."""
        others = (self.missing, self.stale, self.older, self.unconfirmed, self.replaced, self.behind, self.off)
        return self.hits + sum(others)

    @property
    def hit_ratio(self) -> float | None:
        """Part of the reads that were answered from memory, None before the first."""
        return self.hits / self.reads if self.reads else None

    def to_document(self) -> dict[str, str | int | float | None]:
        """Plain JSON values."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"hit_ratio": self.hit_ratio}
