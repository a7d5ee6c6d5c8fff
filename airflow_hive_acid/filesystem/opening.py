"""Which adapter serves a URI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.filesystem.remote import FsspecFilesystem
from airflow_hive_acid.filesystem.uris import FSSPEC_PROTOCOLS, scheme_of

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem.protocol import StreamingFilesystem


def open_filesystem(uri: str, **options: Any) -> StreamingFilesystem:
    """The filesystem a URI lives on.

    :param uri: any location in the warehouse, for example ``file:/data/warehouse`` or ``s3a://bucket/warehouse``.
    :param options: storage options of fsspec (endpoints, credentials); not used for local paths.
    :raises ConfigurationError: when the scheme is unknown or the package that serves it is not installed.
    """
    scheme = scheme_of(uri)
    if scheme == "file":
        return LocalFilesystem()
    if scheme not in FSSPEC_PROTOCOLS:
        known = ", ".join(sorted(["file", *FSSPEC_PROTOCOLS]))
        raise ConfigurationError(f"{uri}: no filesystem for the scheme {scheme!r}; known are {known}")
    return FsspecFilesystem(uri, options)
