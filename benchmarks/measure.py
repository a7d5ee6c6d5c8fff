"""Interleaved measurements: CPU seconds of the driver, its JVM and all it started, wall time beside.

On a shared machine wall time says little, so CPU comes first; and because a machine's speed drifts, every round runs
every variant once and ratios are taken within the same run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

_TICKS = os.sysconf("SC_CLK_TCK")


def parser_of(text: str | None, **sizes: int) -> argparse.ArgumentParser:
    """What every benchmark takes: how large its data is, how often it measures, and on how many cores.

    :param text: the program's docstring.
    :param sizes: options of its own that are numbers, with their defaults.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {**sizes, "rounds": 3, "warm-up": 1, "cores": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser


@dataclass
class Samples:
    """What the measured rounds of one variant took."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


class CpuMeter:
    """User and system time of this process, of a JVM, and of the Python workers below it.

    Other children are passed over: a program about to be started shows the times of the JVM. Now and then the kernel
    counts threads twice for a moment; a look that shows more than all cores can have done is repeated.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cores = os.cpu_count() or 1
        self._last = 0.0
        self._at = 0.0

    def seconds(self) -> float:
        """CPU time spent so far."""
        while True:
            now, value = time.monotonic(), self._look()
            if self._at == 0 or 0 <= value - self._last <= (now - self._at) * self._cores + 0.5:
                self._last, self._at = value, now
                return value
            time.sleep(0.1)

    def _look(self) -> float:
        total, pending = 0, [self._pid]
        own = time.process_time()
        while pending:
            current = pending.pop()
            try:
                with open(f"/proc/{current}/stat") as stat:
                    name, _, times = stat.read().rpartition(")")
                for task in os.listdir(f"/proc/{current}/task"):
                    with open(f"/proc/{current}/task/{task}/children") as children:
                        pending += [int(child) for child in children.read().split()]
            except OSError:
                continue
            if current == self._pid or "python" in name:
                total += sum(int(ticks) for ticks in times.split()[11:13])
        return own + total / _TICKS


def memory_of_this_process(what: str) -> float:
    """MB, by its name in ``/proc/self/status``: VmRSS now, VmHWM at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"/proc/self/status has no {what}")


def jvm_pid(spark: SparkSession) -> int:
    """Process id of the driver's JVM."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


def interleaved(
    spark: SparkSession,
    variants: Mapping[str, Callable[[], object]],
    rounds: int,
    warm_up: int,
    resets: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, Samples]:
    """Run all variants in turn, round after round; rounds of the warm-up do not count.

    :param resets: what undoes a variant's work after each round, not measured.
    """
    meter = CpuMeter(jvm_pid(spark))
    found = {name: Samples() for name in variants}
    for number in range(warm_up + rounds):
        for name, run in variants.items():
            spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
            cpu, wall = meter.seconds(), time.perf_counter()
            run()
            wall, cpu = time.perf_counter() - wall, meter.seconds() - cpu
            print(f"  round {number} {name}: {cpu:.2f} s CPU, {wall:.2f} s", file=sys.stderr, flush=True)
            if number >= warm_up:
                found[name].cpu.append(cpu)
                found[name].wall.append(wall)
            if resets is not None and name in resets:
                resets[name]()
    return found


def markdown(title: str, found: Mapping[str, Samples], base: str, expected: Mapping[str, str]) -> str:
    """A table of the samples, ratios against ``base``, minimum and median."""
    lines = [
        f"| {title} | CPU s min / median | x plain (CPU) | goal | wall s min / median | x plain (wall) |",
        "|---|---|---|---|---|---|",
    ]
    for name, samples in found.items():
        cpu, wall = _pair(samples.cpu), _pair(samples.wall)
        base_cpu, base_wall = _pair(found[base].cpu), _pair(found[base].wall)
        ratios = [f"{cpu[i] / base_cpu[i]:.2f}" for i in (0, 1)]
        walls = [f"{wall[i] / base_wall[i]:.2f}" for i in (0, 1)]
        lines.append(
            f"| {name} | {cpu[0]:.2f} / {cpu[1]:.2f} | {' / '.join(ratios)} | {expected.get(name, '')} "
            f"| {wall[0]:.2f} / {wall[1]:.2f} | {' / '.join(walls)} |"
        )
    return "\n".join(lines)


def _pair(values: list[float]) -> tuple[float, float]:
    return min(values), statistics.median(values)
