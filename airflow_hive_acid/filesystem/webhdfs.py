"""fsspec's WebHDFS, which says what failed.

HDFS answers a rename or delete that it does not carry out with ``false``, which fsspec drops; and of most of its
exceptions fsspec makes a bare ``RuntimeError``. What a data node answers it takes for the file's bytes, an error
message as well, and it waits for ever for a name node that accepts a connection and says nothing.
"""

from __future__ import annotations

from typing import Any

import requests
from fsspec.implementations.webhdfs import WebHDFS

_NOT_A_DIRECTORY = "is not a directory"
_TIMEOUT_SECONDS = (20, 120)
"""For a connection, and for the next bytes of an answer."""


class _Session(requests.Session):
    """A session whose every wait ends; ``get``, ``put`` and ``post`` are what fsspec calls data nodes with."""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        kwargs.setdefault("timeout", _TIMEOUT_SECONDS)
        return super().request(*args, **kwargs)

    def get(self, *args: Any, **kwargs: Any) -> requests.Response:
        return _checked(super().get(*args, **kwargs))

    def put(self, *args: Any, **kwargs: Any) -> requests.Response:
        return _checked(super().put(*args, **kwargs))

    def post(self, *args: Any, **kwargs: Any) -> requests.Response:
        return _checked(super().post(*args, **kwargs))


def _checked(answer: requests.Response) -> requests.Response:
    answer.raise_for_status()
    return answer


class CarefulWebHDFS(WebHDFS):  # type: ignore[misc]  # fsspec has no types
    """WebHDFS with errors."""

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Rename; the parent of the new name must exist.

        :raises FileNotFoundError: when HDFS refuses it.
        """
        answer = self._call("RENAME", method="put", path=path1, destination=path2).json()
        if not answer["boolean"]:
            raise FileNotFoundError(
                f"{path1} could not be renamed to {path2}: it, or the parent of the new name, is gone"
            )

    def replace(self, path1: str, path2: str) -> None:
        """Rename onto a file, which it takes the place of.

        :raises FileNotFoundError: when it, or the parent of the new name, is gone.
        """
        answer = self._call("RENAME", method="put", path=path1, destination=path2, renameoptions="OVERWRITE")
        if answer.content and not answer.json()["boolean"]:  # a name node says nothing; HttpFS says "true"
            raise OSError(f"{path1} could not take the place of {path2}")

    def rm(self, path: str, recursive: bool = False, **kwargs: Any) -> None:
        """Delete.

        :raises FileNotFoundError: when there was nothing.
        """
        answer = self._call("DELETE", method="delete", path=path, recursive=str(recursive).lower()).json()
        if not answer["boolean"]:
            raise FileNotFoundError(path)

    def mkdir(self, path: str, **kwargs: Any) -> None:
        """Create a directory and its parents."""
        if not self._call("MKDIRS", method="put", path=path).json()["boolean"]:
            raise OSError(f"{path} could not be created")

    def _connect(self) -> None:
        super()._connect()
        plain: requests.Session = self.session  # type: ignore[has-type]  # fsspec has no types
        self.session = _Session()
        self.session.cert, self.session.verify, self.session.auth = plain.cert, plain.verify, plain.auth

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._call(*args, **kwargs)
        except PermissionError as error:
            # What goes on behind a file in the place of a directory HDFS takes for a question of permissions.
            if _NOT_A_DIRECTORY in str(error):
                raise NotADirectoryError(f"HDFS: {error}") from error
            raise
        except RuntimeError as error:
            kind = NotADirectoryError if _NOT_A_DIRECTORY in str(error) else OSError
            raise kind(f"HDFS: {error}") from error
