"""What an fsspec filesystem answers, and what follows from it: only "there is no such file" means absent (R17).

fsspec's ``exists`` and ``isfile`` take every exception for "no", and ``isdir`` every OSError: a standby name node, a
closed port and a login that ran out all said "absent", and a job counted as fenced that was not (R4). So only
``info``, ``ls`` and ``find`` are asked, and their errors are told apart here.

- libhdfs says "not found" for whatever goes wrong (Arrow's HadoopFileSystem::GetFileInfo turns each IOError into it).
  There a name is absent when the directory above it could be listed and does not hold it.
- An object store says "not found" for a bucket that is not there, of which nothing follows for the objects in it.
"""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import HiveAcidError, StorageUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DIRECTORY = "directory"
FILE = "file"
_NO_SUCH_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})


class Proof(Enum):
    """When "not found" is believed."""

    SAID = "said"
    """When the storage says so."""
    LISTED_PARENT = "listed parent"
    """When a directory above it was listed and does not hold it."""


class Answers:
    """Asks one fsspec filesystem.

    :param filesystem: of fsspec.
    :param proof: when its "not found" is believed.
    """

    def __init__(self, filesystem: Any, proof: Proof = Proof.SAID) -> None:
        self._fs = filesystem
        self._proof = proof

    def kind(self, path: str) -> str | None:
        """``"directory"``, ``"file"``, or None when there is nothing of that name.

        :raises StorageUnavailableError: when that is not known.
        """
        try:
            with self.of(f"looking for {path}", path):
                return str(self._fs.info(path)["type"])
        except (FileNotFoundError, NotADirectoryError):
            return None  # behind a file there is nothing either

    def listing(self, path: str) -> Sequence[Mapping[str, Any]]:
        """Entries of a directory.

        :raises FileNotFoundError: when there is nothing of that name.
        :raises StorageUnavailableError: when that is not known.
        """
        with self.of(f"listing {path}", path):
            return list(self._fs.ls(path, detail=True))

    def objects(self, path: str) -> list[str]:
        """Names of all objects below a name; errors as of :meth:`listing`."""
        with self.of(f"listing {path}", path):
            return [str(name) for name in self._fs.find(path)]

    @contextlib.contextmanager
    def of(self, what: str, path: str | None = None) -> Iterator[None]:
        """Give what goes wrong inside its meaning.

        :param what: what is being done, for the message.
        :param path: what a FileNotFoundError says is not there; None when it may be one of several.
        :raises FileNotFoundError: when there is nothing of that name.
        :raises StorageUnavailableError: for everything that says neither what there is nor that there is nothing.
        """
        try:
            yield
        except (HiveAcidError, FileExistsError, NotADirectoryError):
            raise
        except FileNotFoundError as error:
            code = _code(error)
            if code in _NO_SUCH_BUCKET:
                raise StorageUnavailableError(
                    f"{what}: its bucket is not there ({code}: {error}). Nothing follows from that for what is in it, "
                    "and nothing was done; look at the name of the bucket and at who may see it"
                ) from error
            if path is not None and self._proof is Proof.LISTED_PARENT:
                self._prove_absent(what, path)
            raise
        except Exception as error:
            raise StorageUnavailableError(
                f"{what}: the storage gave no answer that can be used ({type(error).__name__}: {_first_line(error)}). "
                "It counts neither as there nor as absent; try again when the storage answers"
            ) from error

    def _prove_absent(self, what: str, path: str) -> None:
        """Return when a directory above ``path`` can be listed and does not hold the way to it.

        :raises StorageUnavailableError: otherwise.
        """
        child = path.rstrip("/")
        while child:
            parent, _, name = child.rpartition("/")
            try:
                entries = self._fs.ls(parent or "/", detail=True)
            except FileNotFoundError:
                child = parent
                continue
            except OSError as error:
                raise StorageUnavailableError(
                    f"{what}: it was not found, and {parent or '/'} cannot be listed ({_first_line(error)}), so that "
                    "this is not known. Try again when the storage answers"
                ) from error
            names = {str(entry["name"]).rstrip("/").rpartition("/")[2] for entry in entries}
            if name not in names:
                return
            raise StorageUnavailableError(
                f"{what}: it was not found, and {parent or '/'} holds it. The storage failed, or it came just now; "
                "try again"
            )
        raise StorageUnavailableError(
            f"{what}: it was not found, and neither was the root of its file system: no name node answers, or this "
            "machine may not ask it. It counts neither as there nor as absent; try again when the storage answers"
        )


def _code(error: BaseException | None) -> str | None:
    """The code that an object store gave its answer, from wherever it lies in a chain of exceptions."""
    for _ in range(10):
        if error is None:
            return None
        response = getattr(error, "response", None)
        code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
        code = code or getattr(error, "error_code", None)
        if code is not None:
            return str(getattr(code, "value", code))
        error = error.__cause__ or error.__context__
    return None


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:300]
