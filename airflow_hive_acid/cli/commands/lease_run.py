"""Running another program under a lease: kept alive while it runs, killed with all it has started when that is lost.

The program has a session of its own, so that its whole process group can be killed. It is killed before the lease ends
rather than after, also when the metastore cannot be reached: by this machine's monotonic clock, counted from before
the last extension was asked for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

from airflow_hive_acid.cli.output import say
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, LeaseEndedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.metastore.leases import Lease, Leases

_LOST = 1
_LOOK_SECONDS = 0.2
_MARGIN = 1 / 6
"""So much of a lease is left when a command is killed because the lease could not be extended."""


def run_under(
    leases: Leases, lease: Lease, command: Sequence[str], environment: Mapping[str, str], grace: float
) -> int:
    """Run a command while a lease is held, and drop the lease.

    :param lease: just grabbed.
    :param environment: added to ours.
    :param grace: seconds between SIGTERM and SIGKILL when the lease is lost.
    :return: the command's exit code; 128 and the signal's number when a signal ended it; 1 when the lease was lost.
    :raises InvalidArgumentsError: when there is no such program; the lease is dropped.
    """
    granted = time.monotonic()
    try:
        process = subprocess.Popen(list(command), env={**os.environ, **environment}, start_new_session=True)
    except OSError as error:
        leases.drop_lease(lease)
        raise InvalidArgumentsError(f"{command[0]} cannot be run: {error.strerror}") from error
    lost: HiveAcidError | None = None
    try:
        lost = _keep(leases, lease, process, granted)
    finally:
        # Also when somebody stops us: the lease must not outlive our watch over the command, nor the other way round.
        try:
            _end(process, min(grace, lease.duration_sec * _MARGIN))
        finally:
            if lost is None:
                with contextlib.suppress(LeaseEndedError):
                    leases.drop_lease(lease)
    if lost is not None:
        say(f"{command[0]} was killed: {lost}")
        return _LOST
    code = process.returncode
    return 128 - code if code < 0 else code


def _keep(leases: Leases, lease: Lease, process: subprocess.Popen[bytes], granted: float) -> HiveAcidError | None:
    """Extend the lease until the process ends; why it could not be, if so."""
    third, margin = lease.duration_sec / 3, lease.duration_sec * _MARGIN
    # The first extension follows at once: how long ago the grant was is known to the database only.
    until, next_try = granted + lease.duration_sec, granted
    problem: HiveAcidError | None = None
    asked: Future[Lease] | None = None
    asked_at = granted
    while True:
        wake = next_try if asked is None else until - margin
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(_LOOK_SECONDS, wake - time.monotonic())))
            return _checked(leases, lease)
        now = time.monotonic()
        if asked is not None and asked.done():
            try:
                lease = asked.result()
                until, next_try, problem = asked_at + lease.duration_sec, asked_at + third, None
            except HiveAcidError as error:
                if not error.retryable:
                    return error
                say(f"lease {lease.lease_id} could not be extended yet: {error}")
                problem, next_try = error, asked_at + third / 4
            asked = None
        if now >= until - margin:
            return problem or LeaseEndedError(f"lease {lease.lease_id} could not be extended in time")
        if asked is None and now >= next_try:
            asked, asked_at = _extending(leases, lease), now


def _extending(leases: Leases, lease: Lease) -> Future[Lease]:
    """Extend a lease in a thread of its own, which nobody has to wait for: a metastore behind a line that is cut gives
    no answer for minutes, and no error either."""
    future: Future[Lease] = Future()

    def ask() -> None:
        try:
            future.set_result(leases.extend_lease(lease))
        except Exception as problem:  # noqa: BLE001 - raised where it is looked at
            future.set_exception(problem)

    threading.Thread(target=ask, name="hive-acid-lease", daemon=True).start()
    return future


def _checked(leases: Leases, lease: Lease) -> HiveAcidError | None:
    """Whether the lease was held to the end."""
    try:
        leases.require_lease(lease)
    except LeaseEndedError as error:
        return error
    return None


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """End what is left of the command's process group, first politely."""
    try:
        if process.poll() is None:
            _signal(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
    finally:
        # Whatever it has left in the background would go on without a lease; so would all of it, if somebody who has
        # no patience stops us once more.
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
