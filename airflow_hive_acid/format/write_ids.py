"""Snapshots as lists: which txns and which write ids a reader may see, with the exact texts Hive exchanges.

``ValidTxnList`` is Hive's ValidReadTxnList, ``ValidWriteIdList`` its ValidReaderWriteIdList; compactor and Cleaner
see a table through stricter variants of the same text. Everything up to the high-water mark is valid except the ids
listed as open or aborted. The fold functions make the lists from rows of TXNS and TXN_TO_WRITE_ID (Hive's
getOpenTxns, createValidReadTxnList, getValidWriteIds). Keeps R11: a txn that has a write id at or below the mark, but
was not seen in TXNS when the snapshot was taken, can be counted as open.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.id_ranges import NO_IDS, IdRanges

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from typing_extensions import Self

MAX_ID = 2**63 - 1
"""Stands for "no open id" and "no high-water mark" in the texts."""
TXN_TYPE_DEFAULT = 0
TXN_TYPE_READ_ONLY = 2
_READ_ONLY = frozenset({TXN_TYPE_READ_ONLY})
_RANGE_LENGTH = 5


class RangeValidity(Enum):
    """How many ids of a range a snapshot may see."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


@dataclass(frozen=True)
class _IdList:
    """What txn lists and write id lists share.

    :param high_watermark: nothing above it is valid.
    :param open: ids at or below the high-water mark that were open when the snapshot was taken; kept as ranges, so
        that a wide gap costs nothing.
    :param aborted: ids at or below the high-water mark that are aborted.
    :param min_open: smallest open id; may be given where the list itself no longer holds it (a compactor's list).
    """

    high_watermark: int
    open: AbstractSet[int] = NO_IDS
    aborted: AbstractSet[int] = NO_IDS
    min_open: int | None = None

    def __post_init__(self) -> None:
        opened = IdRanges.of(self.open)
        object.__setattr__(self, "open", opened)
        object.__setattr__(self, "aborted", IdRanges.of(self.aborted))
        if self.min_open is None:
            object.__setattr__(self, "min_open", opened.first)

    @property
    def open_ids(self) -> IdRanges:
        """The open ids as what they are kept as."""
        return IdRanges.of(self.open)

    @property
    def aborted_ids(self) -> IdRanges:
        """The aborted ids as what they are kept as."""
        return IdRanges.of(self.aborted)

    @property
    def first_open_or_next(self) -> int:
        """The smallest listed open id, or the one after the high-water mark."""
        first = self.open_ids.first
        return self.high_watermark + 1 if first is None else first

    def is_valid(self, id_: int) -> bool:
        """Whether what this id wrote may be seen."""
        return id_ <= self.high_watermark and id_ not in self.exceptions

    def is_aborted(self, id_: int) -> bool:
        """Whether this id is known to be aborted."""
        return id_ in self.aborted

    def range_validity(self, low: int, high: int) -> RangeValidity:
        """Whether all, some or none of the ids ``low``..``high`` (both included) are valid."""
        invalid = self._count_invalid(low, high)
        if invalid == 0:
            return RangeValidity.ALL
        return RangeValidity.NONE if invalid == high - low + 1 else RangeValidity.SOME

    def is_range_aborted(self, low: int, high: int) -> bool:
        """Whether every id of ``low``..``high`` is aborted, so that nobody will ever see what they wrote."""
        return self.aborted_ids.count_between(low, high) == high - low + 1

    def is_fully_valid(self, low: int, high: int) -> bool:
        """Whether no id of ``low``..``high`` is hidden, whatever the list is for: rows need no test of their own."""
        return self._count_invalid(low, high) == 0

    def may_come(self, low: int, high: int) -> bool:
        """Whether an id of ``low``..``high`` is open or above the mark: what is aborted never comes."""
        return high > self.high_watermark or self.open_ids.count_between(low, high) > 0

    @cached_property
    def exceptions(self) -> IdRanges:
        """Open and aborted ids, ascending."""
        return self.open_ids | self.aborted_ids

    def _count_invalid(self, low: int, high: int) -> int:
        if low > high:
            raise InvalidArgumentsError(f"the range {low}..{high} is empty")
        above = max(0, high - max(low - 1, self.high_watermark))
        return above + self.exceptions.count_between(low, min(high, self.high_watermark))

    def _min_open_text(self) -> int:
        """Hive prints the smallest open id only if there are exceptions at all."""
        return self.min_open if self.min_open is not None and self.exceptions else MAX_ID


