"""Locations in a warehouse: joining them, and deciding whether one lies inside another before anything is deleted.

Locations are compared as Hadoop compares them: ``file:/w``, ``file:///w`` and ``/w`` are one place, repeated slashes
count once, percent characters are ordinary characters (a partition value ``a/b`` is the directory ``a%2Fb``).
What could mean two places (``..``, a relative path) is inside nothing. Links are the filesystem's business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from airflow_hive_acid.errors import InvalidArgumentsError, UnsafePathError

S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
OBJECT_STORE_SCHEMES = frozenset({"abfs", "abfss", "gs", "memory", "oss", "s3", "s3a", "s3n", "wasb", "wasbs"})
"""Where a directory is what its objects' names say: one without objects is none."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


@dataclass(frozen=True, slots=True)
class Location:
    """A location taken apart: scheme, authority (host, bucket, container) and the segments of its path."""

    scheme: str
    authority: str
    segments: tuple[str, ...]

    @property
    def path(self) -> str:
        """Its path, from the root."""
        return "/" + "/".join(self.segments)


def parse_location(path: str) -> Location:
    """Take a URI or plain absolute path apart.

    :raises UnsafePathError: when the text does not name exactly one place.
    """
    match = _SCHEME.match(path)
    scheme = match[1].lower() if match else "file"
    rest = path[match.end() :] if match else path
    authority = ""
    if rest.startswith("//"):
        if not match:
            raise UnsafePathError(f"{path!r} starts with two slashes: a host for Hadoop, a directory for others")
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
    if scheme == "file" and authority == "localhost":
        authority = ""
    if "\0" in path or not (rest.startswith("/") or (authority and not rest)):
        raise UnsafePathError(f"{path!r} is not an absolute location; write it as scheme://authority/path or /path")
    segments = tuple(segment for segment in rest.split("/") if segment not in ("", "."))
    for segment in segments:
        # No escaped value decodes to dots: Hive does not escape them, so such a segment is an attempt to get out.
        if unquote(segment) in ("..", "."):
            raise UnsafePathError(f"{path!r} contains the segment {segment!r}; give the location it leads to")
    return Location(scheme, authority, segments)


def join(uri: str, *parts: str) -> str:
    """``uri`` followed by parts; a part may itself have several segments (a partition name).

    :raises InvalidArgumentsError: for a part that is empty, absolute or leads upwards.
    """
    joined = uri.rstrip("/")
    for part in parts:
        if not part or any(segment in ("", ".", "..") for segment in part.split("/")):
            raise InvalidArgumentsError(f"cannot append {part!r} to {uri}: every segment must be a name")
        joined += "/" + part
    return joined


def is_inside(root: str, path: str) -> bool:
    """Whether ``path`` lies strictly below ``root``; never true for something that may be two places."""
    return relative_to(root, path) not in (None, "")


def require_inside(root: str, path: str) -> None:
    """Refuse a path that does not lie strictly below ``root``.

    :raises UnsafePathError: naming both.
    """
    if not is_inside(root, path):
        raise UnsafePathError(f"{path!r} does not lie inside {root!r}; nothing was touched")


def relative_to(root: str, path: str) -> str | None:
    """The path of ``path`` seen from ``root`` (empty for the root itself), or None when it lies elsewhere."""
    try:
        above, below = parse_location(root), parse_location(path)
    except UnsafePathError:
        return None
    depth = len(above.segments)
    same_tree = (above.scheme, above.authority) == (below.scheme, below.authority)
    if not same_tree or below.segments[:depth] != above.segments:
        return None
    return "/".join(below.segments[depth:])


def is_same_store(one: str, other: str) -> bool:
    """Whether two places have one scheme and host, bucket or container; never true for what may be two places."""
    try:
        first, second = parse_location(one), parse_location(other)
    except UnsafePathError:
        return False
    return (first.scheme, first.authority) == (second.scheme, second.authority)


_SAME_SCHEMES = (("s3a", "s3", "s3n"), ("abfss", "abfs"), ("wasbs", "wasb"))
"""Schemes by which one store is called; what lies there is the same."""
_DEFAULT_PORTS = {"hdfs": "8020"}


def heads(location: str) -> tuple[str, ...]:
    """All that a metastore may have in front of the path of a place, slashes counted once.

    :return: without the slash that begins the path; the first is the usual spelling.
    :raises UnsafePathError: when the text does not name exactly one place.
    """
    parsed = parse_location(location)
    if parsed.scheme == "file" and not parsed.authority:
        return ("file:", "", "file:/localhost")
    schemes = next((same for same in _SAME_SCHEMES if parsed.scheme in same), (parsed.scheme,))
    hosts = [parsed.authority]
    if (port := _DEFAULT_PORTS.get(parsed.scheme)) is not None and parsed.authority:
        host = parsed.authority.lower().removesuffix(f":{port}")
        other_port = re.search(r":[0-9]+\Z", host) is not None
        hosts = [host, parsed.authority] if other_port else [host, f"{host}:{port}", parsed.authority]
    return tuple(dict.fromkeys(f"{scheme}:/{host}" if host else f"{scheme}:" for scheme in schemes for host in hosts))


def spellings(location: str) -> tuple[str, ...]:
    """How a metastore may spell a place, slashes counted once and one at the end.

    :raises UnsafePathError: when the text does not name exactly one place.
    """
    path = "".join(f"{segment}/" for segment in parse_location(location).segments)
    return tuple(f"{head}/{path}" for head in heads(location))


def spellings_around(location: str) -> tuple[str, ...]:
    """The same for every directory in which a place lies, the root of its filesystem included.

    :raises UnsafePathError: when the text does not name exactly one place.
    """
    segments = parse_location(location).segments
    paths = ["".join(f"{segment}/" for segment in segments[:end]) for end in range(len(segments))]
    return tuple(f"{head}/{path}" for head in heads(location) for path in paths)
