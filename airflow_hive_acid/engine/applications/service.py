"""A Spark service from outside: starting one, and handing it statements instead of starting a Spark (decision 62).

A caller who finds no service, one of another version, or one that is full, starts a Spark of its own and says so once;
that there is none is never a failure. A service that ends while it runs a statement fails that statement, as an
application of the caller's own would, and it is repeated by whoever repeats statements.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import logging
import os
import socket
import stat
import threading
import time
import uuid
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_hive_acid.engine.applications.found_services import gone, read_state, service_directory, unfit
from airflow_hive_acid.engine.applications.launcher import make_spool
from airflow_hive_acid.engine.applications.spool import SpoolSession, put
from airflow_hive_acid.errors import ConfigurationError, JobFailedError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.format.jobs import Append, CloseBatch, Program
from airflow_hive_acid.format.services import (
    CALLER,
    CANCEL,
    LEFT,
    REFUSED,
    SERVES,
    SESSION,
    STATE,
    STORE_SECONDS,
)
from airflow_hive_acid.maintenance.worker.jobs import Application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from airflow_hive_acid.engine.applications.launcher import JobLauncher, JobSession
    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.format.services import ServiceState

log = logging.getLogger(__name__)

T = TypeVar("T")
_ANY = Application()
#: So long may a service take to answer a new caller; one that lives answers within a tenth of a second.
ANSWER_SECONDS = 5.0
#: So often is it asked whether a service still lives, beside the signs that each session has.
_LOOK_SECONDS = 0.5
#: A state that stands still for so long is of a service that has ended, where its process cannot be seen.
STILL_SECONDS = 8.0
#: A caller whose statement runs gives a silent service more time: storage may be slow to take its state.
SILENT_SECONDS = 60.0


#: Most threads of Spark's pools that start a new thread for each query until there are 1,024, each of which holds the
#: session of that query: 700 KB of a step that is over.
_THREADS = ("spark.sql.shuffleExchange.maxThreadThreshold", "spark.sql.resultQueryStage.maxThreadThreshold")
_THREADS_A_PLACE = 4


class ServiceLauncher(Protocol):
    """What can start one of our Spark jobs."""

    def start_job(
        self, job: str, arguments: Sequence[str], conf: Mapping[str, str], application: Application
    ) -> SpoolSession:
        """Start it in the background."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How a service serves.

    :param places: steps at a time.
    :param max_callers: callers at a time; others start a Spark of their own.
    :param max_idle: seconds without a caller after which it ends; None: never.
    """

    places: int = 4
    max_callers: int = 32
    max_idle: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("--places", self.places), ("--max-callers", self.max_callers)):
            if value < 1:
                raise ConfigurationError(f"{name} is {value}; it must be 1 or more")
        if self.max_idle is not None and self.max_idle <= 0:
            raise ConfigurationError(f"--max-idle is {self.max_idle:g} s; it must be more than 0")


@contextlib.contextmanager
def serving(launcher: ServiceLauncher, uri: str, settings: ServiceSettings) -> Iterator[SpoolSession]:
    """Start a service under a name that nobody else has, and end it in the end.

    :param uri: of the service's directory, see :func:`service_directory`.
    :return: the application; it is not yet ready.
    :raises ConfigurationError: when another service has the name, when others could write into its directory, or when
        we cannot.
    """
    filesystem = open_filesystem(uri)
    with _name(filesystem, uri):
        incarnation = f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:12]}"
        with _writing(uri):
            for entry in (
                filesystem.list_files(uri) if filesystem.exists(uri) else ()
            ):  # object stores have no empty ones
                if entry.is_dir:  # of services that have ended
                    filesystem.delete(f"{uri}/{entry.name}", inside=uri)
            make_spool(f"{uri}/{incarnation}", private=True)
        arguments = ["--service", uri, "--incarnation", incarnation]
        arguments += ["--places", str(settings.places), "--max-callers", str(settings.max_callers)]
        if settings.max_idle is not None:
            arguments += ["--max-idle", str(settings.max_idle)]
        name = uri.rpartition("/")[2]
        conf = {"spark.scheduler.mode": "FAIR"} | dict.fromkeys(_THREADS, str(_THREADS_A_PLACE * settings.places))
        session = launcher.start_job("service", arguments, conf, Application(name=f"hive-acid service {name}"))
        try:
            yield session
        finally:
            session.close()
            with contextlib.suppress(FileNotFoundError):
                filesystem.delete(f"{uri}/{STATE}", inside=uri)
            filesystem.delete(f"{uri}/{incarnation}", inside=uri)


@contextlib.contextmanager
def _name(filesystem: StreamingFilesystem, uri: str) -> Iterator[None]:
    """Hold the name of a service: on a disk by a lock of the operating system, elsewhere by its state."""
    path = filesystem.local_path(uri)
    taken = f"a service named {uri.rpartition('/')[2]!r} runs already, in {uri}; give another --name, or end that one"
    if path is None:
        _in_time(uri, lambda: filesystem.make_directory(uri))
        before = _in_time(uri, lambda: read_state(filesystem, uri))
        if before is not None:
            time.sleep(STILL_SECONDS)
            after = read_state(filesystem, uri)
            if after is not None and after.beat != before.beat:
                raise ConfigurationError(taken)
        yield
        return
    with _writing(uri):
        os.makedirs(path, 0o700, exist_ok=True)
        _require_private(path)
        descriptor = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(taken) from None
        yield
    finally:
        os.close(descriptor)


def _in_time(uri: str, call: Callable[[], T]) -> T:
    """What storage answers within :data:`STORE_SECONDS`, in a thread of its own, which nobody waits for any longer.

    :raises ConfigurationError: when it does not, or cannot be written.
    """
    future: Future[T] = Future()

    def ask() -> None:
        try:
            future.set_result(call())
        except Exception as problem:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(problem)

    threading.Thread(target=ask, name="hive-acid-storage", daemon=True).start()
    if not wait([future], STORE_SECONDS).done:
        raise ConfigurationError(
            f"--spool: the storage of {uri} has given no answer for {STORE_SECONDS:.0f} s; look at the network, at the "
            "endpoint and at the credentials that this process has for it, or name another directory"
        )
    with _writing(uri):
        return future.result()


@contextlib.contextmanager
def _writing(uri: str) -> Iterator[None]:
    """What storage says while the directory of a service is made, as a fault of the option that named it."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"--spool: {uri} cannot be written ({error}); name a directory in which the user of the service may write"
        ) from error


