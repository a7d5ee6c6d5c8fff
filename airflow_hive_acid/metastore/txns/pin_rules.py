"""Pins as values: named snapshots of tables, and when they end.

A pin keeps what a reader of its moment saw, until it is dropped, expires, or holds back more bytes than it may. Ending
has two steps: from the first on nobody may begin to read by it, with the second, when those who had begun are done,
what was kept for it may go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import may_be_same
from airflow_hive_acid.metastore.names.objects import shorten

if TYPE_CHECKING:
    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

AGENT = "hive-acid pin"
"""How the agent information of a pin's txn begins."""
_LONGEST_COMMENT = 4000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ .:/+-]{0,127}")


class PinState(Enum):
    """How far a pin is."""

    ACTIVE = "a"
    ENDED = "e"
    SETTLED = "s"


@dataclass(frozen=True, slots=True)
class Pin:
    """A pin.

    :param txn_id: the open txn by which a real Hive knows of it.
    :param created: milliseconds since 1970 by the database's clock, as ``expires``, ``ended`` and ``now``.
    :param max_bytes: it is dropped when it holds back more; None: it may hold back any number.
    :param held_bytes: what the Cleaner has left for it, when it last looked.
    :param tables: ``db.table`` of each.
    :param reason: why it has ended.
    :param txn_open: whether its txn is still open, so that a real Hive's Cleaner honours it.
    """

    id: int
    name: str
    state: PinState
    txn_id: int
    created: int
    expires: int
    max_bytes: int | None
    held_bytes: int
    user: str
    comment: str | None
    tables: tuple[str, ...]
    ended: int | None
    end_txn: int | None
    reason: str | None
    txn_open: bool
    now: int

    def __str__(self) -> str:
        return f"pin '{self.name}'"

    @property
    def until(self) -> str:
        """When it expires, for people."""
        return moment(self.expires)

    def to_document(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "name": self.name, "state": self.state.name.lower(), "tables": list(self.tables), "user": self.user,
            "comment": self.comment, "created": moment(self.created), "expires": self.until,
            "held_bytes": self.held_bytes, "max_bytes": self.max_bytes, "txn_id": self.txn_id,
            "honoured_by_hive": self.txn_open, "reason": self.reason,
            "ended": None if self.ended is None else moment(self.ended),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """What a pin sees of a table.

    :param partitions: those that were there; None for a table without partitions.
    """

    pin: Pin
    table: str
    txns: ValidTxnList
    write_ids: ValidWriteIdList
    partitions: tuple[PartitionRef, ...] | None

    def sees(self, partition: str | None) -> bool:
        """Whether the partition of this name was there; an unpartitioned table always was."""
        if self.partitions is None:
            return True
        return partition is not None and any(may_be_same(p.name, partition) for p in self.partitions)


def moment(milliseconds: int) -> str:
    """A point in time, for people."""
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def checked_name(name: object) -> str:
    """The name of a pin.

    :raises InvalidArgumentsError: when it is none.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name != name.strip():
        raise InvalidArgumentsError(
            f"name: {name!r} is no name of a pin; letters, digits, blanks and _ . : / + - are, at most 128 of them"
        )
    return name


def checked_duration_ms(seconds: object) -> int:
    """How long a pin lasts, in milliseconds.

    :raises InvalidArgumentsError: when it is no time, or longer than ten years.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 1 <= seconds <= 315_360_000:
        raise InvalidArgumentsError(f"expires: {seconds!r} must be seconds from now, from 1 to 315,360,000 (10 years)")
    return round(seconds * 1000)


def checked_budget(most_bytes: object) -> int | None:
    """How many bytes a pin may hold back.

    :raises InvalidArgumentsError: when it is no number of bytes.
    """
    if most_bytes is None:
        return None
    if isinstance(most_bytes, bool) or not isinstance(most_bytes, int) or most_bytes < 1:
        raise InvalidArgumentsError(f"max_bytes: {most_bytes!r} must be a number of bytes, at least 1, or left out")
    return most_bytes


def checked_comment(comment: object) -> str | None:
    """What a pin is for.

    :raises InvalidArgumentsError: when it is no text, or one that no database keeps.
    """
    if comment is None:
        return None
    if not isinstance(comment, str) or "\0" in comment or len(comment) > _LONGEST_COMMENT:
        raise InvalidArgumentsError(
            f"comment: {shorten(repr(comment))} must be text of at most {_LONGEST_COMMENT:,} characters, without NUL"
        )
    return comment


def overdue(pin: Pin) -> str | None:
    """Why an active pin has to end now, if it has to."""
    if pin.expires <= pin.now:
        return f"it expired on {pin.until}"
    if not pin.txn_open:
        return (
            f"its txn {pin.txn_id} was aborted from outside, so that a real Hive's Cleaner may have removed what it "
            "needs; pin again what is there"
        )
    if pin.max_bytes is not None and pin.held_bytes > pin.max_bytes:
        return f"it held back {pin.held_bytes:,} bytes from cleaning, and may hold back {pin.max_bytes:,} (max_bytes)"
    return None
