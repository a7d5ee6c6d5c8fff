"""The bucket column: bucket number and statement id in one int."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.buckets import BucketProperty, decode_bucket, encode_bucket


@pytest.mark.parametrize(
    ("bucket", "statement", "value"),
    [(0, 0, 536870912), (0, 1, 536870913), (1, 0, 536936448), (3, 2, 537067522), (4095, 4095, 805244927)],
)
def test_values_are_those_hive_writes(bucket: int, statement: int, value: int) -> None:
    assert encode_bucket(bucket, statement) == value
    assert decode_bucket(value) == BucketProperty(1, bucket, statement)


def test_old_files_hold_the_bucket_alone() -> None:
    assert decode_bucket(17) == BucketProperty(0, 17, 0)


@given(st.integers(0, 4095), st.integers(0, 4095))
def test_every_pair_survives_and_fits_an_int(bucket: int, statement: int) -> None:
    value = encode_bucket(bucket, statement)
    assert 0 < value < 2**31
    assert decode_bucket(value)[1:] == (bucket, statement)


@given(st.tuples(st.integers(0, 4095), st.integers(0, 4095)), st.tuples(st.integers(0, 4095), st.integers(0, 4095)))
def test_values_sort_by_bucket_then_statement(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (encode_bucket(*one) < encode_bucket(*other)) == (one < other)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"bucket 4096 is outside 0\.\.4095"):
        encode_bucket(4096, 0)
    with pytest.raises(InvalidArgumentsError, match=r"statement id 4096 is outside 0\.\.4095"):
        encode_bucket(0, 4096)
    with pytest.raises(InvalidArgumentsError, match="has version 2"):
        decode_bucket(2 << 29)
    with pytest.raises(InvalidArgumentsError, match="has version 7"):
        decode_bucket(-1)


def test_what_does_not_fit_is_told_with_its_limit() -> None:
    with pytest.raises(InvalidArgumentsError) as bucket:
        encode_bucket(4096, 0)
    assert str(bucket.value) == "bucket 4096 is outside 0..4095; write with fewer tasks or buckets"
    with pytest.raises(InvalidArgumentsError) as statement:
        encode_bucket(0, 4096)
    assert str(statement.value) == "statement id 4096 is outside 0..4095; commit and go on in a new transaction"
    with pytest.raises(InvalidArgumentsError) as version:
        decode_bucket(7 << 29)
    assert str(version.value) == f"bucket value {7 << 29} has version 7; versions 0 and 1 are known"
    assert encode_bucket(4095, 4095) == 1 << 29 | 4095 << 16 | 4095
