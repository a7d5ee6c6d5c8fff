"""A warehouse with a trash, and a batch in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.maintenance import run_worker
from tests.integration.maintenance.cleaner.trash.steps import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


@pytest.fixture
def bin(warehouse: str) -> str:
    return f"{warehouse}.trash"


@pytest.fixture
def settings(settings: dict[str, str], bin: str) -> dict[str, str]:
    return {**settings, "hive.acid.cleaner.trash.dir": bin}


@pytest.fixture
def trashed(client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob) -> str:
    """The batch of a major compaction over a base and a delta: the whole table as it was, three lines."""
    for lines_of in (1, 1):
        table.insert(lines=lines_of)
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    clean(client, fs)
    table.insert(lines=1)
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    assert clean(client, fs).reason == (
        "2 obsolete or aborted directories and files were removed, 2 of them to the trash"
    )
    return client.trash.show("default", "t")[-1].batch