def _require_private(path: str) -> None:
    about = os.stat(path)
    if about.st_uid != os.geteuid():
        raise ConfigurationError(f"{path} belongs to another user, who could read what is handed to a service")
    if stat.S_IMODE(about.st_mode) & 0o077:
        raise ConfigurationError(
            f"others have rights in {path} and could read what is handed to a service; take them away: chmod go= {path}"
        )


class ServiceDriver:
    """A :class:`~airflow_hive_acid.engine.applications.spool.Driver`: our session in a service.

    :param uri: of the service; ``session``: of our directory in its incarnation.
    """

    def __init__(self, filesystem: StreamingFilesystem, uri: str, session: str, state: ServiceState) -> None:
        self._filesystem = filesystem
        self._uri = uri
        self._session = session
        self._state = state
        self._looked = float("-inf")
        self._heard = time.monotonic()
        self._code: int | None = None
        self._asked = False

    def exit_code(self) -> int | None:
        """None while the service serves us; looks at it now and then."""
        now = time.monotonic()
        if self._code is None and now - self._looked >= _LOOK_SECONDS:
            self._look()
            self._looked = time.monotonic()
        return self._code

    def _look(self) -> None:
        if self._filesystem.exists(f"{self._session}/{LEFT}"):
            self._code = 0
        elif gone(self._state) is not None or not self._filesystem.exists(self._session):
            self._code = 1
        else:
            state = read_state(self._filesystem, self._uri)
            if state is not None and state.beat != self._state.beat:
                self._heard = time.monotonic()
            taken = state is not None and state.incarnation != self._state.incarnation
            if taken or time.monotonic() - self._heard > SILENT_SECONDS:
                self._code = 1
            self._state = state or self._state

    def wait(self, seconds: float) -> bool:
        """Wait until the service has let go of us."""
        deadline = time.monotonic() + seconds
        while self._code is None:
            self._look()
            if self._code is not None or time.monotonic() >= deadline:
                break
            time.sleep(0.02)
        return self._code is not None

    def stop(self) -> None:
        """Have what runs for us cancelled; others are not touched."""
        if self._code is not None or self._asked:
            return
        self._asked = True
        with contextlib.suppress(OSError):
            put(self._filesystem, f"{self._session}/{CANCEL}", "")

    def log_tail(self) -> str:
        """Where to look."""
        return f"It was the Spark service in {self._uri}, {self._state.application_id}; its log is where it was started"

    def release(self) -> None:
        """Nothing was kept for us but the spool."""


