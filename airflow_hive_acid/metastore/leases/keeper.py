"""A lease held for as long as a block runs: grabbed, extended in the background, dropped.

The extensions go out every third of the lease's duration, so that two may fail before it ends. A lease that was lost
all the same is noticed at the next one, and said at the end of the block at the latest: what is committed under the
lease (``transaction(lease=…)``) is safe in any case (R8), other work has to look at :meth:`KeptLease.require`.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ExceedsMaxLeaseTimeError, LeaseEndedError
from airflow_hive_acid.metastore.database.heartbeats import Heartbeater

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.metastore.leases.manager import Leases
    from airflow_hive_acid.metastore.leases.model import Lease

log = logging.getLogger(__name__)

_PART = 3
_SHORTEST_SECONDS = 0.1


class KeptLease:
    """A lease that is extended in the background from :meth:`__enter__` to :meth:`__exit__`.

    :ivar on_lost: called in the background when an extension finds that the lease has ended: stop working.
    """

    def __init__(self, leases: Leases, lease: Lease) -> None:
        self._leases = leases
        self._lease = lease
        self._lost: LeaseEndedError | None = None
        self.on_lost: Callable[[], None] | None = None
        self._heartbeats = Heartbeater(
            lambda _: self._extend(), max(lease.duration_sec / _PART, _SHORTEST_SECONDS), what="lease"
        )

    @property
    def lease(self) -> Lease:
        """The handle, with the end of the last extension."""
        return self._lease

    @property
    def lease_id(self) -> int:
        """The fencing token: a later grant has a larger one."""
        return self._lease.lease_id

    @property
    def lost(self) -> LeaseEndedError | None:
        """Why the lease is not held any more, if an extension has found that."""
        return self._lost

    def require(self) -> None:
        """Ask the metastore whether the lease is held now.

        :raises LeaseEndedError: when it is not.
        """
        self._lease = self._leases.require_lease(self._lease)

    def __enter__(self) -> KeptLease:
        self._heartbeats.add(self.lease_id)
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeats.close()

    def _extend(self) -> None:
        try:
            try:
                self._lease = self._leases.extend_lease(self._lease)
            except ExceedsMaxLeaseTimeError as error:
                # Not lost yet: it is held to its end, and from then on the next look says so.
                log.warning("lease %d cannot be extended: %s", self.lease_id, error)
                self.require()
        except LeaseEndedError as lost:
            self._lost = lost
            if self.on_lost is not None:
                self.on_lost()
            raise


@contextlib.contextmanager
def kept(leases: Leases, lease: Lease, *, drop: bool) -> Iterator[KeptLease]:
    """Keep a lease while a block runs.

    :param drop: give it back afterwards; otherwise it stays, for somebody else to go on with.
    :raises LeaseEndedError: at the end, when it was lost meanwhile and the block did not fail: what was done in it,
        other than transactions under the lease, was not protected to its end.
    """
    with KeptLease(leases, lease) as keeper:
        try:
            yield keeper
        except BaseException:
            if drop:
                with contextlib.suppress(LeaseEndedError):
                    leases.drop_lease(keeper.lease)
            raise
    if drop:
        leases.drop_lease(keeper.lease)
    else:
        keeper.require()
