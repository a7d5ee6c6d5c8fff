"""Runs seeds from the command line: ``python -m tests.simulation.run --seeds 0-999``."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from .plan import Plan, smallest
from .world import Report, make_template, simulate


def main() -> int:
    """Run what was asked for; the exit code says whether all went well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as-it-is", action="store_true", help="do not make failing runs smaller")
    parser.add_argument("--seeds", default="0-199", help="one seed, or the first and the last of many (default: 0-199)")
    parser.add_argument("--sql", action="store_true", help="most of it are statements, which the engine runs")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    logging.disable(logging.CRITICAL)
    steps = checks = committed = failed = 0
    # In memory where there is such a place: a run is thousands of small transactions.
    home = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a directory of our own is made in it
    with tempfile.TemporaryDirectory(dir=home) as directory:
        template = Path(directory, "template.db")
        make_template(template)
        path = Path(directory, "metastore.db")
        # What is there now stays; to look through it again and again took a tenth of the time.
        gc.freeze()
        gc.set_threshold(100_000)
        began = time.process_time()
        for seed in range(int(first), int(last or first) + 1):
            plan = Plan.of(seed, sql=arguments.sql)
            report = simulate(plan, template, path)
            steps, checks, committed = steps + report.steps, checks + report.checks, committed + report.committed
            if report.failure is not None:
                failed += 1
                told = report.failure if arguments.as_it_is else explain(plan, template, path, report)
                print(f"seed {seed} failed\n{told}", flush=True)
        seconds = time.process_time() - began
    number = int(last or first) - int(first) + 1
    print(
        f"{number} seeds, {steps} steps ({steps / seconds:,.0f} per second of CPU), {checks} looks at all rows, "
        f"{committed} committed txns, {failed} failures"
    )
    return 1 if failed else 0


def explain(plan: Plan, template: Path, path: Path, report: Report) -> str:
    """The smallest plan that still fails, and its last steps."""
    run = partial(simulate, template=template, path=path)
    small = smallest(plan, lambda candidate: run(candidate).failure is not None)
    return f"{small}\n{run(small).failure or report.failure}"


if __name__ == "__main__":
    sys.exit(main())
