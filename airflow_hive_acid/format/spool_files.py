"""Files of a spool on a disk: they have the rights of their directory, whatever the umask of their writer is.

A spool holds statements with passwords, and rows. The directory of one application is its owner's alone (0700), and so
is each file in it, 0600, at every moment. Where the directory was made for others, too (a driver that is another user),
they may do with a file what they may do with the directory. Both ends keep this rule.
"""

from __future__ import annotations

import os
import stat
import uuid


def create(path: str) -> int:
    """Open a new file for writing; nobody but the owner may before it has the rights of its directory.

    :return: the descriptor.
    :raises FileExistsError: when anything has that name.
    """
    rights = _rights_of(os.path.dirname(path)) & 0o666
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, rights)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write(path: str, text: str) -> None:
    """Write a new file."""
    with os.fdopen(create(path), "w", encoding="utf-8", newline="") as file:
        file.write(text)


def replace(path: str, text: str) -> None:
    """Write a file so that whoever sees its name sees all of it, in the place of the one that is there."""
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name[:100]}.{uuid.uuid4().hex}.tmp")
    try:
        write(partial, text)
        os.replace(partial, path)
    except BaseException:
        if os.path.lexists(partial):
            os.unlink(partial)
        raise


def make_directory(path: str) -> None:
    """Make a directory in a spool, if it is not there; the spool itself, too, for its owner alone."""
    above = os.path.dirname(path.rstrip("/"))
    os.makedirs(above, 0o700, exist_ok=True)
    rights = _rights_of(above)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    os.chmod(path, rights)


def _rights_of(directory: str) -> int:
    return stat.S_IMODE(os.stat(directory or ".").st_mode) & 0o777
