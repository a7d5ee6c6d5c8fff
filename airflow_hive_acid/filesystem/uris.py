"""Schemes of warehouse URIs and the adapters behind them.

Hadoop writes ``file:/a/b``, Python ``file:///a/b``; both are the same directory. A percent sign in a location is a
plain character, as in Hadoop's Path: partition directories carry escaped names (``ds=a%2Fb``) on disk.
"""

from __future__ import annotations

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.paths import parse_location

# Hadoop's scheme -> fsspec's protocol.
FSSPEC_PROTOCOLS = {
    "abfs": "abfs",
    "abfss": "abfs",
    "gs": "gs",
    "hdfs": "hdfs",
    "memory": "memory",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "viewfs": "hdfs",
    "webhdfs": "webhdfs",
}
# A rename is not atomic there, and a file does not stop anybody from writing "below" it.
OBJECT_STORES = frozenset({"abfs", "gs", "memory", "s3"})


def scheme_of(uri: str) -> str:
    """The scheme of a URI in lower case; ``file`` for a plain absolute path.

    :raises UnsafePathError: for a relative path and anything else that does not name one place.
    """
    return parse_location(uri).scheme


def local_path(uri: str) -> str:
    """The operating system's path of a ``file:`` URI or plain path.

    :raises InvalidArgumentsError: for a URI of another filesystem or another host.
    """
    location = parse_location(uri)
    if location.scheme != "file" or location.authority:
        raise InvalidArgumentsError(f"{uri!r} is not a path of this machine; those look like file:/a/b or /a/b")
    return location.path


def path_if_local(uri: str) -> str | None:
    """The operating system's path of a ``file:`` URI or plain path, None for a URI of another filesystem.

    :raises InvalidArgumentsError: for a ``file:`` URI of another host.
    """
    location = parse_location(uri)
    if location.authority and location.scheme == "file":
        raise InvalidArgumentsError(f"{uri!r} is a path of another machine; those of this one look like file:/a/b")
    return location.path if location.scheme == "file" else None
