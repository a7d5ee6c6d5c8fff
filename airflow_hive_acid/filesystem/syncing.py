"""Files of a local warehouse reach the disk before the commit that makes them visible.

A database commits with a sync; files that it names could still be in the memory of the machine, and a loss of power
would leave a committed transaction without its rows. So what a transaction has published is synced before it commits:
the files, their directories, and the directories above them in which their names are new. Other filesystems promise
this themselves, each in its way (docs/how-to/running/storage.md): nothing is done there. Keeps R17: what is
committed is there.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem.threads import in_threads
from airflow_hive_acid.filesystem.uris import path_if_local

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.settings import Settings

SETTING = "hive.acid.sync.files"
#: Filesystems that cannot sync a directory say one of these.
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


def sync(settings: Settings, published: Iterable[str], location: str) -> None:
    """Sync what a transaction has published; called before its commit, outside of its database transaction.

    :param settings: ``hive.acid.sync.files`` says whether.
    :param published: URIs of files, and of directories, which are synced with all that is in them.
    :param location: URI of the table directory: it, the directory above it, and what lies between
        are synced as well.
    :raises OSError: when the disk refuses: then nothing must be committed.
    """
    if not settings.flag(SETTING):
        return
    top = os.path.dirname(path_if_local(location) or "")
    files: set[str] = set()
    directories: set[str] = set()
    for path in map(path_if_local, published):
        if path is None:
            continue
        if os.path.isdir(path):
            for folder, _, names in os.walk(path):
                directories.add(folder)
                files.update(os.path.join(folder, name) for name in names)
        else:
            files.add(path)
        directories.update(_above(path, top))
    # A name must not reach the disk before its file: files first, then directories from below.
    in_threads(_sync, sorted(files), "sync")
    for depth in sorted({d.count("/") for d in directories}, reverse=True):
        in_threads(_sync, sorted(d for d in directories if d.count("/") == depth), "sync")


def _above(path: str, top: str) -> list[str]:
    """The directories over a path, up to ``top`` if they lead there, else the next two."""
    found = [os.path.dirname(path)]
    while top and found[-1] != top and found[-1].startswith(f"{top}/"):
        found.append(os.path.dirname(found[-1]))
    return found if found[-1] == top else [found[0], os.path.dirname(found[0])]


def _sync(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return  # somebody took it away: the check inside the commit tells
    except OSError as error:
        if error.errno == errno.ELOOP:
            return  # a link is nothing that we have published
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    finally:
        os.close(descriptor)
