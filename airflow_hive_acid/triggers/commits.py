"""Commits by any engine as events of assets: what schedules a DAG when a table has changed.

All watchers of a connection share one look at the notification log. Each has a watermark of its own, kept in Airflow's
store for the asset, so that nothing is told anew when the triggerer restarts, and nothing is lost:

- before a watcher tells commits it notes up to where it is about to tell;
- the watermark moves when Airflow has confirmed that it stored the events (a triggerer in "ack mode" says so);
- who restarts goes on from the watermark. Events between it and the note may have been stored before the end, or not;
  nobody can know. They are told again, and say ``redelivered``.

What was purged from the log before it was read is an event, too (``kind`` ``gap``): the DAG runs, and can look itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_hive_acid.airflow_versions import AdvanceItem, AdvanceOutcome, SharedStreamProducer
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.faces import renamed
from airflow_hive_acid.hooks.assets import EVENTS_SETTING, WATCHER, table_asset
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.shared import in_thread, shared_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Sequence

    from airflow.sdk import Asset

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.listing import CommitLog, CommitPage, Missed
    from airflow_hive_acid.metastore.names import TableName

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_LONGEST_PAUSE = 60.0
#: A watermark that only passes over the commits of others is kept this often, so that the log's purge never passes it.
_KEEP_SECONDS = 60.0
#: A watcher that is behind reads so many pages before it lets Airflow confirm what it has told.
_PAGES_AT_ONCE = 4
_OPERATIONS = ("insert", "update", "delete", "overwrite", "change")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a watcher has come.

    :param upto: events up to here are told, and Airflow has them.
    :param telling: events up to here may have been told.
    :param time: when the event ``upto`` was written, in seconds since 1970; None when that is not known.
    """

    upto: int
    telling: int
    time: int | None = None

    def to_document(self) -> dict[str, int]:
        """As Airflow's store keeps it."""
        noted = {} if self.time is None else {"time": self.time}
        return {"upto": self.upto, "telling": self.telling, **noted}

    @classmethod
    def from_document(cls, document: Any) -> Position | None:
        """What the store holds; None when that is nothing of ours."""
        if not isinstance(document, dict) or not isinstance(document.get("upto"), int):
            return None
        upto, time = int(document["upto"]), document.get("time")
        return cls(upto, max(upto, int(document.get("telling", upto))), time if isinstance(time, int) else None)


@dataclass(eq=False, slots=True)
class Look:
    """A page of the log as the stream hands it to the watchers.

    :param receipts: up to where each watcher has told when it was done with it.
    """

    page: CommitPage
    receipts: dict[HiveAcidCommitTrigger, int] = field(default_factory=dict)


