"""What the demo's tables must hold, computed by pandas from the same files and by nothing of ours.

The steps are those of ``statements.py``, written once more in another way: corrections are joined by the key of a
flight, not merged by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.dag_factories.demo import data
from airflow_hive_acid.errors import ConfigurationError

if TYPE_CHECKING:
    import pandas as pd

#: What is compared per month besides the number of flights.
MEASURES = ("dep_delay", "arr_delay", "air_time", "distance")

_KEY = ["time_hour", "carrier", "flight"]


@dataclass(frozen=True)
class Expected:
    """The state of the demo's tables at one time.

    :param months: ``(month, flights, sum of each measure…)``, by month.
    :param airlines: ``(name, flights)`` under the airline's current name, by name.
    :param planes: number of planes and sum of their seats.
    """

    months: list[tuple[int, ...]]
    airlines: list[tuple[str, int]]
    planes: tuple[int, int]

    @property
    def flights(self) -> int:
        """Number of flights of the whole year."""
        return sum(row[1] for row in self.months)


def before_changes(files: data.DemoFiles) -> Expected:
    """The state after loading."""
    pandas = _pandas()
    return _summary(_read(pandas, files.flights), pandas.read_csv(files.airlines), pandas.read_csv(files.planes))


def after_changes(files: data.DemoFiles) -> Expected:
    """The state after the transaction with the changes, and after the first of two who corrected the same plane."""
    pandas = _pandas()
    flights = _restate(pandas, _read(pandas, files.flights), _read(pandas, files.corrections))
    airlines = pandas.read_csv(files.airlines)
    airlines.loc[airlines["carrier"] == data.RENAMED_CARRIER, "name"] = data.RENAMED_TO
    flights = flights[flights["carrier"] != data.FORGOTTEN_CARRIER]
    planes = pandas.read_csv(files.planes)
    planes.loc[planes["tailnum"] == data.CONTESTED_PLANE, "seats"] = data.FIRST_SEATS
    return _summary(flights, airlines, planes)


def _restate(pandas: Any, flights: pd.DataFrame, news: pd.DataFrame) -> pd.DataFrame:
    by_kind = {kind: rows.drop(columns="change") for kind, rows in news.groupby("change")}
    gone = pandas.concat([by_kind["withdrawn"], by_kind["corrected"]])[_KEY]
    untouched = flights.merge(gone, on=_KEY, how="left", indicator="found")
    untouched = untouched[untouched["found"] == "left_only"].drop(columns="found")
    return pandas.concat([untouched, by_kind["corrected"], by_kind["late"]])


def _summary(flights: pd.DataFrame, airlines: pd.DataFrame, planes: pd.DataFrame) -> Expected:
    groups = flights.groupby("month")
    totals = groups[list(MEASURES)].sum().astype("int64")
    counts = groups.size()
    months = [(int(m), int(counts[m]), *(int(v) for v in totals.loc[m])) for m in sorted(counts.index)]
    named = flights.merge(airlines, on="carrier").groupby("name").size()
    seats = planes["seats"].sum()
    return Expected(
        months=months,
        airlines=sorted((str(name), int(number)) for name, number in named.items()),
        planes=(len(planes), int(seats)),
    )


def _read(pandas: Any, path: Any) -> pd.DataFrame:
    frame: pd.DataFrame = pandas.read_csv(path)
    return frame


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ConfigurationError(
            "the demo checks its result with pandas, which is not installed; "
            "install it with: pip install 'airflow-hive-acid[demo]'"
        ) from None
    return pandas
