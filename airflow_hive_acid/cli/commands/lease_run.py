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
import time
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
        _end(process, min(grace, lease.duration_sec * _MARGIN))
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
    third = lease.duration_sec / 3
    # The first extension follows at once: how long ago the grant was is known to the database only.
    until, next_try = granted + lease.duration_sec, granted
    problem: HiveAcidError | None = None
    while True:
        now = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(_LOOK_SECONDS, next_try - now)))
            return _checked(leases, lease)
        now = time.monotonic()
        if now < next_try:
            continue
        if now >= until - lease.duration_sec * _MARGIN:
            return problem or LeaseEndedError(f"lease {lease.lease_id} could not be extended in time")
        try:
            lease = leases.extend_lease(lease)
            until, next_try, problem = now + lease.duration_sec, now + third, None
        except HiveAcidError as error:
            if not error.retryable:
                return error
            say(f"lease {lease.lease_id} could not be extended yet: {error}")
            problem, next_try = error, now + third / 4


def _checked(leases: Leases, lease: Lease) -> HiveAcidError | None:
    """Whether the lease was held to the end."""
    try:
        leases.require_lease(lease)
    except LeaseEndedError as error:
        return error
    return None


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """End what is left of the command's process group, first politely."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    # Whatever it has left in the background would go on without a lease.
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
