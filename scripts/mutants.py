"""Mutation testing of the pure rooms: changes the code in small ways, one at a time, and looks whether a test fails.

    python scripts/mutants.py [ROOM …] [--show] [--at-least 90]

Works on a copy of the tree in ``build/mutants/ROOM`` with mutmut, on one core and at low priority; a run that was
interrupted goes on where it was. docs/explanation/mutants.md says what the figures mean and why each survivor may
live.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutants"
_TREE = ("airflow_hive_acid", "spark_jobs", "dags", "tests", "examples", "docs")
_FILES = ("pyproject.toml", "README.md", "CHANGELOG.md")
# Plugins that pure tests do not need; most of a mutant's time would be theirs.
_WITHOUT = ("schemathesis", "xdist", "cacheprovider", "playwright", "anyio")
# Properties try the same examples in each run, fewer than elsewhere, and do not look for the smallest that fails.
_PROFILE = """from hypothesis import Phase, settings
settings.register_profile("mutants", derandomize=True, max_examples=25, database=None, deadline=None,
                          phases=(Phase.explicit, Phase.generate))
settings.load_profile("mutants")
"""


@dataclass(frozen=True, slots=True)
class Room:
    """Modules that are mutated, and the tests that must notice.

    :param modules: below the package, without ending.
    :param conftest: whether the tests need the fixtures of all tests.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    conftest: bool = False


ROOMS = {
    "maintenance": Room(
        tuple(
            f"maintenance/{name}"
            for name in (
                "cleaner/rules", "initiator/rules", "doctor/rules", "worker/rules", "decisions", "thresholds",
            )
        ),
        ("tests/unit/maintenance",),
    ),
    "metastore": Room(
        (
            "metastore/records/claim_rules", "metastore/txns/pin_rules", "metastore/records/shared_rules",
            "metastore/cache/rules", "metastore/locks/compatibility",
        ),
        (
            "tests/unit/metastore/records/test_claim_rules.py", "tests/unit/metastore/txns/test_pin_rules.py",
            "tests/unit/metastore/records/test_shared_rules.py", "tests/unit/metastore/cache/test_cache_rules.py",
            "tests/unit/metastore/locks/test_lock_compatibility.py",
        ),
    ),
    "format": Room(
        ("format/*", "format/jobs/*"),
        (
            "tests/unit/format", "tests/unit/engine/test_stream_rules.py",
            "tests/unit/metastore/catalog/test_partition_values.py", "tests/unit/maintenance/test_worker_rules.py",
        ),
        conftest=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change.

    :param name: mutmut's, with module and function.
    :param status: mutmut's word: killed, survived, timeout, no tests, suspicious, …
    """

    name: str
    status: str

    @property
    def module(self) -> str:
        """The module's path below the package."""
        return re.sub(r"\.x.*", "", self.name).removeprefix("airflow_hive_acid.").replace(".", "/")

    @property
    def is_killed(self) -> bool:
        """Whether a test noticed; one that made a test wait for ever was noticed, too."""
        return self.status in ("killed", "timeout", "segfault", "caught by type check")


def main() -> int:
    """Run the rooms that are named; 0 if each has enough mutants killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)} (default: all)")
    parser.add_argument("--show", action="store_true", help="print what the survivors change")
    parser.add_argument("--at-least", type=float, default=90.0, metavar="PERCENT", help="fail below (default: 90)")
    arguments = parser.parse_args()
    unknown = set(arguments.rooms) - set(ROOMS)
    if unknown:
        parser.error(f"no room {', '.join(sorted(unknown))}; there are {', '.join(ROOMS)}")
    low = [name for name in arguments.rooms or ROOMS if _run(name, show=arguments.show) < arguments.at_least]
    if low:
        print(f"Less than {arguments.at_least:g} % killed in: {', '.join(low)}")
    return 1 if low else 0


def _run(name: str, *, show: bool) -> float:
    room, place = ROOMS[name], WORK / name
    _copy(room, place)
    mutmut = [str(Path(sys.executable).parent / "mutmut")]
    environment = os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": str(place / ".hypothesis")}
    with (place / "log").open("w") as log:
        run = ["nice", "-n", "10", *mutmut, "run", "--max-children", "1"]
        code = subprocess.run(run, cwd=place, env=environment, stdout=log, stderr=log, check=False).returncode
    if code:
        raise SystemExit(f"mutmut failed; the end of {place / 'log'}:\n{(place / 'log').read_text()[-3000:]}")
    listed = subprocess.run(
        [*mutmut, "results", "--all", "true"], cwd=place, env=environment, capture_output=True, text=True, check=True
    )
    mutants = [Mutant(*found) for found in re.findall(r"^\s+(\S+): (.+)$", listed.stdout, re.MULTILINE)]
    (place / "finished").touch()
    if not mutants:
        raise SystemExit(f"mutmut made no mutants for {name}: {listed.stdout[-500:]}")
    killed = _print(name, mutants)
    if show:
        for mutant in mutants:
            if not mutant.is_killed:
                done = subprocess.run(
                    [*mutmut, "show", mutant.name], cwd=place, capture_output=True, text=True, check=True
                )
                changed = [line for line in done.stdout.splitlines() if re.match(r"[-+](?![-+])", line)]
                print(f"{mutant.name} ({mutant.status})", *changed, sep="\n  ")
    return killed


def _copy(room: Room, place: Path) -> None:
    """A tree for mutmut; what it made of one that was interrupted stays."""
    if (place / "finished").exists():
        shutil.rmtree(place)
    place.mkdir(parents=True, exist_ok=True)
    for name in _TREE:
        shutil.rmtree(place / name, ignore_errors=True)
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(ROOT / name, place / name)
    modules = [f"airflow_hive_acid/{module}.py" for module in room.modules]
    (place / "mutants_profile.py").write_text(_PROFILE)
    options = [*(each for plugin in _WITHOUT for each in ("-p", f"no:{plugin}")), "-p", "mutants_profile"]
    lines = {
        "source_paths": ["airflow_hive_acid"],
        "only_mutate": modules,
        "pytest_add_cli_args_test_selection": list(room.tests),
        "pytest_add_cli_args": options if room.conftest else [*options, "--noconftest"],
        "also_copy": [name for name in (*_TREE, *_FILES, "mutants_profile.py") if name != "airflow_hive_acid"],
    }
    with (place / "pyproject.toml").open("a") as file:
        file.write("\n[tool.mutmut]\n" + "".join(f"{key} = {value!r}\n" for key, value in lines.items()))


def _print(name: str, mutants: list[Mutant]) -> float:
    """A line for each module; the room's share of killed mutants, in per cent."""
    by_module: dict[str, list[Mutant]] = collections.defaultdict(list)
    for mutant in mutants:
        by_module[mutant.module].append(mutant)
    print(f"{'module':40} {'mutants':>8} {'killed':>8} {'survived':>9} {'no test':>8} {'killed %':>9}")
    for title, some in [*sorted(by_module.items()), (f"all of {name}", mutants)]:
        killed = sum(mutant.is_killed for mutant in some)
        untested = sum(mutant.status == "no tests" for mutant in some)
        rest = len(some) - killed - untested
        print(f"{title:40} {len(some):8} {killed:8} {rest:9} {untested:8} {100 * killed / len(some):9.1f}", flush=True)
    return 100 * sum(mutant.is_killed for mutant in mutants) / len(mutants)


if __name__ == "__main__":
    sys.exit(main())
