"""Who copies: threads of this process, or a Spark job that spreads the files over its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.replication.copying import CopyReport, copy_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.replication.copying import FileCopy
    from airflow_hive_acid.replication.site import Site


def copy(site: Site, source: StreamingFilesystem, target: StreamingFilesystem, files: Sequence[FileCopy]) -> CopyReport:
    """Copy files.

    :param site: whose settings are used: the target's.
    :raises CopyFailedError: see :func:`~airflow_hive_acid.replication.copying.copy_files`.
    """
    return copy_files(source, target, files)