@dataclass(frozen=True)
class ValidTxnList(_IdList):
    """Which txns a snapshot sees; decides which compacted ``_vTXN`` directories exist for it."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``hwm:minOpen:open,…:aborted,…``; runs may be written ``a-b``, empty text means all is valid."""
        return cls(*_parse_fields(text, text.split(":") if text else []))

    def __str__(self) -> str:
        opened, aborted = _with_ranges(self.open_ids), _with_ranges(self.aborted_ids)
        return f"{self.high_watermark}:{self._min_open_text()}:{opened}:{aborted}"


@dataclass(frozen=True)
class ValidWriteIdList(_IdList):
    """Which write ids of one table a reader sees.

    :param table: ``db.table``, None when unknown.
    """

    table: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``db.table:hwm:minOpen:open,…:aborted,…``; empty text means all is valid."""
        table, _, rest = text.partition(":")
        fields = _parse_fields(text, rest.split(":") if rest else [])
        return cls(*fields, None if table in ("", "null") else table)

    def __str__(self) -> str:
        """Every id of its own: Hive's ValidReaderWriteIdList reads no ranges."""
        return self._text(",".join(map(str, self.open)), ",".join(map(str, self.aborted)))

    def short_text(self) -> str:
        """The same with runs as ``a-b``, as txn lists have them: for our own jobs and messages, which read both."""
        return self._text(_with_ranges(self.open_ids), _with_ranges(self.aborted_ids))

    def _text(self, opened: str, aborted: str) -> str:
        return f"{self.table or 'null'}:{self.high_watermark}:{self._min_open_text()}:{opened}:{aborted}"

    def is_valid_base(self, write_id: int) -> bool:
        """Whether a compacted base of this write id hides nothing from the reader: no open id at or below it."""
        return write_id <= self.high_watermark and (self.min_open is None or write_id < self.min_open)

    def min_open_or_next(self) -> int:
        """What MIN_HISTORY_WRITE_ID holds for this reader: the smallest id it may still need history of."""
        return self.min_open if self.min_open is not None else self.high_watermark + 1

    def with_committed(self, write_id: int) -> ValidWriteIdList:
        """The list of a reader that has written itself: its own write id counts as committed, and no other one does.

        So nothing but the database can answer it before the txn ends (Hive's ``locallyCommitWriteId``).
        """
        between = IdRanges([(self.high_watermark + 1, write_id - 1)])
        return ValidWriteIdList(
            max(self.high_watermark, write_id),
            (self.open_ids | between) - {write_id},
            self.aborted - {write_id},
            None,
            self.table,
        )

    def for_compactor(self) -> ValidCompactorWriteIdList:
        """The list a compactor works with: it stops below the first open id, so only aborted ids remain."""
        high = self.high_watermark if self.min_open is None else min(self.high_watermark, self.min_open - 1)
        aborted = self.aborted_ids.up_to(high)
        return ValidCompactorWriteIdList(high, NO_IDS, aborted, self.min_open, self.table)

    def for_cleaner(self, highest_write_id: int | None = None) -> ValidCleanerWriteIdList:
        """The list a Cleaner works with.

        :param highest_write_id: CQ_HIGHEST_WRITE_ID of the compaction being cleaned up after: nothing above it may
            become obsolete in its name.
        """
        high = self.high_watermark if highest_write_id is None else min(self.high_watermark, highest_write_id)
        opened, aborted = self.open_ids.up_to(high), self.aborted_ids.up_to(high)
        return ValidCleanerWriteIdList(high, opened, aborted, self.min_open, self.table)


