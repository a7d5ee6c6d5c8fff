"""One application at a time, of the kind that is asked for."""

from __future__ import annotations

import pytest

from airflow_hive_acid.engine.applications.shared_application import SharedApplication
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.maintenance.worker.jobs import Application

ANY = Application()


class Session:
    def __init__(self, application):
        self.application = application
        self.is_alive = True
        self.closed = False

    def wait_ready(self):
        return self.application.name

    def cancel(self):
        self.is_alive = False

    def close(self):
        self.is_alive, self.closed = False, True


class Launcher:
    def __init__(self):
        self.started = []

    def start(self, application=ANY):
        self.started.append(Session(application))
        return self.started[-1]


@pytest.fixture
def launcher():
    return Launcher()


@pytest.fixture
def shared(launcher):
    return SharedApplication(launcher, lambda event: None)


def test_requests_of_one_kind_share_an_application_named_after_the_first(shared, launcher):
    first = shared.ready(Application("host1-compactor-a.b"))
    assert shared.ready(Application("host1-compactor-c.d")) is first
    assert shared.ready() is first
    assert [session.application.name for session in launcher.started] == ["host1-compactor-a.b"]


def test_another_queue_or_user_gets_another_one_in_its_place(shared, launcher):
    first = shared.ready()
    second = shared.ready(Application("q", {"spark.yarn.queue": "etl"}))
    third = shared.ready(Application("q", {"spark.yarn.queue": "etl"}, "ann"))
    assert first.closed
    assert second.closed
    assert [session.application.user for session in launcher.started] == [None, None, "ann"]
    assert shared.ready(Application("x", {"spark.yarn.queue": "etl"}, "ann")) is third


def test_after_a_stop_the_next_gets_a_new_one_and_after_a_cancel_none(shared, launcher):
    first = shared.ready()
    shared.stop()
    assert not first.is_alive
    assert shared.ready() is not first
    shared.cancel()
    with pytest.raises(JobFailedError, match="cancelled"):
        shared.ready()
