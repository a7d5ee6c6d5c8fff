"""Runs the targets from the command line: ``python -m tests.fuzz.run --seconds 60``."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
from typing import TYPE_CHECKING

from .fuzzing import fuzz
from .targets import clean_up, targets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .fuzzing import Outcome, Target


def main() -> int:
    """Run what was asked for; the exit code says whether all went well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="names of targets (default: all)")
    parser.add_argument("--seconds", type=float, help="for each target")
    parser.add_argument("--inputs", type=int, help="for each target, instead of a time")
    parser.add_argument("--first", type=int, default=0, help="number of the first input (default: 0)")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    chosen = [target for target in targets() if not arguments.targets or target.name in arguments.targets]
    numbers: Iterable[int] = itertools.count(arguments.first)
    if arguments.inputs is not None:
        numbers = range(arguments.first, arguments.first + arguments.inputs)
    print(f"{'target':<24}{'inputs':>10}{'answers':>10}{'errors of ours':>16}{'slowest':>10}{'memory':>10}  failures")
    failed = sum(_alone(target, numbers, arguments.seconds) for target in chosen)
    return 1 if failed else 0


def _alone(target: Target, numbers: Iterable[int], seconds: float | None) -> bool:
    """Run a target in a process of its own, so that its memory is its own; True when it failed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            outcome = fuzz(target, numbers, seconds)
            _show(outcome)
            status = 1 if outcome.failures else 0
        finally:
            clean_up()
            sys.stdout.flush()
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    if ended not in (0, 1 << 8):
        print(f"{target.name}: the process died ({ended})")
    return ended != 0


def _show(outcome: Outcome) -> None:
    print(
        f"{outcome.target:<24}{outcome.inputs:>10,}{outcome.answers:>10,}{outcome.refused:>16,}"
        f"{outcome.slowest:>8.2f} s{outcome.grown / 2**20:>7.0f} MB  {len(outcome.failures)}"
    )
    for failure in outcome.failures:
        shown = repr(failure.smallest)
        print(f"  input {failure.number}: {failure.what}\n  {shown[:600]} ({len(shown)} characters)\n{failure.trace}")


if __name__ == "__main__":
    sys.exit(main())
