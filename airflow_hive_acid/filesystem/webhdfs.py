"""fsspec's WebHDFS, which says what failed.

HDFS answers a rename or delete that it does not carry out with ``false``, which fsspec drops; and of most of its
exceptions fsspec makes a bare ``RuntimeError``. What a data node answers it takes for the file's bytes, an error
message as well, and it waits for ever for a name node that accepts a connection and says nothing.

Of the name nodes of a nameservice one is active. Which one shows by asking: a standby refuses, and one that is down
takes no connection. Neither has done anything, so whatever was asked is asked again elsewhere, until a failover is
over. A question whose answer was lost may have been carried out: only what changes nothing by being asked twice is, and
of a rename the names tell.
"""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from fsspec.implementations.webhdfs import WebHDFS
from urllib3.exceptions import NewConnectionError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_A_DIRECTORY = "is not a directory"
_TIMEOUT_SECONDS = (20, 120)
"""For a connection, and for the next bytes of an answer."""
_FAILOVER_SECONDS = 90.0
"""So long is an active name node looked for; automatic failover takes up to half a minute."""
_PAUSE_SECONDS = (0.2, 3.0)
_NOT_ACTIVE = frozenset({"StandbyException", "RetriableException"})
_REPEATABLE = frozenset({"GETFILESTATUS", "LISTSTATUS", "OPEN", "MKDIRS", "GETCONTENTSUMMARY", "GETHOMEDIRECTORY"})


class _Session(requests.Session):
    """A session whose every wait ends; ``get``, ``put`` and ``post`` are what fsspec calls data nodes with.

    :param name_nodes: addresses (``host:port``) of those of a nameservice; none where there is but one.
    """

    def __init__(self, name_nodes: Sequence[str] = ()) -> None:
        super().__init__()
        self._name_nodes = tuple(name_nodes)
        self._active = 0

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        kwargs.setdefault("timeout", _TIMEOUT_SECONDS)
        parts = urlsplit(str(url))
        if parts.netloc not in self._name_nodes:
            return super().request(method, url, *args, **kwargs)
        repeatable = (kwargs.get("params") or {}).get("op") in _REPEATABLE
        deadline, pause = time.monotonic() + _FAILOVER_SECONDS, _PAUSE_SECONDS[0]
        while True:
            for _ in self._name_nodes:
                active = self._active
                there = parts._replace(netloc=self._name_nodes[active]).geturl()
                problem: requests.RequestException | None = None
                try:
                    answer = super().request(method, there, *args, **kwargs)
                except requests.RequestException as error:
                    if not (_was_not_sent(error) or repeatable):
                        raise
                    problem = error
                else:
                    if not _is_not_active(answer):
                        return answer
                self._active = (active + 1) % len(self._name_nodes)
            if time.monotonic() + pause > deadline:
                if problem is not None:
                    raise problem
                return answer
            time.sleep(pause)
            pause = min(pause * 2, _PAUSE_SECONDS[1])

    def get(self, *args: Any, **kwargs: Any) -> requests.Response:
        return _checked(super().get(*args, **kwargs))

    def put(self, *args: Any, **kwargs: Any) -> requests.Response:
        return _checked(super().put(*args, **kwargs))

    def post(self, *args: Any, **kwargs: Any) -> requests.Response:
        return _checked(super().post(*args, **kwargs))


def _was_not_sent(error: requests.RequestException) -> bool:
    """Whether there was no connection at all."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, NewConnectionError)


def _is_not_active(answer: requests.Response) -> bool:
    """Whether a name node says that it is none that answers now."""
    if answer.status_code != 403:
        return False
    try:
        return answer.json()["RemoteException"]["exception"] in _NOT_ACTIVE
    except (ValueError, KeyError, TypeError):
        return False


def _login() -> str:
    """What is the matter with this process's ticket, in a few words."""
    try:
        gssapi = importlib.import_module("gssapi")  # what requests-kerberos logs in with, where it is not Windows
    except ImportError:
        return "nothing more is known"
    try:
        left = gssapi.Credentials(usage="initiate").lifetime
    except gssapi.exceptions.GSSError as error:
        return " ".join(str(error).split())
    return f"its ticket is valid for {left} s, so the realm, the clock or the name node's principal may be wrong"


