"""``hive-acid lease``: taking and giving back leases, and running other tools under one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from airflow_hive_acid.cli.commands.lease import lease_of_environment
from airflow_hive_acid.cli.commands.lease_run import run_under
from airflow_hive_acid.cli.main import app
from airflow_hive_acid.errors import InvalidArgumentsError, LeaseAlreadyExistsError, LeaseEndedError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.schema.leases import HIVE_ACID_LEASE_AUDIT

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def call(metastore_url: str) -> Callable[..., Any]:
    def run(*arguments: str, token: str | None = None) -> Any:
        environment = {"HIVE_ACID_LEASE": token}
        return CliRunner(env=environment).invoke(app, ["--metastore-url", metastore_url, "lease", *arguments])

    return run


def test_a_lease_is_taken_extended_and_given_back_by_its_token(call: Any, client: MetastoreClient) -> None:
    token = call("grab", "--on", "db.t", "--on", "db.u/p=1", "--type", "s", "--duration", "60").stdout.strip()
    listed = json.loads(call("list", "--format", "json").stdout)
    assert [(r["db_name"], r["table_name"], r["partition_name"], r["lease_type"]) for r in listed] == [
        ("db", "t", None, "s"),
        ("db", "u", "p=1", "s"),
    ]
    assert token.partition(".")[2] not in json.dumps(listed)
    extended = call("extend", "--duration", "600", token=token)
    assert (extended.exit_code, "lease" in extended.stderr) == (0, True)
    assert client.leases.list_lease()[0].end_utc > client.leases.list_lease()[0].start_utc + 500_000
    assert call("drop", "--on", "db.t", token=token).exit_code == 0
    assert [r["table_name"] for r in json.loads(call("list", "--format", "json").stdout)] == ["u"]
    assert call("drop", token=token).exit_code == 0
    assert isinstance(call("drop", token=token).exception, LeaseEndedError)


def test_what_is_taken_is_refused_and_can_be_dropped_by_force(call: Any, client: MetastoreClient) -> None:
    call("grab", "--on", "db.t")
    assert isinstance(call("grab", "--on", "db.t/p=1").exception, LeaseAlreadyExistsError)
    assert call("force-drop", "--on", "db.t").exit_code == 1  # no reason
    dropped = call("force-drop", "--all", "--why", "the owner has left", "--format", "json")
    assert [r["table_name"] for r in json.loads(dropped.stdout)] == ["t"]
    with client.database.reading() as connection:
        assert connection.execute(select(HIVE_ACID_LEASE_AUDIT.c.HLA_WHY)).scalars().all() == ["the owner has left"]


@pytest.mark.parametrize(
    "arguments",
    [["grab"], ["drop"], ["extend"], ["force-drop"], ["force-drop", "--all", "--on", "db.t"], ["run", "--", "true"]],
)
def test_what_is_missing_is_asked_for(call: Any, arguments: list[str]) -> None:
    assert call(*arguments).exit_code == 2


# --- lease run ----------------------------------------------------------------------------------------------------

_PYTHON = [sys.executable, "-c"]


def test_a_command_runs_while_its_lease_is_extended(client: MetastoreClient, tmp_path: Path) -> None:
    """It runs for longer than the lease was taken for."""
    lease = client.leases.grab_lease("db.t", 2.4)
    script = (
        f"import os, time; time.sleep(2.8); open({str(tmp_path / 'out')!r}, 'w').write(os.environ['TOKEN']); exit(7)"
    )
    assert run_under(client.leases, lease, [*_PYTHON, script], {"TOKEN": lease.token}, 1) == 7
    assert (tmp_path / "out").read_text() == lease.token
    assert client.leases.list_lease() == []


def test_a_command_and_what_it_has_started_are_killed_when_the_lease_is_lost(
    client: MetastoreClient, metastore_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lease = client.leases.grab_lease("db.t", 6)
    pids = tmp_path / "pids"
    script = (
        "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"open({str(pids) + '.new'!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}');"
        f"os.rename({str(pids) + '.new'!r}, {str(pids)!r}); time.sleep(600)"
    )

    def steal() -> None:
        while not pids.exists():
            time.sleep(0.02)
        with MetastoreClient(metastore_url) as other:
            other.leases.force_drop_lease([], "root", "test")

    thief = threading.Thread(target=steal)
    thief.start()
    assert run_under(client.leases, lease, [*_PYTHON, script], {}, 0.2) == 1
    thief.join()
    assert "was killed: lease" in capfd.readouterr().err
    deadline = time.monotonic() + 30
    for pid in pids.read_text().split():
        while not _is_gone(int(pid)):  # it was sent SIGKILL, and a busy machine takes its time
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_command_is_killed_before_its_lease_ends_when_the_metastore_does_not_answer(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_hive_acid.errors import MetastoreUnavailableError

    def fail(lease: Any) -> None:
        raise MetastoreUnavailableError("gone")

    lease = client.leases.grab_lease("db.t", 3)
    monkeypatch.setattr(client.leases, "extend_lease", fail)
    assert run_under(client.leases, lease, [*_PYTHON, "import time; time.sleep(600)"], {}, 5) == 1
    assert client.leases.confirm_lease(lease)  # it still lasts for a moment: the command did not outlive it


def test_a_command_is_killed_before_its_lease_ends_when_the_metastore_is_silent(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line to it is cut: no answer, and no error for minutes.

    t1  the lease is granted; the first extension is asked for, and nobody answers
    t2  a sixth of the lease is left: the command is killed
    t3  the lease ends, and somebody else may have the table
    """
    over = threading.Event()
    extend = client.leases.extend_lease

    def silent(lease: Any) -> Any:
        over.wait(12)
        return extend(lease)

    lease = client.leases.grab_lease("db.t", 6)
    monkeypatch.setattr(client.leases, "extend_lease", silent)
    try:
        assert run_under(client.leases, lease, [*_PYTHON, "import time; time.sleep(600)"], {}, 5) == 1
        assert client.leases.confirm_lease(lease)  # the command did not outlive it
    finally:
        over.set()


