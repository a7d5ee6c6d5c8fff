"""Random programs over kinds of tables and partitions, DDL included, beside a plain model of the rows.

After each step the table is read as a whole, by conditions, as of an earlier write id and by a pin, and its changes are
told: what is shown is what the model says, or it is refused because the history is gone. ``--programs N`` runs the
seeds 0 … N-1; ``--accelerator off`` runs them without the jar. A failure prints its program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.doctor.doctor import examine_tables
from tests.examples import examples, random_programs

from .programs import Program, last_steps
from .running import Run
from .steps import Clean

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.crossing("random programs x kinds of tables x DDL"), pytest.mark.spark]

#: One in make test.
FEW = examples(4)
STEPS = 9


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    random_programs(metafunc, FEW)


def test_a_random_table_holds_what_the_model_says(
    real_engine: Engine, client: MetastoreClient, tmp_path: Path, seed: int
) -> None:
    program = Program(seed, (tmp_path / "places").as_uri())
    run = Run(real_engine, client, program.table(), seed)
    try:
        for _ in range(STEPS):
            run.do(program.step(run.table))
            run.check()
        run.unpin()
        for step in last_steps(run.table):
            run.do(step)
        run.do(Clean(run.table))
        run.check()
        assert list(examine_tables(client, AnyFilesystem(), [run.table.name])) == []
        assert client.show_locks() == []
    except BaseException as failure:
        failure.add_note(f"seed {seed}:\n{run.text()}")
        raise