@dataclass(frozen=True)
class ValidCompactorWriteIdList(ValidWriteIdList):
    """A compactor takes a directory wholly or not at all; rows of aborted ids inside it are dropped one by one."""

    def range_validity(self, low: int, high: int) -> RangeValidity:
        """ALL up to the high-water mark, NONE beyond it."""
        return RangeValidity.ALL if high <= self.high_watermark else RangeValidity.NONE


@dataclass(frozen=True)
class ValidCleanerWriteIdList(ValidWriteIdList):
    """A Cleaner looks at nothing that reaches beyond the compaction it cleans up after."""

    def range_validity(self, low: int, high: int) -> RangeValidity:
        """NONE for a range that reaches beyond the high-water mark, otherwise as for a reader."""
        return RangeValidity.NONE if high > self.high_watermark else super().range_validity(low, high)


@dataclass(frozen=True, slots=True)
class OpenTxns:
    """What getOpenTxns answers.

    :param open: the open txns; ids that may still appear below a young row count as open.
    :param aborted: the aborted txns.
    :param high_watermark: largest txn id seen.
    :param min_open: smallest open txn, the excluded types included; None when nothing is open.
    :param low_boundary: ids below it that are missing were never opened or are long gone (R11).
    """

    open: IdRanges
    aborted: IdRanges
    high_watermark: int
    min_open: int | None
    low_boundary: int


def fold_txn_rows(
    rows: Iterable[tuple[int, str, int | None, int | None]], exclude_types: Collection[int] = _READ_ONLY
) -> OpenTxns:
    """Fold those rows of TXNS that matter, ascending, into the open and aborted txns.

    An id is assigned before its row becomes visible. Below a row younger than the timeout a missing id may therefore
    still appear, and counts as open; openers promise not to let a row appear later than that. A committed row right
    above another row says nothing, unless it is the last, and may be left out.

    :param rows: ``(TXN_ID, TXN_STATE, TXN_TYPE, next id below that has a row, 0 for none)``; the last is None for a
        row that is not young.
    :param exclude_types: types left out of the list; they still hold back ``min_open``.
    """
    opened: list[tuple[int, int]] = []
    aborted: list[int] = []
    mark = low_boundary = 0
    min_open: int | None = None
    for txn_id, state, txn_type, below in rows:
        mark = txn_id
        if below is None:
            low_boundary = txn_id
        elif txn_id > below + 1:
            opened.append((below + 1, txn_id - 1))
            min_open = below + 1 if min_open is None else min_open
        if state not in ("o", "a"):
            continue
        if state == "o" and min_open is None:
            min_open = txn_id
        if (txn_type or TXN_TYPE_DEFAULT) in exclude_types:
            continue
        if state == "o":
            opened.append((txn_id, txn_id))
        else:
            aborted.append(txn_id)
    return OpenTxns(IdRanges(opened), IdRanges.of(aborted), mark, min_open, low_boundary)


def read_txn_list(open_txns: OpenTxns, current_txn: int = 0) -> ValidTxnList:
    """The snapshot of a reader.

    :param current_txn: the reader's own txn: its own writes are visible to it, later txns are not; 0 outside a txn.
    """
    mark, last = open_txns.high_watermark, open_txns.high_watermark
    if current_txn > 0:
        mark, last = min(current_txn, mark), current_txn - 1
    return ValidTxnList(mark, open_txns.open.up_to(last), open_txns.aborted.up_to(last))


