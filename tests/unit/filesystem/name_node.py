"""A name node and data node that speak WebHDFS on loopback over a local directory, and fail as real ones do."""

from __future__ import annotations

import json
import os
import shutil
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AUTHORITY = "nn:8020"
"""Of the ``hdfs:`` URIs that the stand-in serves."""


def _remote(exception: str, message: str) -> bytes:
    name = f"org.apache.hadoop.{exception}"
    text = {"RemoteException": {"exception": exception, "javaClassName": name, "message": message}}
    return json.dumps(text).encode()


FAILURES: dict[str, tuple[int, bytes] | None] = {
    "standby": (403, _remote("StandbyException", "Operation category READ is not supported in state standby")),
    "retriable": (403, _remote("RetriableException", "NameNode still not started")),
    "safe mode": (403, _remote("SafeModeException", "Cannot do this. Name node is in safe mode.")),
    "denied": (403, _remote("AccessControlException", "Permission denied: user=ann, access=EXECUTE")),
    "no login": (401, b"<html>Authentication required</html>"),
    "500": (500, b"<html>Server Error</html>"),
    "500 with a reason": (500, _remote("RuntimeException", "java.lang.NullPointerException")),
    "503": (503, b""),
    "404 of a proxy": (404, b"<html>no such upstream</html>"),
    "login page": (200, b"<html>please log in</html>"),
    "another document": (200, b'{"hello": "world"}'),
    "cut": None,
    "closed": None,
}
"""What goes wrong: the answer; None where there is none."""


class NameNode:
    """The running stand-in.

    :param root: local directory that stands for ``/``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.failure: str | None = None
        self.asked = 0
        self.answers_lost = 0
        self._start(0)

    def _start(self, port: int) -> None:
        node = self

        class Handler(_Handler):
            """Serves this node."""

            name_node = node

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port."""
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    @contextmanager
    def failing(self, failure: str) -> Iterator[None]:
        """Fail in this way for a while."""
        if failure == "closed":
            self.stop()
        self.failure, self.asked = failure, 0
        try:
            yield
        finally:
            self.failure = None
            if failure == "closed":
                self._start(self.port)

    def tree(self) -> dict[str, str]:
        """All that is there: directories, and files with their text."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            found[str(path.relative_to(self.root))] = "/" if path.is_dir() else path.read_text()
        return found


@contextmanager
def name_node(root: Path) -> Iterator[NameNode]:
    """A running stand-in over a local directory."""
    root.mkdir(parents=True, exist_ok=True)
    node = NameNode(root)
    try:
        yield node
    finally:
        node.stop()


class _Handler(BaseHTTPRequestHandler):
    name_node: NameNode

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        node = self.name_node
        if node.failure is not None:
            node.asked += 1
            answer = FAILURES[node.failure]
            if answer is not None:
                self._send(*answer)
            return
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        path = node.root / unquote(url.path.removeprefix("/webhdfs/v1")).strip("/")
        try:
            getattr(self, "_op_" + query["op"].lower())(path, query, body)
        except FileNotFoundError:
            self._send(404, _remote("FileNotFoundException", f"File does not exist: {path}"))
        except NotADirectoryError:
            self._send(403, _remote("AccessControlException", f"{path.parent} (is not a directory)"))
        except FileExistsError:
            self._send(403, _remote("FileAlreadyExistsException", f"{path} already exists"))

    def _send(self, code: int, body: bytes, **headers: str) -> None:
        if self.name_node.answers_lost:
            self.name_node.answers_lost -= 1
            self.close_connection = True
            return
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def _say(self, value: object) -> None:
        self._send(200, json.dumps(value).encode())

    def _op_getfilestatus(self, path: Path, _query: dict[str, str], _body: bytes) -> None:
        self._say({"FileStatus": _status(path, "")})

    def _op_liststatus(self, path: Path, _query: dict[str, str], _body: bytes) -> None:
        entries = [_status(path, "")] if path.is_file() else [_status(p, p.name) for p in sorted(path.iterdir())]
        self._say({"FileStatuses": {"FileStatus": entries}})

    def _op_open(self, path: Path, query: dict[str, str], _body: bytes) -> None:
        start, length = int(query.get("offset", 0)), int(query.get("length", 1 << 40))
        self._send(200, path.read_bytes()[start : start + length])

    def _op_create(self, path: Path, query: dict[str, str], _body: bytes) -> None:
        if "here" not in query:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._send(307, b"", Location=f"http://127.0.0.1:{self.name_node.port}{self.path}&here=1")
            return
        path.write_bytes(b"")
        self._send(201, b"")

    def _op_append(self, path: Path, query: dict[str, str], body: bytes) -> None:
        if "here" not in query:
            self._send(307, b"", Location=f"http://127.0.0.1:{self.name_node.port}{self.path}&here=1")
            return
        with path.open("ab") as file:
            file.write(body)
        self._send(200, b"")

    def _op_mkdirs(self, path: Path, _query: dict[str, str], _body: bytes) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._say({"boolean": True})

    def _op_rename(self, path: Path, query: dict[str, str], _body: bytes) -> None:
        target = self.name_node.root / query["destination"].strip("/")
        if query.get("renameoptions") == "OVERWRITE":
            os.replace(path, target)
            self._send(200, b"")
            return
        possible = os.path.lexists(path) and target.parent.is_dir()
        if possible:
            os.rename(path, target)
        self._say({"boolean": possible})

    def _op_delete(self, path: Path, _query: dict[str, str], _body: bytes) -> None:
        there = os.path.lexists(path)
        if path.is_dir():
            shutil.rmtree(path)
        elif there:
            path.unlink()
        self._say({"boolean": there})


def _status(path: Path, suffix: str) -> dict[str, object]:
    found = os.stat(path)
    kind = "DIRECTORY" if path.is_dir() else "FILE"
    return {"pathSuffix": suffix, "type": kind, "length": 0 if path.is_dir() else found.st_size}