def test_a_command_does_not_go_on_because_somebody_stops_us_twice(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C, and once more while the command is given its time to end."""
    ready = tmp_path / "ready"
    script = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"open({str(ready) + '.new'!r}, 'w').write(str(os.getpid()));"
        f"os.rename({str(ready) + '.new'!r}, {str(ready)!r}); time.sleep(600)"
    )
    wait = subprocess.Popen.wait

    def stopped(process: Any, timeout: float | None = None) -> int:
        if timeout is None:
            return wait(process)
        while not ready.exists():
            time.sleep(0.02)
        raise KeyboardInterrupt

    lease = client.leases.grab_lease("db.t", 60)
    monkeypatch.setattr(subprocess.Popen, "wait", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_under(client.leases, lease, [*_PYTHON, script], {}, 5)
    pid = int(ready.read_text())
    try:
        assert _is_gone(pid)
        assert client.leases.list_lease() == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_program_that_is_none_gives_the_lease_back(client: MetastoreClient) -> None:
    lease = client.leases.grab_lease("db.t", 60)
    with pytest.raises(InvalidArgumentsError, match="cannot be run: No such file"):
        run_under(client.leases, lease, ["/no/such/program"], {}, 1)
    assert client.leases.list_lease() == []


def test_a_signal_that_ends_the_command_is_its_exit_code(client: MetastoreClient) -> None:
    lease = client.leases.grab_lease("db.t", 60)
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run_under(client.leases, lease, [*_PYTHON, script], {}, 1) == 137


def test_statements_run_under_the_lease_of_the_environment(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``hive-acid lease run … -- hive-acid sql …``"""
    monkeypatch.delenv("HIVE_ACID_LEASE", raising=False)
    assert lease_of_environment(client.leases) is None
    lease = client.leases.grab_lease("db.t", 60)
    monkeypatch.setenv("HIVE_ACID_LEASE", lease.token)
    found = lease_of_environment(client.leases)
    assert found is not None
    assert found.objects == lease.objects
    client.leases.drop_lease(lease)
    with pytest.raises(LeaseEndedError):
        lease_of_environment(client.leases)


def _is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet counts as gone."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def test_a_lease_is_confirmed_while_it_is_held_and_then_not(call: Any) -> None:
    token = call("grab", "--on", "db.t", "--duration", "60").stdout.strip()
    held = call("confirm", token=token)
    assert held.exit_code == 0
    assert "db.t is held until" in held.stderr.replace("\n", " ")
    call("drop", token=token)
    assert isinstance(call("confirm", token=token).exception, LeaseEndedError)
    assert call("confirm").exit_code == 2  # no token
