"""Who copies: threads of this process, or a Spark job that spreads the files over its tasks.

Spark is used above ``hive.exec.copyfile.maxsize`` bytes in more than ``hive.exec.copyfile.maxnumfiles`` files (Hive's
rule for distcp), at a site that has a Spark application. What is verified is the same.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CopyFailedError
from airflow_hive_acid.format.jobs import CopiedFile, Copy, JobSpec
from airflow_hive_acid.replication.dumps.copies import CopyReport, copy_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.replication.dumps.copies import FileCopy
    from airflow_hive_acid.replication.site import Site


def copy(site: Site, source: StreamingFilesystem, target: StreamingFilesystem, files: Sequence[FileCopy]) -> CopyReport:
    """Copy files.

    :param site: whose settings and Spark application are used: the target's.
    :raises CopyFailedError: see :func:`~airflow_hive_acid.replication.dumps.copies.copy_files`.
    """
    settings = site.settings
    several = len(files) > settings.integer("hive.exec.copyfile.maxnumfiles")
    large = sum(file.size for file in files) > settings.integer("hive.exec.copyfile.maxsize")
    threads = settings.integer("hive.repl.parallel.copy.tasks")
    if not (several and large and site.run_job is not None):
        return copy_files(source, target, files, threads=threads)
    report = _by_spark(site, target, [file for file in files if not file.beginning])
    # Distcp knows whole files only.
    rest = copy_files(source, target, [file for file in files if file.beginning], threads=threads)
    return CopyReport(
        report.files + rest.files, report.bytes + rest.bytes, report.reused + rest.reused,
        report.seconds + rest.seconds, report.checksums | rest.checksums,
    )  # fmt: skip


def _by_spark(site: Site, target: StreamingFilesystem, files: Sequence[FileCopy]) -> CopyReport:
    started = time.monotonic()
    for directory in sorted({file.target.rpartition("/")[0] for file in files}):
        target.make_directory(directory)
    wanted = tuple(CopiedFile(file.source, file.target, file.size, file.checksum) for file in files)
    result = site.run(JobSpec(str(uuid.uuid4()), Copy(wanted), name=f"copy {len(files)} files"))
    checksums = {file.target: file.checksum for file in result.copied if file.checksum is not None}
    for file in files:
        if file.target not in checksums:
            raise CopyFailedError(f"the copy job says nothing of {file.target}; try again")
    return CopyReport(
        files=len(files),
        bytes=sum(file.size for file in result.copied if not file.reused),
        reused=sum(file.reused for file in result.copied),
        seconds=time.monotonic() - started,
        checksums=checksums,
    )
