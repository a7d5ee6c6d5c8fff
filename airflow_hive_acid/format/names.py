"""Names of directories and files in an ACID table: what they are called and what a name says.

Mirrors Hive's AcidUtils (``ParsedBase``, ``ParsedDelta``, the bucket and original file patterns): numbers are padded
to seven digits at least, statement ids to four, a compactor's result carries ``_vTXN``. Everything here is a value or
a pure function of a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from airflow_hive_acid.errors import InvalidArgumentsError

ACID_VERSION_FILE = "_orc_acid_version"
"""Side file of every directory we write; its whole content is ``ACID_VERSION``."""
ACID_VERSION = "2"
METADATA_FILE = "_metadata_acid"
"""Side file of a truncated base, and of compacted bases written before Hive 4."""
TRUNCATED = '{"thisFileVersion":"0","dataFormat":"truncated"}'
"""Content of that file in a truncated base."""
FLUSH_LENGTH_SUFFIX = "_flush_length"
PLACE_MARKER = "_hive_acid_place"
"""File by which a warehouse is known to be there; hidden from readers."""
STAGING_PREFIX = "_tmp_"
EXPORT_PREFIX = STAGING_PREFIX + "export-"
"""Beside the directory of a dump, where an EXPORT works until the dump is whole."""
DUMP_BEGUN = "_BEGUN"
"""File in the directory of a dump that is not whole yet."""
DROPPED_PREFIX = STAGING_PREFIX + "repl-dropped-"
"""Beside the directory of a table that replication has dropped, where that goes to be deleted."""
IMPORT_PREFIX = "_repl_"
DROP_MARK = "_repl_dropped"
"""File in the directory of a table that replication is dropping."""
PLAIN_FILES = "files"
"""In staging, the directory of files that go into a table without bases and deltas."""

_IMPORT = re.compile(IMPORT_PREFIX + r"([0-9]{1,19})")
_FLUSHED_COPY = re.compile(STAGING_PREFIX + r"flushed-(?P<source>(?:delete_)?delta_[0-9_v]+)-[0-9a-f-]+")
_DIRECTORY = re.compile(
    r"(?:(?P<base>base)_(?P<write_id>-?[0-9]+)"
    r"|(?P<kind>delta|delete_delta)_(?P<min>[0-9]+)_(?P<max>[0-9]+)(?:_(?P<statement>[0-9]+))?)"
    r"(?:_v(?P<visibility>[0-9]+))?"
)
_LOOKS_LIKE_ACID = re.compile(r"(?:base|delta|delete_delta)_")
_BUCKET_FILE = re.compile(r"bucket_([0-9]{1,40})(?:_([0-9]{1,40}))?")
_ORIGINAL_FILE = re.compile(r"([0-9]{1,40})_[0-9]+(?:_copy_([0-9]{1,40}))?")
_MOST_DIGITS = 40
_IDS = 1 << 63
"""Ids are Java's long; a name with another number is none of a base or delta."""
_HIDDEN_PREFIXES = ("_", ".", "-tmp.")
_SIDE_FILES = (ACID_VERSION_FILE, METADATA_FILE)


class DirectoryKind(Enum):
    """The three kinds of directory; the value is the prefix of the name."""

    BASE = "base"
    DELTA = "delta"
    DELETE_DELTA = "delete_delta"


@dataclass(frozen=True, slots=True)
class AcidDirectory:
    """What the name of a base, delta or delete delta says.

    :param min_write_id: smallest write id inside; of a base 0, because a base replaces everything before it
        (``base_-9223372036854775808`` of converted tables: that number).
    :param max_write_id: largest write id inside; the write id of a base.
    :param statement_id: statement of its txn; None for bases and for minor-compacted deltas.
    :param visibility_txn_id: compaction txn whose commit makes the directory visible; 0 for writers' directories.
    """

    kind: DirectoryKind
    min_write_id: int
    max_write_id: int
    statement_id: int | None = None
    visibility_txn_id: int = 0

    @property
    def name(self) -> str:
        """The name as Hive spells it; a directory found on disk may carry fewer leading zeros."""
        if self.kind is DirectoryKind.BASE:
            text = f"base_{self.max_write_id:07d}"
        else:
            text = f"{self.kind.value}_{self.min_write_id:07d}_{self.max_write_id:07d}"
            if self.statement_id is not None:
                text += f"_{self.statement_id:04d}"
        return f"{text}_v{self.visibility_txn_id:07d}" if self.visibility_txn_id else text


@dataclass(frozen=True, slots=True)
class BucketFile:
    """``bucket_NNNNN`` or, from Hive's direct insert, ``bucket_NNNNN_A`` with the task attempt."""

    bucket: int
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """A file that is not in ACID format: ``000000_0``, ``000000_0_copy_1`` (``copy`` 0 for the first)."""

    bucket: int
    copy: int = 0


