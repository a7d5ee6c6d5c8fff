"""Whoever intervenes, in whatever state a writer is, in any kind of table: what is committed stays, the rest goes.

Each cell is run, or refused by a rule that says why. ``make test-interventions`` runs all cells with INSERT INTO and
INSERT OVERWRITE on all databases; otherwise SQLite has so many that every pair is among them.
"""

from __future__ import annotations

import pytest

from .cells import KINDS, STATES, Cell, refused, run
from .people import INTERVENERS
from .world import World

pytestmark = [pytest.mark.rule("R4"), pytest.mark.rule("R17")]


def cells(who: str, verbs: tuple[str, ...], *, pairs: bool) -> list[Cell]:
    """All cells of somebody who intervenes; or so many that all have every pair of kind, state and intervener."""
    number = list(INTERVENERS).index(who)
    return [
        Cell(kind, state, who, verb)
        for state_number, state in enumerate(STATES)
        for kind_number, kind in enumerate(KINDS)
        for verb in verbs
        if not pairs or kind_number == (state_number + 3 * number) % len(KINDS)
    ]


@pytest.fixture
def world(metastore_url, warehouse):
    """A metastore and a warehouse with the writer and the other one."""
    world = World(metastore_url, warehouse)
    yield world
    world.close()


@pytest.mark.parametrize("who", INTERVENERS)
def test_what_is_committed_stays_and_the_rest_goes(world, who, matrix):
    wanted = cells(who, matrix.verbs, pairs=not matrix.whole)
    wrong = []
    for cell in wanted:
        rule = refused(cell)
        if rule is not None:
            matrix.refused[rule] += 1
            continue
        found = run(world, cell)
        matrix.run += 1
        matrix.failures += bool(found)
        wrong += found
    assert wrong == []
