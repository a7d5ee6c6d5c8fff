"""One way to list, read, rename and delete in a warehouse, whatever it is stored on.

``open_filesystem(uri)`` returns the adapter for the scheme of a URI. Local warehouses (``file:``) are served by the
operating system directly, everything else by fsspec. Spark jobs do not come here; they use Hadoop's FileSystem. Imports
``format`` and the settings.
"""

from __future__ import annotations

from airflow_hive_acid.filesystem.fencing import fence_staging
from airflow_hive_acid.filesystem.listing import list_many
from airflow_hive_acid.filesystem.opening import open_filesystem
from airflow_hive_acid.filesystem.protocol import FileInfo, Filesystem, StreamingFilesystem
from airflow_hive_acid.filesystem.routing import AnyFilesystem

__all__ = [
    "AnyFilesystem",
    "FileInfo",
    "Filesystem",
    "StreamingFilesystem",
    "fence_staging",
    "list_many",
    "open_filesystem",
]