def parse_directory(name: str) -> AcidDirectory | None:
    """What a directory name says, or None when it is no base, delta or delete delta."""
    match = _DIRECTORY.fullmatch(name)
    if match is None:
        return None
    if any(len(text) > _MOST_DIGITS or not -_IDS <= int(text) < _IDS for text in match.groups() if _is_number(text)):
        return None
    visibility = int(match["visibility"] or 0)
    if match["base"]:
        write_id = int(match["write_id"])
        return AcidDirectory(DirectoryKind.BASE, min(0, write_id), write_id, None, visibility)
    low, high = int(match["min"]), int(match["max"])
    if low > high:
        return None
    statement = None if match["statement"] is None else int(match["statement"])
    return AcidDirectory(DirectoryKind(match["kind"]), low, high, statement, visibility)


def _is_number(text: str | None) -> bool:
    return text is not None and text[-1].isdigit()


def looks_like_acid_directory(name: str) -> bool:
    """Whether a name starts like ours; one that does and does not parse is damage, not somebody's subdirectory."""
    return _LOOKS_LIKE_ACID.match(name) is not None


def base_name(write_id: int, visibility_txn_id: int = 0) -> str:
    """Name of a base: of INSERT OVERWRITE without, of a compactor with its txn id."""
    return AcidDirectory(DirectoryKind.BASE, min(0, write_id), write_id, None, visibility_txn_id).name


def delta_name(
    min_write_id: int, max_write_id: int, statement_id: int | None = None, visibility_txn_id: int = 0
) -> str:
    """Name of a delta; a compactor gives no statement id but its txn id."""
    return _delta(DirectoryKind.DELTA, min_write_id, max_write_id, statement_id, visibility_txn_id)


def delete_delta_name(
    min_write_id: int, max_write_id: int, statement_id: int | None = None, visibility_txn_id: int = 0
) -> str:
    """Name of a delete delta; a compactor gives no statement id but its txn id."""
    return _delta(DirectoryKind.DELETE_DELTA, min_write_id, max_write_id, statement_id, visibility_txn_id)


def bucket_file_name(bucket: int) -> str:
    """``bucket_00003`` for bucket 3."""
    return f"bucket_{bucket:05d}"


def parse_bucket_file(name: str) -> BucketFile | None:
    """What the name of an ACID data file says, or None for any other file."""
    match = _BUCKET_FILE.fullmatch(name)
    if match is None:
        return None
    return BucketFile(int(match[1]), None if match[2] is None else int(match[2]))


def parse_original_file(name: str) -> OriginalFile | None:
    """What the name of a non-ACID data file says, or None for any other file."""
    match = _ORIGINAL_FILE.fullmatch(name)
    return None if match is None else OriginalFile(int(match[1]), int(match[2] or 0))


def original_file_name(task: int) -> str:
    """``000003_0`` for the file of task 3, as Hive's tasks name files that are not in ACID format."""
    return f"{task:06d}_0"


def unique_file_name(task: int, statement_id: int, txn_id: int) -> str:
    """``000003_1_copy_42``: a name that only this statement of this txn ever gives; Hive reads it as any copy."""
    return f"{task:06d}_{statement_id}_copy_{txn_id}"


def is_hidden(name: str) -> bool:
    """Whether readers skip a file or directory of this name.

    Staging (``_tmp_…``), Hive's ``-tmp.…`` and ``.hive-staging…``, checksums. The two side files of ACID directories
    are not hidden: they say that their directory exists.
    """
    return name.startswith(_HIDDEN_PREFIXES) and name not in _SIDE_FILES


def staging_name(job_id: str) -> str:
    """Name of a job's staging directory inside the table (and of the plain file that fences it, R4)."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", job_id):
        raise InvalidArgumentsError(f"job id {job_id!r} must consist of letters, digits, '-' and '_', as a uuid does")
    return STAGING_PREFIX + job_id


def import_name(txn_id: int) -> str:
    """Name of the directory, inside of a table, into which the import of a txn copies files."""
    return f"{IMPORT_PREFIX}{txn_id}"


def parse_import(name: str) -> int | None:
    """The txn whose import copies, or has copied, into a directory of this name; None for any other name."""
    match = _IMPORT.fullmatch(name)
    return None if match is None else int(match[1])


def flushed_copy_name(directory: str, unique: str) -> str:
    """Name of the hidden directory, beside a streaming delta, for the part of its files that counts.

    :param directory: name of the delta.
    :param unique: a uuid.
    """
    return f"{STAGING_PREFIX}flushed-{directory}-{unique}"


def source_of_flushed_copy(name: str) -> str | None:
    """The delta that a hidden directory holds parts of, or None for any other name."""
    match = _FLUSHED_COPY.fullmatch(name)
    return None if match is None else match["source"]


def _delta(kind: DirectoryKind, low: int, high: int, statement_id: int | None, visibility_txn_id: int) -> str:
    if not 0 <= low <= high:
        raise InvalidArgumentsError(f"{kind.value} from write id {low} to {high}: the range must not be empty")
    return AcidDirectory(kind, low, high, statement_id, visibility_txn_id).name
