"""The lock manager of the Hive Concurrency Model on ZooKeeper, as the document describes it (ZooKeeperHiveLockManager).

For each object of a request, in lexicographic order: create a sequential ephemeral node, list its siblings without a
watch, and look for an earlier one in the way. If there is one, everything the request has made is deleted and it is
denied. The nodes belong to a session of this manager and vanish with it: locks of a killed process end when ZooKeeper
gives up its session, and nobody has to expire them.

A process that is cut off from ZooKeeper loses its locks in the same way, and does not learn of it at once. So two
things are added to the recipe. :meth:`ZooKeeperLockManager.check_lock` looks for the very nodes that were granted;
the engine asks before it publishes and before it answers. And an X lock whose owner works in a txn leaves a persistent
node ``txn-<id>``: while the metastore says that this txn is open the object counts as locked, because only the reaper,
which ends the txn, undoes what its jobs did (R4).
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote

from sqlalchemy import bindparam, select

from airflow_hive_acid.errors import ConfigurationError, MetastoreUnavailableError, NoSuchLockError
from airflow_hive_acid.metastore.database.codes import LockState, LockType, TxnState
from airflow_hive_acid.metastore.locks.interface import LockResponse, describe_object
from airflow_hive_acid.metastore.locks.legacy.concurrency_model import (
    ConcurrencyModelLocks,
    LegacyLockRow,
    Object,
    objects_of,
)
from airflow_hive_acid.metastore.locks.legacy.zookeeper_access import Access, kazoo_module
from airflow_hive_acid.metastore.locks.legacy.zookeeper_nodes import (
    PREFIXES,
    TXN_PREFIX,
    LockData,
    LockNode,
    escape,
    first_in_the_way,
    is_object,
    object_at,
    path_of,
    txns_among,
)
from airflow_hive_acid.metastore.names.objects import info
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.locks.interface import LockRequest
    from airflow_hive_acid.settings import Settings

_STATE = select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == bindparam("txn_id"))
_TYPES = {"s": LockType.SHARED_READ, "x": LockType.EXCLUSIVE}
_NO_LOCK = 0
"""Id of the answer while locks are switched off."""
_QUERY_LENGTH = 4000
_MOST_BYTES = 256 * 1024
"""Of one request of several operations; ZooKeeper refuses more than a megabyte (jute.maxbuffer)."""
_PAUSE = 0.1
"""Seconds between two looks while the connection is lost."""
_TRIES = 10
"""To create a node below an object that somebody else removes again and again."""


class _SessionEndedError(MetastoreUnavailableError):
    """ZooKeeper has given up the session, and every node made in it is gone."""


@dataclass(slots=True)
class _Held:
    """A lock's node.

    :param made: its czxid, by which it is told from a later one of that name.
    :param session: in which it was made, and with which it ends.
    """

    path: str
    mode: str
    made: int
    session: int
    data: LockData
    txns: list[str] = field(default_factory=list)
    """Paths of the ``txn-`` nodes beside it."""


class ZooKeeperLockManager(ConcurrencyModelLocks):
    """Keeps S and X locks as ephemeral nodes.

    The session begins with the first call and ends with :meth:`close`, and with it all locks.

    :param database: the metastore, which says whether a txn is open.
    :param settings: ``hive.zookeeper.…``, besides those of every such manager.
    :raises ConfigurationError: when ``hive.zookeeper.quorum`` names no server.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__(settings)
        self._database = database
        self._enabled = settings.flag("hive.support.concurrency")
        self._access = Access.of(settings)
        namespace = [part for part in settings.string("hive.zookeeper.namespace").split("/") if part]
        self._root = "/" + "/".join(map(escape, namespace))
        if not namespace:
            raise ConfigurationError("hive.zookeeper.namespace is empty; name a node, such as hive_zookeeper_namespace")
        self._answer_seconds = self._access.answer_seconds
        self._cleans = settings.flag("hive.zookeeper.clean.extra.nodes")
        self._kazoo: Any = None
        self._connecting = threading.Lock()  # heartbeats come from another thread
        self._held: dict[int, list[_Held]] = {}

    def lock(self, request: LockRequest) -> LockResponse:
        """Take all locks of a request, or none: ACQUIRED, or NOT_ACQUIRED with what is in the way; it never waits.

        With ``hive.support.concurrency`` off nothing is locked and everything granted.

        :raises MetastoreUnavailableError: when ZooKeeper does not answer; nothing is held, and whatever this manager
            held is gone with its session.
        """
        wanted = objects_of(request.components)
        if not self._enabled:
            return LockResponse(_NO_LOCK, LockState.ACQUIRED)
        data = LockData(
            request.query_id, int(time.time() * 1000), info(request.query, _QUERY_LENGTH) or None, info(request.host),
            0, 0, info(request.user), info(request.agent_info) or None,
        )  # fmt: skip
        taken: list[_Held] = []
        lock_id = 0
        try:
            for number, (place, mode) in enumerate(wanted.items(), 1):
                held = self._create(place, mode, data, lock_id, number)
                lock_id = lock_id or held.made
                taken.append(held)
                blocking = self._in_the_way(place, held)
                if blocking is not None:
                    self._delete(taken)
                    said = (
                        f"{blocking} on {describe_object(place[0], place[1] or None, place[2] or None)} is in the way"
                    )
                    return LockResponse(lock_id, LockState.NOT_ACQUIRED, blocking.removeprefix("lock "), said)
            self._held[lock_id] = taken
            if request.txn_id:
                self.bind(lock_id, request.txn_id)
        except MetastoreUnavailableError:
            # A node may have been made all the same, and its name is not known: it ends with the session.
            self.close()
            raise
        except BaseException:
            self._held.pop(lock_id, None)
            self._delete(taken)
            raise
        return LockResponse(lock_id, LockState.ACQUIRED)

    def check_lock(self, lock_id: int) -> LockResponse:
        """Are the nodes of a request still there? Then it has held them all the time since it was granted.

        :raises NoSuchLockError: when one is gone: released, or ended with the session.
        :raises MetastoreUnavailableError: when ZooKeeper does not answer, so that nobody knows.
        """
        deadline = time.monotonic() + self._answer_seconds
        while lock_id != _NO_LOCK:
            try:
                if self._is_held(lock_id):
                    break
                self._lost(lock_id)
            except _SessionEndedError:
                self._lost(lock_id)
            except MetastoreUnavailableError:
                # The session may outlive a connection; the client is looking for another server meanwhile.
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
        return LockResponse(lock_id, LockState.ACQUIRED)

    def bind(self, lock_id: int, txn_id: int) -> None:
        """Say in which txn the owner works: as long as that is open its X locks stand, with or without a session (R4).

        :raises NoSuchLockError: when a node is gone; the txn must do nothing.
        """
        if lock_id == _NO_LOCK:
            return
        nodes = self._held.get(lock_id)
        if nodes is None:
            self._lost(lock_id, "this process did not take it")
        for part in _portions(nodes):
            transaction = self._session().transaction()
            for node in part:
                node.data = replace(node.data, txn_id=txn_id)
                # In one step with a look at the node: whoever comes after its end finds the txn.
                transaction.set_data(node.path, node.data.encode())
                if node.mode == "x":
                    path = f"{node.path.rpartition('/')[0]}/{TXN_PREFIX}{txn_id}"
                    transaction.create(path, str(lock_id).encode())
                    node.txns.append(path)
            try:
                answers = self._answer(transaction.commit_async())
            except _SessionEndedError:
                self._lost(lock_id)
            if any(isinstance(answer, Exception) for answer in answers):
                self._lost(lock_id)

    def unlock(self, lock_id: int) -> None:
        """Release all locks of a request, by whomever they were taken; again is no error."""
        if lock_id == _NO_LOCK:
            return
        nodes = self._held.get(lock_id)
        if nodes is None:
            # Another session's: found just now, so these are its own nodes.
            self._delete([node for node in self._walk(self._root) if _id_of(node) == lock_id])
            return
        try:
            self._delete_mine(nodes)
        except _SessionEndedError:
            self._delete_mine(nodes)
        self._held.pop(lock_id, None)

    def stream_locks(
        self,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        limit: int | None = None,
    ) -> Iterator[LegacyLockRow]:
        """Locks held, by object, read while they are asked for. A request that is about to be denied is no lock."""
        if database is None:
            found = self._walk(self._root)
        else:
            path = path_of(self._root, (database.lower(), (table or "").lower(), partition or ""))
            found = self._walk(path, below=partition is None)
        return islice((self._row(node) for node in found), limit)

    def close(self) -> None:
        """End the session, and with it every lock of this manager. Again is fine."""
        self._held.clear()
        self._end_session()

    def _create(self, place: Object, mode: str, data: LockData, lock_id: int, number: int) -> _Held:
        path, data = path_of(self._root, place), replace(data, lock_id=lock_id, number=number)
        no_node = kazoo_module("exceptions").NoNodeError
        for _ in range(_TRIES):
            with contextlib.suppress(no_node):  # The object was removed between its creation and that of the lock.
                made, stat = self._answer(
                    self._session().create_async(
                        f"{path}/{PREFIXES[mode]}", data.encode(), ephemeral=True, sequence=True, makepath=True,
                        include_data=True,
                    )
                )  # fmt: skip
                return _Held(made, mode, stat.czxid, stat.ephemeralOwner, data)
        raise MetastoreUnavailableError(f"{path} vanishes from ZooKeeper as often as it is created")

    def _in_the_way(self, place: Object, mine: _Held) -> str | None:
        """What denies a node that was just made, if anything does."""
        path = path_of(self._root, place)
        siblings = self._answer(self._session().get_children_async(path))
        blocking = first_in_the_way(_node(mine.path), siblings)
        if blocking is not None:
            found = self._get(f"{path}/{blocking.name}")
            return f"lock {blocking.name if found is None else _id_of(found)}"
        for txn_id in txns_among(siblings):
            if self._is_open(txn_id):
                return f"the open txn {txn_id}"
            self._remove([f"{path}/{TXN_PREFIX}{txn_id}"])
        return None

    def _is_open(self, txn_id: int) -> bool:
        state = self._database.read(lambda connection: connection.execute(_STATE, {"txn_id": txn_id}).scalar())
        return bool(state == TxnState.OPEN.value)

    def _is_held(self, lock_id: int) -> bool:
        nodes = self._held.get(lock_id)
        if nodes is None:
            return any(_id_of(node) == lock_id for node in self._walk(self._root))
        pending = [self._session().exists_async(node.path) for node in nodes]
        stats = [self._answer(answer) for answer in pending]
        return all(stat is not None and stat.czxid == node.made for stat, node in zip(stats, nodes, strict=True))

    def _delete_mine(self, nodes: Sequence[_Held]) -> None:
        """After the end of a session its nodes are gone, and one of such a name is somebody else's."""
        present = (self._session().client_id or (0,))[0]
        self._delete([node for node in nodes if node.session == present])
        self._remove([path for node in nodes if node.session != present for path in node.txns])

    def _delete(self, nodes: Sequence[_Held]) -> None:
        self._remove([path for node in nodes for path in (*node.txns, node.path)])
        if not self._cleans:
            return
        # The deepest first, so that a table goes with its last partition.
        for path in sorted({_parent(node.path) for node in nodes}, key=len, reverse=True):
            while path != self._root and self._remove([path]):
                path = _parent(path)

    def _remove(self, paths: Sequence[str]) -> bool:
        """Delete nodes; whether they are gone now. One with children stays."""
        errors = kazoo_module("exceptions")
        pending = [self._session().delete_async(path) for path in paths]
        gone = True
        for answer in pending:
            try:
                self._answer(answer)
            except errors.NotEmptyError:
                gone = False
            except errors.NoNodeError:
                continue
        return gone

    def _walk(self, path: str, *, below: bool = True) -> Iterator[_Held]:
        """The locks held at a path and below it, each object's by age."""
        try:
            names: list[str] = self._answer(self._session().get_children_async(path))
        except kazoo_module("exceptions").NoNodeError:
            return
        locks = [node for node in map(LockNode.parse, names) if node is not None]
        held = [node.name for node in locks if first_in_the_way(node, names) is None]
        pending = [self._session().get_async(f"{path}/{name}") for name in held]
        found = [self._found(f"{path}/{name}", answer) for name, answer in zip(held, pending, strict=True)]
        yield from sorted((node for node in found if node is not None), key=lambda node: node.made)
        if below:
            for name in sorted(filter(is_object, names), key=unquote):
                yield from self._walk(f"{path}/{name}")

    def _get(self, path: str) -> _Held | None:
        return self._found(path, self._session().get_async(path))

    def _found(self, path: str, pending: Any) -> _Held | None:
        try:
            data, stat = self._answer(pending)
        except kazoo_module("exceptions").NoNodeError:
            return None
        # By ZooKeeper's clock, which is one for all.
        return _Held(
            path,
            _node(path).mode,
            stat.czxid,
            stat.ephemeralOwner,
            replace(LockData.decode(data), lock_time=stat.ctime),
        )

    def _row(self, node: _Held) -> LegacyLockRow:
        database, table, partition = object_at(self._root, _parent(node.path))
        data = node.data
        return LegacyLockRow(
            lock_id=_id_of(node), internal_id=data.number, database=database, table=table or None,
            partition=partition or None, state=LockState.ACQUIRED, type=_TYPES[node.mode], txn_id=data.txn_id,
            last_heartbeat=0, acquired_at=data.lock_time, user=data.user, host=data.host, agent_info=data.agent_info,
            blocked_by=None, query_id=data.query_id, query=data.query,
        )  # fmt: skip

    def _session(self) -> Any:
        """The client, connected.

        :raises MetastoreUnavailableError: when no server lets it in.
        """
        with self._connecting:
            if self._kazoo is None:
                self._kazoo = self._access.connect(self._root)
            return self._kazoo

    def _end_session(self) -> None:
        with self._connecting:
            kazoo, self._kazoo = self._kazoo, None
        if kazoo is not None:
            kazoo.stop()
            kazoo.close()

    def _answer(self, pending: Any) -> Any:
        """Wait for an answer of ZooKeeper.

        :raises MetastoreUnavailableError: when there is none.
        """
        errors = kazoo_module("exceptions")
        try:
            return pending.get(timeout=self._answer_seconds)
        except (errors.NoNodeError, errors.NotEmptyError):
            raise
        except (errors.SessionExpiredError, errors.AuthFailedError) as error:
            # The next call begins a new one at once; this client would refuse them until it has done so by itself.
            self._end_session()
            raise _SessionEndedError(f"ZooKeeper at {self._access.hosts} has ended the session") from error
        except errors.NoAuthError as error:
            raise self._access.forbidden(self._root) from error
        except (errors.KazooException, kazoo_module("handlers.threading").KazooTimeoutError) as error:
            raise self._access.unavailable() from error

    def _lost(self, lock_id: int, why: str = "it was released, or ended with the session in ZooKeeper") -> NoReturn:
        raise NoSuchLockError(f"no lock {lock_id}: {why}")


def _node(path: str) -> LockNode:
    found = LockNode.parse(path.rpartition("/")[2])
    if found is None:
        raise AssertionError(f"{path} is no lock's node")
    return found


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _id_of(node: _Held) -> int:
    return node.data.lock_id or node.made


def _portions(nodes: Sequence[_Held]) -> Iterator[list[_Held]]:
    part: list[_Held] = []
    size = 0
    for node in nodes:
        part.append(node)
        size += len(node.path) + len(node.data.encode())
        if size > _MOST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