def fold_write_ids(
    table: str,
    rows: Iterable[tuple[int, int]],
    txns: ValidTxnList,
    next_write_id: int | None,
    unseen_txns: Collection[int] = (),
    *,
    fresh: bool = False,
) -> ValidWriteIdList:
    """The write ids of one table that a txn snapshot may see (getValidWriteIds).

    :param rows: ``(T2W_TXNID, T2W_WRITEID)`` of the table, in any order.
    :param next_write_id: NWI_NEXT of the table, None when it has no row.
    :param unseen_txns: txns at or below the snapshot's mark that it did not see at all: they count as open (R11).
    :param fresh: rows and txns are of one moment. Then an id without a row has ended, and is seen.
    """
    ascending = sorted((write_id, txn_id) for txn_id, write_id in rows)
    mark = max((write_id for write_id, txn_id in ascending if txn_id <= txns.high_watermark), default=0)
    if mark <= 0:
        mark = 0 if next_write_id is None else next_write_id - 1
    # Rows are forgotten by their txns: one that began before all that are open or aborted may have taken its write id
    # after one of these. Hive's mark ends below it, and nobody sees what it has committed.
    forgotten = _largest_without_row(ascending, next_write_id) if fresh else 0
    mark = max(mark, forgotten)
    opened: list[int] = []
    aborted: list[int] = []
    found_valid = False
    for write_id, txn_id in ascending:
        if write_id > mark:
            break
        if txns.is_aborted(txn_id):
            aborted.append(write_id)
        elif txns.is_valid(txn_id) and txn_id not in unseen_txns:
            found_valid = True
        else:
            opened.append(write_id)
    found_valid = found_valid or forgotten > min([*opened[:1], *aborted[:1]], default=mark)
    if not found_valid and (opened or aborted):
        # Ids below the lowest listed one may be older than what TXN_TO_WRITE_ID still remembers: show nothing above.
        mark = min(opened[:1] + aborted[:1])
        opened, aborted = ([mark], []) if mark in opened else ([], [mark])
    return ValidWriteIdList(mark, IdRanges.of(opened), IdRanges.of(aborted), None, table)


def _largest_without_row(ascending: Sequence[tuple[int, int]], next_write_id: int | None) -> int:
    """The largest id that was given out and is not among the rows; 0 when all are."""
    listed = {write_id for write_id, _ in ascending}
    largest = 0 if next_write_id is None else next_write_id - 1
    while largest in listed:
        largest -= 1
    return largest


_Fields = tuple[int, IdRanges, IdRanges, int | None]


def _parse_fields(text: str, fields: list[str]) -> _Fields:
    """High-water mark, smallest open id, open and aborted ids; missing trailing fields are empty."""
    if len(fields) > 4:
        raise _unreadable(text)
    mark, min_open, opened, aborted = fields + [""] * (4 - len(fields))
    try:
        smallest = int(min_open) if min_open else MAX_ID
        return (
            int(mark) if mark else MAX_ID,
            _parse_ids(opened),
            _parse_ids(aborted),
            None if smallest == MAX_ID else smallest,
        )
    except ValueError:
        raise _unreadable(text) from None


def _parse_ids(text: str) -> IdRanges:
    if not text:
        return NO_IDS
    if "-" not in text:
        return IdRanges.of(map(int, text.split(",")))
    runs = (part.partition("-") for part in text.split(","))
    return IdRanges((int(low), int(high if dash else low)) for low, dash, high in runs)


def _with_ranges(ids: IdRanges) -> str:
    """Ids ascending, runs of five and more as ``a-b``."""
    parts: list[str] = []
    for low, high in ids.runs:
        long = high - low + 1 >= _RANGE_LENGTH
        parts.extend([f"{low}-{high}"] if long else map(str, range(low, high + 1)))
    return ",".join(parts)


def _unreadable(text: str) -> InvalidArgumentsError:
    shown = text if len(text) <= 120 else text[:120] + "…"
    return InvalidArgumentsError(
        f"{shown!r} is no list of valid ids; expected [db.table:]highWatermark:minOpen:open,…:aborted,…"
    )
