"""What is not found is not there only where its disk is (R17), and the disk may be mounted between two looks.

Whoever looks, finds nothing, and then finds its place there has proved nothing: what was looked for may lie there by
now. So it is looked for once more behind the proof, and only then anything follows from its absence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem.listing import list_many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.filesystem.protocol import FileInfo, Filesystem


def is_absent(filesystem: Filesystem, uri: str, proof: Callable[[], object]) -> bool:
    """Whether nothing is there.

    :param proof: raises when the place in which it would be is not there.
    """
    if filesystem.exists(uri):
        return False
    proof()
    return not filesystem.exists(uri)


def delete_or_prove(filesystem: Filesystem, uri: str, *, inside: str, proof: Callable[[], object]) -> bool:
    """Delete what is there; when there is nothing, that is proved.

    :param inside: the directory that must contain it.
    :return: whether something was deleted.
    """
    if filesystem.delete(uri, inside=inside):
        return True
    proof()
    return filesystem.delete(uri, inside=inside)


def list_or_prove(
    filesystem: Filesystem,
    uris: Iterable[str],
    proof: Callable[[], object],
    recursive: bool = True,
    *,
    descend: Callable[[FileInfo], bool] | None = None,
) -> dict[str, list[FileInfo] | None]:
    """The entries of directories, None for those that are proved not to be there; for the rest see ``list_many``."""
    found = list_many(filesystem, uris, recursive, descend=descend)
    missing = [uri for uri, entries in found.items() if entries is None]
    if missing:
        proof()
        found |= list_many(filesystem, missing, recursive, descend=descend)
    return found
