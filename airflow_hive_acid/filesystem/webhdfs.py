"""fsspec's WebHDFS, which says what failed.

HDFS answers a rename or delete that it does not carry out with ``false``, which fsspec drops; and of most of its
exceptions fsspec makes a bare ``RuntimeError``.
"""

from __future__ import annotations

from typing import Any

from fsspec.implementations.webhdfs import WebHDFS

_NOT_A_DIRECTORY = "is not a directory"


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
        self._call("RENAME", method="put", path=path1, destination=path2, renameoptions="OVERWRITE")

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
