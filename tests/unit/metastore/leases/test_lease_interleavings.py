"""The lease protocol holds over all interleavings of three clients, and does not without each of its parts."""

from __future__ import annotations

import pytest

from airflow_hive_acid.metastore.leases.model import LeaseObject
from tests.unit.metastore.leases.lease_steps import Model, explore

X_T, S_T = LeaseObject("db", "t", "", "x"), LeaseObject("db", "t", "", "s")
X_P, S_P = LeaseObject("db", "t", "p=1", "x"), LeaseObject("db", "t", "p=1", "s")
X_Q = LeaseObject("db", "t", "p=2", "x")
WORK = ("grab", "commit", "drop")


@pytest.mark.rule("R8")
@pytest.mark.parametrize(
    "kinds",
    [
        (X_T, X_T, X_T),
        (X_T, S_T, S_T),
        (X_P, X_Q, X_T),
        pytest.param((S_T, S_P, X_Q), marks=pytest.mark.repeats("shared leases beside a partition's")),
        (S_T, S_T, S_P),
    ],
    ids=lambda kinds: " ".join(f"{k.lease_type.value}:{k.describe()}" for k in kinds),
)
def test_three_clients_that_work_under_a_lease_keep_all_promises(kinds: tuple[LeaseObject, ...]) -> None:
    """Grab, commit something under it, drop; leases end at any moment, and so do places in the queue."""
    states, problem = explore(Model(tuple((k,) for k in kinds), (WORK, WORK, WORK)))
    assert problem is None
    assert states > 1000


@pytest.mark.rule("R8")
def test_a_holder_that_extends_against_two_thieves() -> None:
    programs = (("grab", "extend", "commit", "drop"), ("grab", "commit"), ("grab", "commit"))
    _, problem = explore(Model(((X_T,), (X_T,), (S_P,)), programs))
    assert problem is None


def test_leases_on_several_objects_are_all_or_none() -> None:
    wants = ((X_P, X_Q), (S_P, X_Q), (X_T,))
    _, problem = explore(Model(wants, (("grab", "extend", "drop"), WORK, ("grab",))))
    assert problem is None


def test_a_clock_that_is_set_back_revives_nobody() -> None:
    model = Model(((X_T,), (X_T,)), (("grab", "commit"), ("grab", "commit")), clock_goes_back=True)
    assert explore(model)[1] is None


# --- the parts of the protocol: without any of them the model finds what goes wrong -----------------------------------


def test_without_the_row_lock_two_grabs_both_pass() -> None:
    """
    t1  A looks, nothing there
    t2            B looks, nothing there
    t3  A inserts
    t4            B inserts
    """
    _, problem = explore(Model(((X_T,), (X_T,), (X_T,)), (("grab",),) * 3, guarded=False))
    assert problem is not None
    assert "exclude each other" in problem


@pytest.mark.rule("R8")
def test_without_the_row_lock_in_the_commit_it_passes_a_thief() -> None:
    """
    t1  A's commit finds its lease live, waits for the open-txn lock
    t2            the lease ends, B is granted
    t3  A commits
    """
    _, problem = explore(Model(((X_T,), (X_T,), (X_T,)), (WORK, WORK, WORK), commit_guarded=False))
    assert problem == "something was committed under a lease that somebody else had taken over"


def test_without_forgetting_ended_leases_a_clock_set_back_revives_them() -> None:
    model = Model(((X_T,), (X_T,)), (("grab",), ("grab",)), clock_goes_back=True, forgets=False)
    problem = explore(model)[1]
    assert problem is not None
    assert "both are live" in problem