class HiveAcidCommitTrigger(BaseEventTrigger):
    """Fires for each commit to a table, by whatever engine; for an ``AssetWatcher`` (:func:`watched_table`).

    The event's payload says ``kind`` (``commit`` or ``gap``), ``event_id``, ``time``, ``table``, ``partitions``,
    ``operations``, ``txn_id``, ``write_id``, ``rows``, ``files``, ``bytes``, ``user``, ``agent_info``, ``conn_id`` and
    ``redelivered``; what is not known is None.

    :param table: ``db.table``.
    :param partition: only commits that touch this partition, or partitions below it (``k1=v1`` of ``k1=v1/k2=v2``).
    :param operations: only commits with one of ``insert``, ``update``, ``delete``, ``overwrite`` (of a table without
        transactions) and ``change``, which is any of the last three, or unknown; None: any commit.
    :param hive_acid_conn_id: connection of type ``hive_acid``.
    """

    def __init__(
        self,
        table: str,
        partition: str | None = None,
        operations: list[str] | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = table
        self.partition = partition
        self.operations = operations
        self.hive_acid_conn_id = hive_acid_conn_id
        self._wanted = _checked(table, partition, operations)
        self._position: Position | None = None
        self._doubt = 0
        self._done = 0
        self._times: dict[int, int | None] = {}
        self._kept = 0.0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, from which Airflow makes this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "table": self.table,
            "partition": self.partition,
            "operations": self.operations,
            "hive_acid_conn_id": self.hive_acid_conn_id,
        }

    def shared_stream_key(self) -> Hashable:
        """All watchers of a connection read one log."""
        return ("hive_acid_commits", self.hive_acid_conn_id)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """What reads the log, and hears from Airflow what it has stored."""
        return CommitProducer(kwargs["hive_acid_conn_id"])

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Look]) -> AsyncIterator[TriggerEvent]:
        """This watcher's events, of the looks at the log and of what it has missed before."""
        async with shared_client(self.hive_acid_conn_id) as client:
            hub = _hub(self.hive_acid_conn_id, client)
            hub.join(self)
            try:
                async for look in shared_stream:
                    # Whatever is told is told while a look is open: Airflow confirms it with the look.
                    if self._position is None:
                        async for event in self._begin(hub):
                            yield event
                    async for event in self._catch_up(hub, look.page.after):
                        yield event
                    if self._done >= look.page.after:
                        async for event in self._tell(hub, look.page):
                            yield event
                    look.receipts[self] = self._done
            finally:
                hub.leave(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same where streams are not shared: whoever comes back for the next event has stored the last one."""
        producer = CommitProducer(self.hive_acid_conn_id)
        if self._store() is None:
            log.warning(
                "%s: this Airflow keeps nothing for watchers (3.3 does): commits that are made while the triggerer "
                "restarts start no DAG",
                self.table,
            )

        async def looks() -> AsyncIterator[Look]:
            async for look, _ in producer.open_stream():
                yield look
                await producer.advance([AdvanceItem(look, AdvanceOutcome(acked=1, failed=0))])

        async for event in self.filter_shared_stream(looks()):
            yield event

    async def _begin(self, hub: CommitHub) -> AsyncIterator[TriggerEvent]:
        """Find the place to go on from; a watcher that was never there before begins now."""
        latest, written = await _patiently(hub.log.standing)
        found = Position.from_document(await self._recall())
        lost = None if found is None else await self._lost(hub, found, latest)
        if lost is not None:
            # The log begins anew: nothing of it has been told, and it cannot be said what of it is new.
            missed = {"first": lost[0], "last": lost[1], "reason": "the log begins anew"}
            log.warning("%s: %s; going on from event %d", self.table, missed, latest)
            yield self._event({"kind": "gap", "event_id": latest, "missed": missed}, redelivered=False)
            # Not kept before Airflow has the event: kept with the next look that is confirmed.
            self._position, self._done, self._times = Position(-1, latest), latest, {latest: written}
            return
        if found is None:
            found = Position(latest, latest, written)
            await self._keep(found)
        self._position, self._done, self._doubt = found, found.upto, found.telling
        self._kept = time.monotonic()

    async def _lost(self, hub: CommitHub, position: Position, latest: int) -> tuple[int, int] | None:
        """The events of which nobody knows what was told, where the log is not the one that the watermark is of.

        It is from a backup. What it has lost may have been given its ids again by now, which their times show.
        """
        if position.telling > latest:
            return latest + 1, position.telling
        if position.time is None:
            return None
        from airflow_hive_acid.metastore.notifications import is_another_log  # not needed to parse a DAG file

        written = await _patiently(hub.log.written_at, position.upto)
        return (1, latest) if is_another_log(position.time, written) else None

    async def _catch_up(self, hub: CommitHub, upto: int) -> AsyncIterator[TriggerEvent]:
        """Read by itself what the others have read before this one came."""
        for _ in range(_PAGES_AT_ONCE):
            if self._done >= upto:
                return
            page = await _patiently(hub.log.read, self._done)
            async for event in self._tell(hub, page):
                yield event
        hub.behind.set()

    async def _tell(self, hub: CommitHub, page: CommitPage) -> AsyncIterator[TriggerEvent]:
        table, partition, operations = self._wanted
        if partition is not None and any(commit.table == table for commit in page.commits):
            # By now the catalog knows the types of its columns: d=2024-1-2 is d=2024-01-02.
            partition = await _patiently(hub.log.partition_of, table, partition)
        missed = [gap for gap in page.missed if gap.last > self._done]
        commits = [
            commit
            for commit in page.commits
            if (commit.event_id or 0) > self._done and commit.concerns(table, partition, operations)
        ]
        if missed or commits:
            position = self._position
            if position is None:
                raise AssertionError("tells before it knows where it is")
            await self._keep(Position(position.upto, max(position.telling, page.upto), position.time))
        for gap in missed:
            log.warning("%s: events %d to %d are missing: %s", self.table, gap.first, gap.last, gap.reason)
            yield self._event(_gap_document(gap), redelivered=gap.last <= self._doubt)
        for commit in commits:
            yield self._event(commit.to_document(), redelivered=(commit.event_id or 0) <= self._doubt)
        if page.upto > self._done:
            self._done = page.upto
            self._times[page.upto] = page.time

    def _event(self, document: dict[str, Any], *, redelivered: bool) -> TriggerEvent:
        payload = {**document, "table": str(self._wanted[0]), "conn_id": self.hive_acid_conn_id}
        return TriggerEvent({**payload, "redelivered": redelivered})  # type: ignore[no-untyped-call]

    async def confirmed(self, upto: int) -> None:
        """Airflow has stored everything that was told up to here."""
        position = self._position
        if position is None or upto <= position.upto:
            return
        told = position.telling > position.upto
        self._times = {done: time for done, time in self._times.items() if done >= upto}
        if told or self.overdue:
            await self._keep(Position(upto, max(upto, position.telling), self._times.get(upto)))

    @property
    def overdue(self) -> bool:
        """It has not kept its watermark for long, though it has moved."""
        return self._position is not None and self._done > self._position.upto and self._age() >= _KEEP_SECONDS

    def _age(self) -> float:
        return time.monotonic() - self._kept

    async def _recall(self) -> Any:
        store = self._store()
        return None if store is None else await store.aget(self._key())

    async def _keep(self, position: Position) -> None:
        store = self._store()
        if store is not None and (position != self._position):
            await store.aset(self._key(), position.to_document())
        self._position, self._kept = position, time.monotonic()

    def _store(self) -> Any:
        """Where the watermark is kept; with several assets on one trigger, at the first by name."""
        stores = getattr(self, "asset_state_store", None)  # Airflow has it since 3.3
        if stores is None:
            return None
        by_name = getattr(stores, "_by_name", None)
        return by_name[min(by_name)] if by_name else stores

    def _key(self) -> str:
        _, arguments = self.serialize()
        digest = hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()[:16]
        return f"hive_acid_commits_{digest}"


class CommitProducer(SharedStreamProducer):
    """Reads the log for all watchers of a connection.

    :param conn_id: the connection.
    """

    def __init__(self, conn_id: str) -> None:
        self._conn_id = conn_id

    async def open_stream(self) -> AsyncIterator[tuple[Look, Look]]:
        """Looks, from now on: each watcher reads by itself what came before."""
        async with shared_client(self._conn_id) as client:
            await self._require_source(client)
            hub = _hub(self._conn_id, client)
            hub.producers += 1
            try:
                after, written = await _patiently(hub.log.standing)
                while True:
                    page = await _patiently(hub.log.read, after, written)
                    if page.upto < after or page.anew:
                        raise InvalidArgumentsError(f"the log of {self._conn_id} begins anew; so do its watchers")
                    if page.upto > after or page.time is not None:
                        written = page.time
                    if page.upto > after or hub.takes_news():
                        after = page.upto
                        look = Look(page)
                        yield look, look
                    if not page.more:
                        await hub.pause()
            finally:
                hub.producers -= 1
                hub.forget_if_unused()

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Airflow has stored the events of some looks: the watermarks move.

        :raises HiveAcidError: when it could not; then all watchers begin again from their watermarks.
        """
        upto: dict[HiveAcidCommitTrigger, int] = {}
        for item in batch:
            if item.outcome.failed:
                raise InvalidArgumentsError("events of a watcher were not stored; they are told again")
            for trigger, done in item.broker_payload.receipts.items():
                upto[trigger] = max(done, upto.get(trigger, 0))
        for trigger, done in upto.items():
            await trigger.confirmed(done)

    async def _require_source(self, client: MetastoreClient) -> None:
        """Wait while operators tell of commits: the same commit is not told twice."""
        while client.settings.string(EVENTS_SETTING) != WATCHER:
            log.error(
                "Watchers of connection %s tell nothing: %s is %r there, so operators tell of their commits. "
                "Set it to %r, and restart the triggerer",
                self._conn_id, EVENTS_SETTING, client.settings.string(EVENTS_SETTING), WATCHER,
            )  # fmt: skip
            await asyncio.sleep(_LONGEST_PAUSE)


class CommitHub:
    """What the watchers of a connection in one event loop share.

    :param client: of the metastore.
    """

    def __init__(self, key: tuple[int, str], client: MetastoreClient) -> None:
        self.client = client
        self.log = _new_log(client)
        self.behind = asyncio.Event()
        self.producers = 0
        self._key = key
        self._watchers: set[HiveAcidCommitTrigger] = set()

    def join(self, watcher: HiveAcidCommitTrigger) -> None:
        """A watcher comes; the next look is at once, so that it can catch up."""
        self._watchers.add(watcher)
        self.behind.set()

    def leave(self, watcher: HiveAcidCommitTrigger) -> None:
        """A watcher goes."""
        self._watchers.discard(watcher)
        self.forget_if_unused()

    def takes_news(self) -> bool:
        """Whether somebody needs a look even if nothing has happened; asked once for each look."""
        behind = self.behind.is_set()
        self.behind.clear()
        return behind or any(watcher.overdue for watcher in self._watchers)

    async def pause(self) -> None:
        """Until the next look."""
        with contextlib.suppress(asyncio.TimeoutError):  # in Python 3.10 not TimeoutError itself
            await asyncio.wait_for(self.behind.wait(), _LOOK_SECONDS)

    def forget_if_unused(self) -> None:
        """The last one switches off the light: the client is closed with its last user."""
        if not self._watchers and not self.producers and _hubs.get(self._key) is self:
            del _hubs[self._key]


_hubs: dict[tuple[int, str], CommitHub] = {}


def _hub(conn_id: str, client: MetastoreClient) -> CommitHub:
    key = (id(asyncio.get_running_loop()), conn_id)
    hub = _hubs.get(key)
    if hub is None or hub.client is not client:
        hub = _hubs[key] = CommitHub(key, client)
    return hub


def _new_log(client: MetastoreClient) -> CommitLog:
    from airflow_hive_acid.metastore.listing import CommitLog  # not needed to parse a DAG file

    return CommitLog(client.database, client.notifications)


async def _patiently(look: Any, *arguments: Any) -> Any:
    """Ask the metastore, however long it is away: commits do not get lost meanwhile."""
    pause = _LOOK_SECONDS
    while True:
        try:
            return await in_thread(look, *arguments)
        except HiveAcidError as error:
            log.warning("Commits cannot be looked for; next try in %.0f s: %s", pause, error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def watched_table(
    table: str,
    conn_id: str = DEFAULT_CONN_ID,
    *,
    partition: str | None = None,
    operations: Sequence[str] | None = None,
) -> Asset:
    """The asset of a table or partition, with a watcher: a commit by any engine is an event of it.

    ``DAG("report", schedule=[watched_table("sales.orders")])``

    :param table: ``db.table``.
    :param conn_id: the connection of type ``hive_acid``.
    :param partition: a partition, or the first keys of several.
    :param operations: as of :class:`HiveAcidCommitTrigger`.
    """
    trigger = HiveAcidCommitTrigger(table, partition, None if operations is None else sorted(operations), conn_id)
    asset = table_asset(table, conn_id, partition)
    asset.watchers = [AssetWatcher(name=f"commits of {asset.name}", trigger=trigger)]
    return asset


def _checked(
    table: str, partition: str | None, operations: Sequence[str] | None
) -> tuple[TableName, str | None, tuple[str, ...] | None]:
    from airflow_hive_acid.metastore.names import canonical_partition, table_name

    for operation in operations or ():
        if operation not in _OPERATIONS:
            raise InvalidArgumentsError(f"{operation!r} is no operation; there are {', '.join(_OPERATIONS)}")
    wanted = None if partition is None else canonical_partition(partition)
    return table_name(table), wanted, None if operations is None else tuple(operations)


def _gap_document(gap: Missed) -> dict[str, Any]:
    missed = {"first": gap.first, "last": gap.last, "reason": gap.reason}
    return {"kind": "gap", "event_id": gap.last, "missed": missed}


__getattr__ = renamed(__name__, {"HiveCommitTrigger": "HiveAcidCommitTrigger"})
