"""Compares what the tables say with what pandas computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.dag_factories.demo.expected import MEASURES, Expected
from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SUMS = ", ".join(f"sum({measure})" for measure in MEASURES)
MONTHS = f"SELECT month, count(*), {_SUMS} FROM demo.flights GROUP BY month ORDER BY month"  # noqa: S608 - constants
AIRLINES = """
SELECT a.name, count(*) FROM demo.flights f JOIN demo.airlines a ON f.carrier = a.carrier
WHERE a.is_current GROUP BY a.name ORDER BY a.name
"""
PLANES = "SELECT count(*), sum(seats) FROM demo.planes"

#: The tables the queries read.
TABLES = ("demo.flights", "demo.airlines", "demo.planes")


class DemoCheckError(HiveAcidError):
    """A table of the demo does not hold what it must; names every difference."""


def observe(query: Callable[[str], Sequence[Sequence[Any]]]) -> Expected:
    """What the tables say now.

    :param query: runs a SELECT and returns its rows.
    """
    planes = query(PLANES)[0]
    return Expected(
        months=[tuple(int(value) for value in row) for row in query(MONTHS)],
        airlines=[(str(name), int(number)) for name, number in query(AIRLINES)],
        planes=(int(planes[0]), int(planes[1])),
    )


def require_equal(what: str, found: Expected, expected: Expected) -> str:
    """Compare; the text says what was compared.

    :raises DemoCheckError: when anything differs; names each difference.
    """
    differences = [
        *_differences("month", _by_first(found.months), _by_first(expected.months)),
        *_differences("airline", _by_first(found.airlines), _by_first(expected.airlines)),
        *_differences("planes", {"all": found.planes}, {"all": expected.planes}),
    ]
    if differences:
        raise DemoCheckError(
            "\n".join([f"{what}: {len(differences)} differences to what pandas computed", *differences])
        )
    sums = len(expected.months) * (1 + len(MEASURES)) + len(expected.airlines) + 2
    return f"{what}: {found.flights:,} flights; all {sums} counts and sums equal those that pandas computed"


def _by_first(rows: Sequence[tuple[Any, ...]]) -> dict[Any, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in rows}


def _differences(kind: str, found: dict[Any, Any], expected: dict[Any, Any]) -> list[str]:
    keys = [*expected, *(key for key in found if key not in expected)]
    return [
        f"  {kind} {key}: table says {found.get(key)}, pandas {expected.get(key)}"
        for key in keys
        if found.get(key) != expected.get(key)
    ]
