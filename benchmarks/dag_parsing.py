"""What importing this package costs when Airflow parses a DAG file, beside one that imports BaseOperator alone.

Each variant is a Python of its own, because imports are paid once; variants take turns, and CPU comes first.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

from measure import parser_of

_NOTHING = "from airflow.sdk import BaseOperator\n"
_ONE = "from airflow_hive_acid.operators import HiveAcidOperator\n"
_ALL = """
import importlib
for room in ("operators", "sensors", "decorators"):
    face = importlib.import_module(f"airflow_hive_acid.{room}")
    for name in face.__all__:
        getattr(face, name)
"""
_VARIANTS = {
    "`from airflow.sdk import BaseOperator`": _NOTHING,
    "one operator": _NOTHING + _ONE,
    "every operator, sensor and decorator": _NOTHING + _ALL,
}


def _run(program: str) -> tuple[float, float]:
    """CPU and wall seconds of a Python that runs a program."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - began


def main() -> None:
    """Measure, and print a table in Markdown."""
    arguments = parser_of(__doc__).parse_args()
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in _VARIANTS}
    for number in range(arguments.warm_up + arguments.rounds):
        for name, program in _VARIANTS.items():
            taken = _run(program)
            if number >= arguments.warm_up:
                samples[name].append(taken)
    medians = {
        name: tuple(statistics.median(each) for each in zip(*taken, strict=True)) for name, taken in samples.items()
    }
    least = next(iter(medians.values()))[0]
    print("| the file imports | CPU s | wall s | CPU, ratio |\n|---|---|---|---|")
    for name, (cpu, wall) in medians.items():
        print(f"| {name} | {cpu:.2f} | {wall:.2f} | {cpu / least:.2f} |")


if __name__ == "__main__":
    main()
