"""Applications that the tasks of one process share."""

from __future__ import annotations

import pytest

from airflow_hive_acid.hooks import shared_spark


class FakeSession:
    application_id = "local-1"

    def __init__(self):
        self.is_alive = True
        self.closed = False

    def close(self):
        self.closed = True
        self.is_alive = False

    def cancel(self):
        self.is_alive = False


class Starter:
    """Starts applications and remembers them."""

    def __init__(self):
        self.sessions = []

    def __call__(self):
        self.sessions.append(FakeSession())
        return self.sessions[-1]


@pytest.fixture
def started():
    yield Starter()
    shared_spark.close_all()


def test_next_task_gets_the_application_that_was_given_back(started):
    first = shared_spark.take("k", started)
    first.close()
    second = shared_spark.take("k", started)
    assert len(started.sessions) == 1
    assert second.is_alive
    assert not first.is_alive


def test_application_of_another_kind_is_another_one(started):
    shared_spark.take("k", started).close()
    shared_spark.take("other", started).close()
    assert len(started.sessions) == 2


def test_two_at_once_get_two_and_only_one_waits(started):
    first, second = shared_spark.take("k", started), shared_spark.take("k", started)
    first.close()
    second.close()
    second.close()
    assert [session.closed for session in started.sessions] == [False, True]


def test_application_that_was_cancelled_or_died_is_not_given_to_anybody(started):
    shared_spark.take("k", started).cancel()
    session = shared_spark.take("k", started)
    session.close()
    started.sessions[-1].is_alive = False
    shared_spark.take("k", started)
    assert len(started.sessions) == 3


def test_all_that_wait_leave_with_the_process(started):
    shared_spark.take("k", started).close()
    shared_spark.close_all()
    assert started.sessions[0].closed


def test_forked_process_leaves_the_applications_of_its_parent_alone(started, monkeypatch):
    shared_spark.take("k", started).close()
    monkeypatch.setattr(shared_spark, "_owner", 1)
    shared_spark.take("k", started)
    shared_spark.close_all()
    assert len(started.sessions) == 2
    assert not started.sessions[0].closed
    monkeypatch.undo()
