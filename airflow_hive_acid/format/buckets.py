"""The ``bucket`` column of ACID rows: bucket number and statement id in one int (Hive's BucketCodec).

Version 1: bits 31-29 the version, 27-16 the bucket (the N of ``bucket_N``), 11-0 the statement id. Version 0, written
before Hive 3, is the bucket number alone.
"""

from __future__ import annotations

from typing import NamedTuple

from airflow_hive_acid.errors import InvalidArgumentsError

MAX_BUCKET = 4095
MAX_STATEMENT = 4095

_VERSION_SHIFT = 29
_BUCKET_SHIFT = 16
_MASK = 0xFFF


class BucketProperty(NamedTuple):
    """A decoded ``bucket`` value; version 0 has no statement id and reads as statement 0."""

    version: int
    bucket: int
    statement_id: int


def encode_bucket(bucket: int, statement_id: int) -> int:
    """The ``bucket`` value of rows in ``bucket_N`` written by a statement.

    :raises InvalidArgumentsError: when one of the two does not fit into its 12 bits; Hive would let it spill over.
    """
    if not 0 <= bucket <= MAX_BUCKET:
        raise InvalidArgumentsError(f"bucket {bucket} is outside 0..{MAX_BUCKET}; write with fewer tasks or buckets")
    if not 0 <= statement_id <= MAX_STATEMENT:
        raise InvalidArgumentsError(
            f"statement id {statement_id} is outside 0..{MAX_STATEMENT}; commit and go on in a new transaction"
        )
    return (1 << _VERSION_SHIFT) | (bucket << _BUCKET_SHIFT) | statement_id


def decode_bucket(value: int) -> BucketProperty:
    """Bucket number and statement id of a ``bucket`` value.

    :raises InvalidArgumentsError: for a version other than 0 and 1.
    """
    version = value >> _VERSION_SHIFT
    if version == 0:
        return BucketProperty(0, value, 0)
    if version != 1:
        raise InvalidArgumentsError(f"bucket value {value} has version {version & 7}; versions 0 and 1 are known")
    return BucketProperty(1, (value >> _BUCKET_SHIFT) & _MASK, value & _MASK)
