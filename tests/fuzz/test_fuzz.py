"""A little of ``make fuzz`` with the same inputs each time, and proof that the fuzzer sees what it looks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from tests.examples import examples

from . import fuzzing
from .fuzzing import Target, fuzz
from .mutate import mutate_bytes

_ROOT = Path(__file__).parents[2]


def test_whatever_strangers_write_is_an_error_of_ours_or_has_a_right_answer() -> None:
    """Some inputs for each target, in processes with limits of time and memory."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", "--inputs", str(examples(160))],
        cwd=_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("\n") >= 19, "every target has a line"


def _with_fault(data: bytes) -> None:
    if data == b"":
        raise InvalidArgumentsError("empty")
    if b"\xff" in data:
        raise KeyError(data)


def _that_hangs(data: bytes) -> None:
    while b"\xff" in data:
        pass


def _that_takes_memory(data: bytes) -> None:
    if b"\xff" in data:
        bytearray(8 * fuzzing.MEMORY_PER_TARGET)  # refused at once: nothing is filled


@pytest.mark.parametrize(
    ("fault", "what"),
    [(_with_fault, "KeyError"), (_that_hangs, "Hang"), (_that_takes_memory, "MemoryError")],
)
def test_a_planted_fault_is_found_and_made_small(fault, what, monkeypatch) -> None:
    monkeypatch.setattr(fuzzing, "SECONDS_PER_INPUT", 0.05 if what == "Hang" else 2.0)
    found = fuzz(Target("planted", lambda: [b"good input"], mutate_bytes, fault), range(300)).failures
    assert [failure.what.partition(" ")[0] for failure in found] == [what]
    assert found[0].smallest == b"\xff"


def test_the_inputs_of_a_number_are_always_the_same() -> None:
    """So that a failure can be run again by its number."""
    assert [mutate_bytes(Random(f"t:{n}"), b"abc" * 9) for n in range(50)] == [
        mutate_bytes(Random(f"t:{n}"), b"abc" * 9) for n in range(50)
    ]
