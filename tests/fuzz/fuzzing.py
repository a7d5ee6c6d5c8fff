"""The fuzzer: input by input through a target, with limits of time and memory, and failures made small.

An input fails when the target lets out anything but its documented errors, needs more than two seconds of processor
time, or more memory than the limit. Inputs are a function of the target's name and a number, so that a failure can be
run again.
"""

from __future__ import annotations

import resource
import signal
import time
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T", bytes, str, tuple[str, ...])
SECONDS_PER_INPUT = 2.0
MEMORY_PER_TARGET = 200 << 20
_TRIES_TO_SHRINK = 300
_MOST_FAILURES = 5


class Hang(BaseException):
    """An input took too long; no handler of the product takes it for an error."""


@dataclass(frozen=True)
class Target(Generic[T]):
    """An input of the product.

    :param seeds: makes good inputs.
    :param run: gives an input to the product; what it answers must be right, or one of ``errors``.
    :param errors: what the function says it raises.
    """

    name: str
    seeds: Callable[[], Sequence[T]]
    mutate: Callable[[Random, T], T]
    run: Callable[[T], None]
    errors: tuple[type[Exception], ...] = (HiveAcidError,)

    @cached_property
    def good(self) -> Sequence[T]:
        """The seeds, made once."""
        return self.seeds()


@dataclass
class Failure:
    """An input that failed, and how."""

    target: str
    number: int
    what: str
    smallest: Any
    trace: str


@dataclass
class Outcome:
    """What came of a target."""

    target: str
    inputs: int = 0
    answers: int = 0
    refused: int = 0
    slowest: float = 0.0
    grown: int = 0
    failures: list[Failure] = field(default_factory=list)


def fuzz(target: Target[Any], numbers: Iterable[int], seconds: float | None = None) -> Outcome:
    """Run inputs of a target: the seeds first, then one for each number.

    :param seconds: stop after so long.
    """
    outcome = Outcome(target.name)
    until = None if seconds is None else time.monotonic() + seconds
    known: set[str] = set()
    before = _resident()
    with limited_memory(MEMORY_PER_TARGET):
        for number, value in _inputs(target, numbers):
            if until is not None and time.monotonic() >= until:
                break
            began = time.process_time()
            found = verdict(target, value, outcome)
            outcome.inputs += 1
            outcome.slowest = max(outcome.slowest, time.process_time() - began)
            if found is not None and found[0] not in known:
                known.add(found[0])
                small = shrink(target, value, found[0])
                outcome.failures.append(Failure(target.name, number, found[0], small, found[1]))
                if len(known) >= _MOST_FAILURES:
                    break
    outcome.grown = max(0, _resident() - before)
    return outcome


def _inputs(target: Target[Any], numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
    good = target.good
    for index, seed in enumerate(good):
        yield -1 - index, seed
    for number in numbers:
        rng = Random(f"{target.name}:{number}")
        yield number, target.mutate(rng, rng.choice(good))


def verdict(target: Target[Any], value: Any, outcome: Outcome | None = None) -> tuple[str, str] | None:
    """None when the target took an input as it must; otherwise what happened, without the input in it, and where."""
    counted = outcome or Outcome(target.name)
    try:
        with limited_time(SECONDS_PER_INPUT):
            target.run(value)
    except target.errors:
        counted.refused += 1
        return None
    except Hang:
        return "Hang", traceback.format_exc(limit=-12)
    except (Exception, MemoryError) as error:  # noqa: BLE001 - whatever it is, it is the finding
        frames = traceback.extract_tb(error.__traceback__)
        ours = next((f for f in reversed(frames) if "airflow_hive_acid" in f.filename), frames[-1])
        where = f"{type(error).__name__} at {Path(ours.filename).name}:{ours.name}"
        return where, "".join(traceback.format_exception(error, limit=-12))[-3_000:]
    counted.answers += 1
    return None


def shrink(target: Target[Any], value: Any, what: str) -> Any:
    """A smaller input that fails alike: pieces are left out while it does."""
    tries = 0

    def fails(candidate: Any) -> bool:
        nonlocal tries
        tries += 1
        found = verdict(target, candidate)
        return found is not None and found[0] == what

    parts = value if isinstance(value, tuple) else (value,)

    def whole(at: int, part: Any) -> Any:
        return (*parts[:at], part, *parts[at + 1 :]) if isinstance(value, tuple) else part

    for at in range(len(parts)):
        size = max(1, len(parts[at]) // 2)
        while size and tries < _TRIES_TO_SHRINK:
            place = 0
            while place < len(parts[at]) and tries < _TRIES_TO_SHRINK:
                shorter = parts[at][:place] + parts[at][place + size :]
                if fails(whole(at, shorter)):
                    parts = (*parts[:at], shorter, *parts[at + 1 :])
                else:
                    place += size
            size //= 2
    return tuple(parts) if isinstance(value, tuple) else parts[0]


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """Raise :class:`Hang` in the body after so much processor time, or ten times as much of the clock's."""

    def stop(*_: object) -> None:
        raise Hang

    kept = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in kept.items():
            signal.signal(number, handler)


@contextmanager
def limited_memory(more: int) -> Iterator[None]:
    """Let the body have so much more address space than the process has; then a MemoryError comes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _resident() -> int:
    """Bytes of memory that the process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
