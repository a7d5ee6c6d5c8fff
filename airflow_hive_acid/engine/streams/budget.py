"""How many live deltas a stream may leave behind: what it asks for, and how it is slowed, before readers suffer.

Every micro-batch is a delta in each place (table or partition) it writes to. The decision is a function of their
number and the settings; the numbers are counted along and corrected by looking into the directory now and then,
because compaction takes them away.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.transactions.back_pressure import ask_for_compaction, live_deltas, named
from airflow_hive_acid.errors import BackPressureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.settings import Settings

log = logging.getLogger(__name__)

_LOOK_AGAIN = 10
"""Micro-batches between two looks into a directory that is near its budget."""
_MOST_PLACES = 10_000
_ASK_AGAIN_SECONDS = 30.0
_STOP_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The settings ``hive.acid.stream.deltas.*``; 0 switches a threshold off.

    :param longest_pause: seconds, just before ``stop``.
    :param stop_wait: seconds at ``stop`` before the stream is given up.
    """

    compact: int
    warn: int
    slow: int
    stop: int
    longest_pause: float
    stop_wait: float

    @classmethod
    def of(cls, settings: Settings) -> Budget:
        """As the settings say."""
        compact, warn, slow, stop = (
            settings.integer(f"hive.acid.stream.deltas.{name}") for name in ("compact", "warn", "slow", "stop")
        )
        pause = settings.seconds("hive.acid.stream.slow.pause")
        return cls(compact, warn, slow, stop, pause, settings.seconds("hive.acid.stream.stop.wait"))

    @property
    def lowest(self) -> int:
        """The number below which nothing happens; 0 when nothing ever does."""
        return min((n for n in (self.compact, self.warn, self.slow, self.stop) if n), default=0)


@dataclass(frozen=True, slots=True)
class Pressure:
    """What so many deltas mean.

    :param asks: ask for a compaction.
    :param pause: seconds to wait before the next micro-batch.
    :param stops: wait until there are fewer.
    """

    deltas: int
    asks: bool = False
    warns: bool = False
    pause: float = 0.0
    stops: bool = False


def pressure(deltas: int, budget: Budget) -> Pressure:
    """What so many deltas in one place mean.

    Between ``slow`` and ``stop`` the pause grows in proportion; without ``stop`` it is the longest from twice ``slow``.
    """
    stops = bool(budget.stop) and deltas >= budget.stop
    pause = 0.0
    if budget.slow and deltas >= budget.slow and not stops:
        end = budget.stop if budget.stop > budget.slow else 2 * budget.slow
        pause = budget.longest_pause * min(1.0, (deltas - budget.slow + 1) / (end - budget.slow))
    return Pressure(
        deltas,
        asks=bool(budget.compact) and deltas >= budget.compact,
        warns=bool(budget.warn) and deltas >= budget.warn,
        pause=pause,
        stops=stops,
    )


@dataclass(slots=True)
class _Place:
    partition: str
    deltas: int
    since: int
    asked: float


class Deltas:
    """The live deltas in the places that one stream writes to.

    :param wait: waits so many seconds; raises when there is nobody to wait for any more.
    """

    def __init__(
        self,
        client: MetastoreClient,
        filesystem: Filesystem,
        budget: Budget,
        wait: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._filesystem = filesystem
        self._budget = budget
        self._wait = wait
        self._clock = clock
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._last: tuple[str, ...] = ()

    def written(self, table: Table, directories: Iterable[str]) -> None:
        """A micro-batch was committed; ask for compactions where the budget is near.

        :param directories: URIs of what it published.
        """
        if not self._budget.lowest:
            return
        counts = Counter(uri.rstrip("/").rpartition("/")[0] for uri in directories)
        for uri, count in counts.items():
            place = self._places.get(uri)
            if place is None:
                place = self._discover(table, uri)
            else:
                place.deltas += count
                place.since += 1
                self._places.move_to_end(uri)
            if place.deltas >= self._budget.lowest and place.since >= _LOOK_AGAIN:
                self._look(table, uri, place)
            if pressure(place.deltas, self._budget).asks:
                self._ask(table, place)
        self._last = tuple(counts)

    def hold_back(self, table: Table) -> None:
        """Wait before the next micro-batch as long as the last one's places say.

        :raises BackPressureError: when compaction does not bring the number down in time.
        """
        for uri in self._last:
            place = self._places.get(uri)
            if place is None:
                continue
            found = pressure(place.deltas, self._budget)
            if found.stops or found.pause:
                self._look(table, uri, place)
                found = pressure(place.deltas, self._budget)
            if found.warns:
                log.warning(
                    "%s has %s live deltas; compaction does not keep up", named(table, place.partition), found.deltas
                )
            if found.stops:
                self._stop(table, uri, place)
            elif found.pause:
                self._wait(found.pause)

    def _stop(self, table: Table, uri: str, place: _Place) -> None:
        until = self._clock() + self._budget.stop_wait
        self._ask(table, place)
        while pressure(place.deltas, self._budget).stops:
            if self._clock() >= until:
                raise BackPressureError(
                    f"{named(table, place.partition)} has {place.deltas} live deltas, and a stream stops at "
                    f"{self._budget.stop} (hive.acid.stream.deltas.stop); no compaction has made them fewer in "
                    f"{self._budget.stop_wait:.0f} s. Run Worker and Cleaner, see SHOW COMPACTIONS, then start the "
                    "stream again: nothing is lost"
                )
            self._wait(_STOP_LOOK_SECONDS)
            self._look(table, uri, place)

    def _discover(self, table: Table, uri: str) -> _Place:
        """A place that was not written to before; the look counts what was just committed, too."""
        while len(self._places) >= _MOST_PLACES:
            self._places.popitem(last=False)
        below = uri.removeprefix(f"{table.location.rstrip('/')}/")
        partition = below if table.is_partitioned and below != uri else ""
        place = self._places[uri] = _Place(partition, 0, 0, -_ASK_AGAIN_SECONDS)
        self._look(table, uri, place)
        return place

    def _look(self, table: Table, uri: str, place: _Place) -> None:
        """Count the deltas that a reader would have to merge now."""
        place.deltas = live_deltas(self._client, self._filesystem, table, uri)
        place.since = 0

    def _ask(self, table: Table, place: _Place) -> None:
        now = self._clock()
        if now - place.asked < _ASK_AGAIN_SECONDS:
            return
        place.asked = now
        # Of a partition that lies elsewhere the name is not known here; then the Initiator's rules pick those in need.
        ask_for_compaction(self._client, self._filesystem, table, place.partition, place.deltas)
