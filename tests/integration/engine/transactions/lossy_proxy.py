"""Between a client and a PostgreSQL: passes everything on, and loses one COMMIT or the answer to one.

It reads both directions message by message (PostgreSQL's frontend/backend protocol, version 3), so that which COMMIT is
lost depends on nothing but their order.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from enum import Enum
from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMMIT = b"COMMIT"


class Lost(Enum):
    """What is lost: then the connection is gone as well."""

    REQUEST = "the COMMIT never arrives: the server rolls back"
    ANSWER = "the server commits, and nobody hears of it"


class LossyProxy:
    """Listens on loopback, for as many connections as come.

    :param server_url: of a PostgreSQL that listens on a unix socket.
    :ivar commits: COMMITs seen since :meth:`lose` was called.
    :ivar lost: what was lost, None as long as nothing was.
    """

    def __init__(self, server_url: str) -> None:
        self._server = sa.make_url(server_url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._losing = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        self._at: int | None = None
        self._what = Lost.ANSWER
        self._instead: Callable[[], None] | None = None
        self.commits = 0
        self.lost: Lost | None = None
        self._away = False

    @property
    def url(self) -> str:
        """Of the same database, through here."""
        port = self._listening.getsockname()[1]
        url = self._server.set(host="127.0.0.1", port=port, query={"sslmode": "disable", "gssencmode": "disable"})
        return url.render_as_string(hide_password=False)

    def lose(self, number: int, what: Lost, instead: Callable[[], None] | None = None) -> None:
        """Lose the COMMIT of this number, counted from now on.

        :param instead: called in the moment in which the COMMIT, or its answer, would have been passed on.
        """
        with self._lock:
            self._at, self._what, self._instead, self.commits, self.lost = number, what, instead, 0, None

    def leave(self) -> None:
        """As a server that is not there: connections break, and new ones are refused, until :meth:`come_back`."""
        self._away = True
        for each in list(self._sockets):
            _end(each)

    def come_back(self) -> None:
        """As a server that was started again."""
        self._away = False

    def close(self) -> None:
        """End everything."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._sockets:
            _end(each)
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self._away:
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # answers are many small messages
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(f"{self._server.query['host']}/.s.PGSQL.{self._server.port or 5432}")
            except OSError:
                client.close()
                server.close()
                continue
            self._sockets += [client, server]
            for source, target, pump in ((client, server, self._requests), (server, client, self._answers)):
                thread = threading.Thread(target=self._pump, args=(source, target, pump), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, pump: Callable[..., Iterator[bytes]]) -> None:
        with contextlib.suppress(OSError), source.makefile("rb") as stream:
            for message in pump(stream):
                target.sendall(message)
        with self._losing:  # the client hears of it when it is over
            pass
        _end(source)
        _end(target)

    def _requests(self, stream: object) -> Iterator[bytes]:
        """What the client sends, up to the COMMIT that is lost."""
        yield _message(stream, typed=False)
        prepared: dict[bytes, bytes] = {}
        while message := _message(stream):
            kind, body = message[:1], message[5:]
            if kind == b"P":
                name, text = body.split(b"\0")[:2]
                prepared[name] = text
            runs = body.rstrip(b"\0") if kind == b"Q" else b""
            if kind == b"B":
                runs = prepared.get(body.split(b"\0")[1], b"")
            if runs.strip().rstrip(b";").upper().endswith(_COMMIT) and self._is_lost(Lost.REQUEST):
                return
            yield message

    def _answers(self, stream: object) -> Iterator[bytes]:
        """What the server answers, up to the answer that is lost."""
        while message := _message(stream):
            if message[:1] == b"C" and message[5:].rstrip(b"\0") == _COMMIT and self._is_lost(Lost.ANSWER):
                return
            yield message

    def _is_lost(self, what: Lost) -> bool:
        with self._lock:
            if self._at is None or self._what is not what:
                return False
            self.commits += 1
            if self.commits != self._at:
                return False
            self._at, self.lost = None, what
            instead = self._instead
        if instead is not None:
            with self._losing:
                instead()
        return True


def _message(stream: object, *, typed: bool = True) -> bytes:
    """The next message with its header; nothing at the end."""
    head: bytes = stream.read(5 if typed else 4)  # type: ignore[attr-defined]
    if len(head) < (5 if typed else 4):
        return b""
    length = int.from_bytes(head[-4:], "big") - 4
    return head + bytes(stream.read(length))  # type: ignore[attr-defined]


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
