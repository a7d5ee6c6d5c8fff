"""Replication on one machine: how fast files are copied, how fast events are applied, how much a small change moves.

    python benchmarks/replication.py [--part copy|events|increment] [--rounds 3] [--mib 1024] [--files 200]
                                     [--events 10000] [--rows 2000000]

copy: a directory of random bytes, copied and verified as replication does, beside ``cp -r`` and a checksum of both
sides (SHA-256 by the same library, one file after the other). Interleaved, both on the same disk; goal: at least 0.5 x
its rate.

events: a log of metadata events of plain tables, applied by a cycle to a metastore on a PostgreSQL of its own, with
fsync; goal: over 300 events per second.

increment: an ACID table of a million rows and more, written by Spark; 1 % of the rows are updated and synchronised;
goal: less than 3 % of the table's bytes are moved.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.replication.copying import FileCopy, copy_files

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = ("copy", "events", "increment")
MIB = 1 << 20


def cpu_seconds() -> float:
    """User and system time of this process and of the programs it ran."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def measured(call: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    call()
    return time.perf_counter() - wall, cpu_seconds() - cpu


# --- copy ----------------------------------------------------------------------------------------------------------


def make_files(home: Path, mib: int, count: int) -> None:
    """Files of random bytes, none as large as another."""
    home.mkdir()
    rng = random.Random(1)
    weights = [rng.uniform(0.5, 1.5) for _ in range(count)]
    for number, weight in enumerate(weights):
        directory = home / f"delta_{number // 10:07}_{number // 10:07}_0000"
        directory.mkdir(exist_ok=True)
        with (directory / f"bucket_{number % 10:05}").open("wb") as file:
            file.write(rng.randbytes(int(mib * MIB * weight / sum(weights))))


def sha256(home: Path) -> list[str]:
    """Checksums of all files, in order."""
    found = []
    for path in sorted(p for p in home.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found


def cp_and_compare(source: Path, target: Path) -> None:
    """What a person would do: ``cp -r``, then a checksum of both sides."""
    subprocess.run(["/bin/cp", "-r", str(source), str(target)], check=True)
    assert sha256(source) == sha256(target)


def replicate(source: Path, target: Path) -> None:
    """What replication does."""
    filesystem = AnyFilesystem()
    files = [
        FileCopy(path.as_uri(), (target / path.relative_to(source)).as_uri(), path.stat().st_size)
        for path in sorted(p for p in source.rglob("*") if p.is_file())
    ]
    report = copy_files(filesystem, filesystem, files)
    assert report.files == len(files)


def copying(home: Path, mib: int, files: int, rounds: int) -> None:
    source = home / "source"
    make_files(source, mib, files)
    variants = {"cp -r and checksums": cp_and_compare, "replication's copy": replicate}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for number in range(rounds + 1):  # the first one warms the cache of the disk
        for name, copy in variants.items():
            target = home / "target"
            os.sync()
            sample = measured(lambda copy=copy, target=target: copy(source, target))
            shutil.rmtree(target)
            if number:
                samples[name].append(sample)
    base = statistics.median(wall for wall, _ in samples["cp -r and checksums"])
    print(f"copying {mib} MiB in {files} files, medians of {rounds} rounds (goal: at least 0.5 x the rate of cp)")
    for name, found in samples.items():
        wall, cpu = (statistics.median(s[i] for s in found) for i in (0, 1))
        print(f"  {name:22} {wall:6.2f} s, CPU {cpu:6.2f} s, {mib / wall:7.0f} MiB/s; {base / wall:5.2f} x the rate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=2_000_000)
    options = parser.parse_args()
    parts = options.part or PARTS
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-replication-")))
        if "copy" in parts:
            copying(home, options.mib, options.files, options.rounds)


if __name__ == "__main__":
    main()
