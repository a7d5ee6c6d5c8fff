"""Which worker takes which file of tests: what is dear to start is started in as few workers as can be.

A Spark, once started, has read its classes and compiled what it needs; a second one in another worker does all that
again, for half a minute of a core. So there is one worker for the files that share a Spark session, one for those that
share a Spark application, one for those that run DAGs; others begin with the rest. Who has no files of his own left
takes those that need none of it, and in the end the last ones of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdist.workermanage import WorkerController

#: Rooms, or files, that share something, by what it is; the order is that of the workers.
KINDS = {
    "session": (
        "tests/integration/spark/",
        "tests/integration/replication/dumps/test_acid_carry.py",
        "tests/integration/sql/test_texts_in_spark.py",
    ),
    "application": ("tests/acceptance/", "tests/integration/sql/"),
    "airflow": ("tests/integration/airflow/", "examples/"),
}
REST = "rest"


def kind_of(file: str) -> str:
    """What the tests of a file share.

    :param file: its path as pytest has it, from the top of the checkout.
    """
    return next((kind for kind, rooms in KINDS.items() if file.startswith(rooms)), REST)


def next_file(worker: int, workers: int, waiting: Sequence[str]) -> str:
    """The file that a worker takes.

    :param worker: its number, from 0.
    :param workers: how many there are.
    :param waiting: files that nobody has taken, at least one, in the order of their collection.
    """
    own = [kind for number, kind in enumerate(KINDS) if number % workers == worker]
    for kind in (*own, REST):
        found = next((file for file in waiting if kind_of(file) == kind), None)
        if found is not None:
            return found
    # From the end, which their own worker would reach last; of the kind that has most left.
    kinds = [kind_of(file) for file in waiting]
    most = max(KINDS, key=kinds.count)
    return next(file for file in reversed(waiting) if kind_of(file) == most)


class Scheduling(LoadFileScheduling):
    """xdist's ``loadfile`` with that choice."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        number = int(node.gateway.id.removeprefix("gw"))
        # A worker that has died is followed by one with a higher number.
        workers = len(self.nodes)
        self.workqueue.move_to_end(next_file(number % workers, workers, list(self.workqueue)), last=False)
        super()._assign_work_unit(node)
