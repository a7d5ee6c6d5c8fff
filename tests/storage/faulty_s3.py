"""An S3 server that fails as asked: moto's, behind a layer that refuses requests or loses their answers.

``python faulty_s3.py PORT`` serves it. ``POST /-faults`` takes the rules (see :class:`Rule`), ``GET
/-requests`` lists what was asked since then.
"""

from __future__ import annotations

import json
import random
import re
import socket
import sys
import threading
import urllib.request
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_ERROR = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{}</Code><Message>{}</Message></Error>"
_FAULTS, _REQUESTS = "/-faults", "/-requests"
_LONGEST_HOLD_SECONDS = 120
READS = ("LIST", "HEAD", "GET")
WRITES = ("PUT", "COPY", "DELETE", "START", "COMPLETE", "ABORT")


@dataclass(frozen=True)
class Rule:
    """When a request fails, and how.

    :param fault: ``slow_down`` and ``cut`` do nothing, and answer 503 or not at all; ``hold`` does the same as ``cut``,
        but not before there are other rules; ``error_after`` and ``lost_answer`` do what was asked, and answer 500 or
        not at all.
    :param kinds: of requests.
    :param name: a pattern; found in the name of the object.
    :param rate: how many of them, 1 for all.
    :param times: how often at most.
    """

    fault: str
    kinds: tuple[str, ...]
    name: str = ""
    rate: float = 1.0
    times: int = 1_000_000


@dataclass(frozen=True)
class Asked:
    """One request.

    :param fault: how it failed, None if it did not.
    """

    kind: str
    name: str
    fault: str | None


class FaultyS3:
    """A WSGI application in front of another one."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._guard = threading.Lock()
        self._anew = threading.Event()
        self._ended: set[str] = set()
        self._start_anew([], 0)

    def _start_anew(self, rules: list[dict[str, Any]], seed: int) -> None:
        self._rules = [(Rule(**{**rule, "kinds": tuple(rule["kinds"])}), [rule["times"]]) for rule in rules]
        self._random = random.Random(seed)
        self._anew.set()
        self._anew = threading.Event()
        self._asked: list[Asked] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == _FAULTS:
            content = json.loads(_content(environ))
            with self._guard:
                self._start_anew(content["rules"], content["seed"])
            return _answer(start_response, "200 OK", "{}")
        if environ["PATH_INFO"] == _REQUESTS:
            with self._guard:
                return _answer(start_response, "200 OK", json.dumps([asdict(one) for one in self._asked]))
        kind, name = _kind(environ), environ["PATH_INFO"]
        with self._guard:
            fault, anew = self._fault(kind, name), self._anew
            self._asked.append(Asked(kind, name, fault))
        if kind in ("COMPLETE", "ABORT") and fault in (None, "error_after", "lost_answer"):
            # S3 may not know an upload any more that it has put together; moto does, and fails for one that was ended.
            upload_id = environ["QUERY_STRING"].partition("uploadId=")[2].partition("&")[0]
            with self._guard:
                has_ended, self._ended = upload_id in self._ended, self._ended | {upload_id}
            if has_ended and fault is None:
                _content(environ)
                return _answer(start_response, "404 Not Found", _ERROR.format("NoSuchUpload", "It does not exist."))
        if fault in ("error_after", "lost_answer"):
            # All of it: a generator would do its work while it is read.
            list(self._application(environ, lambda status, headers, exc_info=None: lambda data: None))
        elif fault is not None:
            _content(environ)
        if fault == "hold":
            anew.wait(_LONGEST_HOLD_SECONDS)
        if fault in ("cut", "hold", "lost_answer"):
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        if fault == "slow_down":
            return _answer(start_response, "503 Slow Down", _ERROR.format("SlowDown", "Reduce your request rate."))
        if fault == "error_after":
            return _answer(start_response, "500 Error", _ERROR.format("InternalError", "We met an internal error."))
        return self._application(environ, start_response)

    def _fault(self, kind: str, name: str) -> str | None:
        for rule, left in self._rules:
            if kind in rule.kinds and left[0] and re.search(rule.name, name) and self._random.random() < rule.rate:
                left[0] -= 1
                return rule.fault
        return None


def _content(environ: dict[str, Any]) -> bytes:
    """What a request brings; the connection stays open behind it."""
    content: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return content


def _kind(environ: dict[str, Any]) -> str:
    method, query = environ["REQUEST_METHOD"], environ["QUERY_STRING"]
    if method == "POST":
        return "DELETE" if query.startswith("delete") else "COMPLETE" if "uploadId=" in query else "START"
    if method == "DELETE" and "uploadId=" in query:
        return "ABORT"
    if method == "PUT":
        return "COPY" if "HTTP_X_AMZ_COPY_SOURCE" in environ else "PUT"
    if method == "GET" and ("list-type=" in query or "prefix=" in query):
        return "LIST"
    return str(method)


def _answer(start_response: Any, status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(text)))])
    return [text.encode()]


class Faults:
    """The server's faults, from a test.

    :param url: of the server.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        #: What was asked inside the last :meth:`of`.
        self.after: list[Asked] = []

    @contextmanager
    def of(self, *rules: Rule, seed: int = 0) -> Iterator[None]:
        """Fail by these rules; after it, by none."""
        self._post(rules, seed)
        try:
            yield
        finally:
            self.after = self.so_far()
            self._post((), 0)

    def _post(self, rules: Iterable[Rule], seed: int) -> None:
        content = json.dumps({"rules": [asdict(rule) for rule in rules], "seed": seed}).encode()
        with urllib.request.urlopen(self._url + _FAULTS, data=content):
            pass

    def so_far(self) -> list[Asked]:
        """What was asked since the faults were set."""
        with urllib.request.urlopen(self._url + _REQUESTS) as answer:
            return [Asked(**one) for one in json.load(answer)]

    @property
    def met(self) -> list[Asked]:
        """The requests that failed inside the last :meth:`of`."""
        return [one for one in self.after if one.fault]


if __name__ == "__main__":
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        FaultyS3(DomainDispatcherApplication(create_backend_app)),
        threaded=True,
        request_handler=MotoRequestHandler,
    )
