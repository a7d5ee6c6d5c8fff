"""What a sync of ACID tables tells of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a sync did with a table.

    :param table: at the replica; ``source`` at the source: ``db.table``.
    :param directories: that arrived, of which Spark made ``carried`` out of others; ``files`` were copied as they are.
    :param bytes: of all files that came; what an attempt before had copied is not counted again.
    :param bootstrapped: whether it began with nothing, and why in ``reasons``.
    :param high_watermark: largest write id that came.
    """

    table: str
    source: str
    directories: int = 0
    files: int = 0
    bytes: int = 0
    carried: int = 0
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    bootstrapped: bool = False
    high_watermark: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did: the replica's tables are at ``state_id``, an event of the source."""

    policy: str
    state_id: int
    tables: tuple[TableReport, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes that travelled."""
        return sum(t.bytes for t in self.tables)
