"""What stands in for what an older Spark lacks, as far as it needs no Spark."""

from airflow_hive_acid.spark.versions import _values_of_tasks, version_of


def _murmur3(number: int, seed: int = 42) -> int:
    """Spark's hash of an int, forwards (org.apache.spark.unsafe.hash.Murmur3_x86_32.hashInt)."""
    mask = 0xFFFFFFFF

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & mask

    mixed = rotated((number & mask) * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    found = (rotated(seed ^ mixed, 13) * 5 + 0xE6546B64) & mask
    found ^= 4
    found = (found ^ found >> 16) * 0x85EBCA6B & mask
    found = (found ^ found >> 13) * 0xC2B2AE35 & mask
    return found ^ found >> 16


def test_a_version_is_its_first_two_numbers():
    assert version_of("4.1.4") == (4, 1)
    assert version_of("3.5.9") < (4, 0) < version_of("4.10.0.dev1")


def test_the_value_of_a_task_is_an_int_whose_hash_is_the_number_of_the_task():
    values = _values_of_tasks(4096)
    assert [_murmur3(value) for value in values] == list(range(4096))
    assert all(-(1 << 31) <= value < 1 << 31 for value in values)