def _checked(answer: requests.Response) -> requests.Response:
    answer.raise_for_status()
    return answer


class CarefulWebHDFS(WebHDFS):  # type: ignore[misc]  # fsspec has no types
    """WebHDFS with errors.

    :param name_nodes: addresses (``host:port``) of all name nodes of a nameservice, ``host`` and ``port`` among them.
    """

    def __init__(self, *args: Any, name_nodes: Sequence[str] = (), **kwargs: Any) -> None:
        if not self._cached:
            self._name_nodes = tuple(name_nodes)
        super().__init__(*args, **kwargs)

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Rename; the parent of the new name must exist.

        :raises FileNotFoundError: when HDFS refuses it.
        """
        if not self._renamed(path1, path2):
            raise FileNotFoundError(
                f"{path1} could not be renamed to {path2}: it, or the parent of the new name, is gone"
            )

    def _renamed(self, path1: str, path2: str, **options: str) -> bool:
        """What the name node says; where its answer was lost in a failover, what there is afterwards.

        Nobody else makes a name of ours: that there is the new one and not the old one means that it was renamed.
        """
        asked = 0
        while True:
            asked += 1
            try:
                answer = self._call("RENAME", method="put", path=path1, destination=path2, **options)
                # With options a name node says nothing; HttpFS says "true".
                done = bool(answer.json()["boolean"]) if answer.content else True
            except requests.RequestException as lost:
                if asked > 1 or not self._name_nodes or lost.response is not None:
                    raise
                done = False
            else:
                if done or asked == 1:
                    return done
            if self._there(path2) and not self._there(path1):
                return True
            if asked > 1:
                return done

    def _there(self, path: str) -> bool:
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def replace(self, path1: str, path2: str) -> None:
        """Rename onto a file, which it takes the place of.

        :raises FileNotFoundError: when it, or the parent of the new name, is gone.
        """
        if not self._renamed(path1, path2, renameoptions="OVERWRITE"):
            raise OSError(f"{path1} could not take the place of {path2}")

    def rm(self, path: str, recursive: bool = False, **kwargs: Any) -> None:
        """Delete.

        :raises FileNotFoundError: when there was nothing.
        """
        answer = self._call("DELETE", method="delete", path=path, recursive=str(recursive).lower()).json()
        if not answer["boolean"]:
            raise FileNotFoundError(path)

    def mkdir(self, path: str, **kwargs: Any) -> None:
        """Create a directory and its parents.

        As Hadoop's own client does it: below a default ACL the rights are those of the ACL. WebHDFS alone would take
        its own 755 for the mask of the ACL, and nobody but the owner could write (HDFS-6962).
        """
        if not self._call("MKDIRS", method="put", path=path, unmaskedpermission="777").json()["boolean"]:
            raise OSError(f"{path} could not be created")

    def _connect(self) -> None:
        super()._connect()
        plain: requests.Session = self.session  # type: ignore[has-type]  # fsspec has no types
        self.session = _Session(self._name_nodes)
        self.session.cert, self.session.verify, self.session.auth = plain.cert, plain.verify, plain.auth

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._call(*args, **kwargs)
        except requests.HTTPError as error:
            if self.kerb and error.response is not None and error.response.status_code == requests.codes.unauthorized:
                raise OSError(
                    f"Kerberos login refused: {_login()[:150]}; kinit again, or have it renewed by KRB5_CLIENT_KTNAME "
                    "(a keytab) with a KRB5CCNAME of its own"
                ) from error
            raise
        except PermissionError as error:
            # What goes on behind a file in the place of a directory HDFS takes for a question of permissions.
            if _NOT_A_DIRECTORY in str(error):
                raise NotADirectoryError(f"HDFS: {error}") from error
            raise
        except RuntimeError as error:
            kind = NotADirectoryError if _NOT_A_DIRECTORY in str(error) else OSError
            raise kind(f"HDFS: {error}") from error
