"""Fencing a writer that may still be alive: its staging directory becomes a file (R4).

A driver that was given up for dead may wake up hours later and rename its staging directory to ``delta_10``, when
nobody remembers that write id 10 was aborted. With a plain file in the place of ``_tmp_<job>`` it can neither create
nor rename anything below it any more.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, UnsafePathError, WarehouseMissingError
from airflow_hive_acid.filesystem.absence import is_absent
from airflow_hive_acid.format import paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem.protocol import Filesystem

_ATTEMPTS = 20


def fence_staging(
    filesystem: Filesystem, staging: str, *, inside: str, note: str, absent: Callable[[], None] | None = None
) -> bool:
    """Replace a staging directory by a plain file of its name.

    :param staging: URI of ``<table>/_tmp_<job id>``; it need not exist.
    :param inside: URI of the table directory.
    :param note: text of the file, for whoever finds it.
    :param absent: called before anything follows from there being no staging, or no table directory: raises when
        that is no answer, because its disk is not mounted here (R17). Without it a table directory must be there.
    :return: True when the writer is fenced; False on an object store, where the staging is only removed and the
        caller must make sure that the application is dead before it forgets the write id.
    :raises UnsafePathError: when ``staging`` is no staging directory of this table, or cannot be fenced because
        something keeps creating it; the caller must not go on.
    """
    paths.require_inside(inside, staging)
    name = staging.rstrip("/").rsplit("/", 1)[-1]
    if not name.startswith("_tmp_") or "\0" in staging:
        raise InvalidArgumentsError(f"{staging!r} is no staging directory; those are named _tmp_<job id>")
    if not filesystem.can_fence(staging):
        filesystem.delete(staging, inside=inside)
        return False
    if absent is None and not filesystem.exists(inside):
        raise WarehouseMissingError(f"{inside} is not there, so {staging} cannot be fenced; is its disk mounted?")
    if absent is not None and is_absent(filesystem, inside, absent):
        return True  # without a table directory there is nothing a rename could reach
    if absent is not None and not filesystem.exists(staging):
        absent()
    for _ in range(_ATTEMPTS):
        try:
            filesystem.create_file(staging, note + "\n")
        except FileExistsError:
            if _is_fence(filesystem, staging):
                return True
            _move_away(filesystem, staging, inside)
        else:
            return True
    raise UnsafePathError(f"{staging} was created again {_ATTEMPTS} times while it was fenced; is its driver running?")


def _is_fence(filesystem: Filesystem, staging: str) -> bool:
    try:
        filesystem.list_files(staging)
    except NotADirectoryError:
        return True
    except FileNotFoundError:
        return False
    return False


def _move_away(filesystem: Filesystem, staging: str, inside: str) -> None:
    """Rename first: what is deleted in place can be filled again while it is being deleted."""
    aside = f"{staging.rstrip('/')}.fenced-{uuid.uuid4().hex[:8]}"
    try:
        filesystem.rename_directory(staging, aside)
    except FileNotFoundError:
        return
    filesystem.delete(aside, inside=inside)