class ServiceSession:
    """A :class:`~airflow_hive_acid.engine.applications.launcher.JobSession` in a service.

    What must not be shared, programs and batches whose files stay open, runs in a Spark of our own; so does all that
    follows, which may need what a program has left there.

    :param session: ours in the service.
    :param own: starts a Spark of our own.
    """

    def __init__(self, session: SpoolSession, own: Callable[[], JobSession]) -> None:
        self._session = session
        self._start_own = own
        self._own: JobSession | None = None

    @property
    def application_id(self) -> str | None:
        """Spark's id of the application that runs steps."""
        return (self._own or self._session).application_id

    @property
    def is_alive(self) -> bool:
        """Whether another step can be given to it."""
        return (self._own or self._session).is_alive

    def wait_ready(self) -> str:
        """Wait until steps are taken; returns the application's id."""
        return (self._own or self._session).wait_ready()

    def run(self, spec: JobSpec) -> JobResult:
        """Run one step; raises the error the job reported, or ``JobFailedError`` when there is no result."""
        if self._own is None and isinstance(spec.step, Program | Append | CloseBatch):
            log.info("%s runs in a Spark of its own: a Spark service is shared", spec.name or "this statement")
            self._own = self._start_own()
        return (self._own or self._session).run(spec)

    def rows_uri(self, job_id: str) -> str:
        """Where a select leaves its rows."""
        return (self._own or self._session).rows_uri(job_id)

    def read_rows(self, uri: str) -> Iterator[list[Any]]:
        """The rows of a select, once."""
        return (self._own or self._session).read_rows(uri)

    def cancel(self) -> None:
        """Stop what runs for us, from any thread."""
        self._session.cancel()
        if self._own is not None:
            self._own.cancel()

    def close(self) -> None:
        """Let go of it."""
        try:
            self._session.close()
        finally:
            if self._own is not None:
                self._own.close()


class WithService:
    """A :class:`~airflow_hive_acid.engine.applications.launcher.JobLauncher` that asks a service first.

    :param own: starts a Spark of our own.
    :param service: name or URI of the service.
    :param spool: where the spools of the connection are.
    :param say: told once why a Spark of our own was started.
    """

    def __init__(
        self, own: JobLauncher, service: str, spool: str | None, say: Callable[[str], None] = log.warning
    ) -> None:
        self._own = own
        self.uri = service_directory(service, spool)
        self._service = service
        self._say = say
        self._said = False

    def start(self, application: Application = _ANY) -> JobSession:
        """A session of the service, else a Spark of our own.

        :raises ConfigurationError: as the other launcher, when it is asked.
        """

        def own() -> JobSession:
            return self._own.start() if application == _ANY else self._own.start(application)

        if application.user is not None or application.conf:
            return own()  # somebody has asked for an application of a kind
        session: SpoolSession | None = None
        try:
            session, problem = self._join()
        except (OSError, ConfigurationError, JobFailedError) as error:
            problem = str(error)
        if session is not None:
            return ServiceSession(session, own)
        if not self._said:
            self._said = True
            self._say(f"the Spark service {self._service!r} is not used: {problem}. A Spark of its own is started")
        return own()

    def _join(self) -> tuple[SpoolSession | None, str]:
        """A session of the service, else why there is none."""
        filesystem = open_filesystem(self.uri)
        path = filesystem.local_path(self.uri)
        if path is not None and os.path.isdir(path):
            _require_private(path)
        state = read_state(filesystem, self.uri)
        if state is None:
            return None, f"there is none in {self.uri}"
        problem = unfit(state) or gone(state)
        if problem is not None:
            return None, problem
        session = f"{self.uri}/{state.incarnation}/{SESSION}{uuid.uuid4()}"
        if not filesystem.exists(f"{self.uri}/{state.incarnation}/{SERVES}"):
            return None, "it is ending"
        make_spool(session, private=path is not None)
        try:
            put(filesystem, f"{session}/{CALLER}", caller())
            refusal = _answer(filesystem, session)
        except BaseException:
            self._forget(filesystem, session)
            raise
        if refusal is not None:
            self._forget(filesystem, session)
            return None, refusal
        driver = ServiceDriver(filesystem, self.uri, session, state)
        return SpoolSession(filesystem, session, driver, start_seconds=ANSWER_SECONDS, swept=True), ""

    @staticmethod
    def _forget(filesystem: StreamingFilesystem, session: str) -> None:
        with contextlib.suppress(OSError):
            filesystem.delete(session, inside=session.rpartition("/")[0])


def _answer(filesystem: StreamingFilesystem, session: str) -> str | None:
    """Wait until the service takes us; None then, else its reason."""
    put(filesystem, f"{session}/alive", "0")
    deadline, pause = time.monotonic() + ANSWER_SECONDS, 0.005
    while time.monotonic() < deadline:
        if filesystem.exists(f"{session}/ready.json"):
            return None
        if filesystem.exists(f"{session}/{REFUSED}"):
            return filesystem.read_text(f"{session}/{REFUSED}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    return f"it has not answered for {ANSWER_SECONDS:.0f} s"


def caller() -> str:
    """How we call ourselves: the task of an Airflow that has said so, else user, host and process."""
    task = "/".join(
        filter(None, (os.environ.get(f"AIRFLOW_CTX_{name}") for name in ("DAG_ID", "DAG_RUN_ID", "TASK_ID")))
    )
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return task or f"{user}@{socket.gethostname()} process {os.getpid()}"
