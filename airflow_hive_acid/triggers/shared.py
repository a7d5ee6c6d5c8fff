"""What the triggers of one triggerer share: a client for each connection, and one look at all requests that wait.

Thousands of triggers may wait in one process; each with a client of its own would hold a connection of its own and ask
for itself. Everything here belongs to one event loop and goes when nobody uses it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from typing import TYPE_CHECKING, TypeVar

from airflow_hive_acid.errors import HiveAcidError, LockTimeoutError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.protocol import GivenUp, Granted, LockWatch, Watched
    from airflow_hive_acid.triggers.questions import Looked, Question

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Call what blocks. Who is cancelled meanwhile waits for its end, because the connection it uses is closed next."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # nobody will ask for it any more
        raise


class _Shared:
    """A client and those who use it; a room is made when somebody waits in it."""

    def __init__(self) -> None:
        self.users = 0
        self.opening = asyncio.Lock()
        self.client: MetastoreClient | None = None
        self.room: LockRoom | None = None
        self.questions: QuestionRoom | None = None


_shared: dict[tuple[int, str], _Shared] = {}


@contextlib.asynccontextmanager
async def shared_client(conn_id: str) -> AsyncIterator[MetastoreClient]:
    """The client of a connection, the same for all triggers of this event loop.

    :raises AirflowException: when there is no such connection; HiveAcidError when it is not usable.
    """
    async with _use(conn_id) as shared:
        yield _opened(shared)


@contextlib.asynccontextmanager
async def lock_room(conn_id: str) -> AsyncIterator[LockRoom]:
    """Where all triggers of this event loop wait for locks of one metastore."""
    async with _use(conn_id) as shared:
        if shared.room is None:
            from airflow_hive_acid.metastore.protocol import LockWatch  # not needed to defer

            shared.room = LockRoom(LockWatch(_opened(shared)))
        yield shared.room


@contextlib.asynccontextmanager
async def question_room(conn_id: str) -> AsyncIterator[QuestionRoom]:
    """Where all sensors of this event loop wait for something of one metastore."""
    async with _use(conn_id) as shared:
        if shared.questions is None:
            client = _opened(shared)
            shared.questions = QuestionRoom(client)
            from airflow_hive_acid.hooks import stats  # not needed to defer

            # They look at the same tables again and again.
            await asyncio.to_thread(client.cache.start, functools.partial(stats.tell_cache, conn_id=conn_id))
        yield shared.questions


@contextlib.asynccontextmanager
async def _use(conn_id: str) -> AsyncIterator[_Shared]:
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to defer

    key = (id(asyncio.get_running_loop()), conn_id)
    shared = _shared.setdefault(key, _Shared())
    shared.users += 1
    try:
        async with shared.opening:
            if shared.client is None:
                connection = await HiveAcidHook.aget_connection(conn_id)
                shared.client = await asyncio.to_thread(HiveAcidHook.client_of, connection)
        yield shared
    finally:
        shared.users -= 1
        if not shared.users:
            _shared.pop(key, None)
            for room in (shared.room, shared.questions):
                if room is not None:
                    await room.close()
            if shared.client is not None:
                await asyncio.to_thread(shared.client.close)


def _opened(shared: _Shared) -> MetastoreClient:
    if shared.client is None:
        raise AssertionError("used before it was opened")
    return shared.client


class _Room:
    """Where one task looks for all who wait, as long as somebody does."""

    _task: asyncio.Task[None] | None = None

    def _someone_waits(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Stop looking."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _look(self) -> None:
        """Look again and again, until nobody waits."""
        raise NotImplementedError


class LockRoom(_Room):
    """Everybody in it waits for a request; one task looks for all of them.

    :param watch: what looks.
    """

    def __init__(self, watch: LockWatch) -> None:
        self._watch = watch
        self._waiting: dict[int, tuple[Watched, asyncio.Future[Granted | GivenUp]]] = {}

    async def wait(self, request: Watched) -> Granted | GivenUp:
        """Wait until the locks of a request are granted or will not be."""
        future: asyncio.Future[Granted | GivenUp] = asyncio.get_running_loop().create_future()
        self._waiting[request.lock_id] = (request, future)
        self._someone_waits()
        try:
            return await future
        finally:
            self._waiting.pop(request.lock_id, None)

    async def _look(self) -> None:
        while self._waiting:
            requests = [request for request, future in self._waiting.values() if not future.done()]
            try:
                outcomes = await in_thread(self._watch.look, requests)
            except HiveAcidError as error:
                # Nothing is decided while the database is away; the txns live on for a while, and waits end in time.
                log.warning("%d requests for locks could not be looked at: %s", len(requests), error)
                outcomes = {}
                if not error.retryable:
                    self._fail(error)
            for lock_id, outcome in outcomes.items():
                self._tell(lock_id, outcome)
            # A look that has found something may have left the rest for the next one.
            await asyncio.sleep(0 if outcomes else _LOOK_SECONDS)

    def _tell(self, lock_id: int, outcome: Granted | GivenUp) -> None:
        _, future = self._waiting.get(lock_id, (None, None))
        if future is not None and not future.done():
            future.set_result(outcome)

    def _fail(self, error: HiveAcidError) -> None:
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(LockTimeoutError(f"the requests cannot be looked at any more: {error}"))


class QuestionRoom(_Room):
    """Everybody in it has a question; those that are due are asked in one look, and the looks are a second apart.

    :param client: of the metastore that is asked.
    """

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._asking: dict[Question, asyncio.Future[Looked]] = {}

    async def look(self, question: Question) -> Looked:
        """What the next look finds; equal questions share the answer.

        :raises HiveAcidError: when it will never be over, or the metastore cannot be asked.
        """
        future = self._asking.get(question)
        if future is None:
            future = self._asking[question] = asyncio.get_running_loop().create_future()
            # An answer that nobody waits for any more is no mistake.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._someone_waits()
        return await asyncio.shield(future)

    async def _look(self) -> None:
        while self._asking:
            asking, self._asking = self._asking, {}
            try:
                found = await in_thread(_ask, self._client, list(asking))
            except HiveAcidError as error:
                found = dict.fromkeys(asking, error)
            except BaseException:
                for future in asking.values():
                    future.cancel()
                raise
            for question, future in asking.items():
                answer = found[question]
                if future.done():
                    continue
                if isinstance(answer, HiveAcidError):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
            await asyncio.sleep(_LOOK_SECONDS)


def _ask(client: MetastoreClient, questions: list[Question]) -> dict[Question, Looked | HiveAcidError]:
    kinds: dict[type[Question], list[Question]] = {}
    for question in questions:
        kinds.setdefault(type(question), []).append(question)
    found: dict[Question, Looked | HiveAcidError] = {}
    for kind, asked in kinds.items():
        found.update(kind.ask_all(client, asked))
    return found
