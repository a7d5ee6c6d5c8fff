"""Commits in the notification log that a real Hive wrote, with that Hive's own records of its txns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.metastore.listing.commit_log import CommitLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient

FIXTURES = Path(__file__).parents[3] / "fixtures"
INSERTED = ("ds=2024-01-01/h=0", "ds=2024-01-01/h=1", "ds=2024-01-02/h=0", "ds=__HIVE_DEFAULT_PARTITION__/h=0",
            "ds=a b%2Fc%3Dd%3Ae%25f/h=2")  # fmt: skip


def told(client: MetastoreClient) -> list[tuple[Any, ...]]:
    page = CommitLog(client.database, client.notifications).read(0)
    assert page.missed == ()
    assert page.upto == client.notifications.current_event_id()
    return [(c.table.name, c.write_id, c.operations, c.partitions) for c in page.commits]


PART_DYN = [
    ("t", 1, ("insert",), INSERTED),
    ("t", 2, ("insert",), ("ds=2024-01-01/h=1",)),
    ("t", 3, ("change", "insert"), ("ds=2024-01-01/h=0", "ds=2024-01-01/h=1")),
    ("t", 4, ("change",), ("ds=2024-01-02/h=0",)),
]


@pytest.mark.parametrize(
    ("stage", "commits"),
    [
        ("part_dyn/1_insert", PART_DYN[:1]),
        ("part_dyn/2_dml", PART_DYN),
        # With a partition go the notes of what was written there.
        ("part_dyn/3_add_drop", [("t", 1, ("insert",), INSERTED[1:]), PART_DYN[1],
                                 ("t", 3, ("change", "insert"), ("ds=2024-01-01/h=1",)), PART_DYN[3]]),
        (
            "unpart_dml/4_merge",
            [("t", 1, ("insert",), ()), ("t", 2, ("insert",), ()), ("t", 3, ("change",), ()), ("t", 4, ("change",), ()),
             ("src", 1, ("insert",), ()), ("t", 5, ("change",), ())],
        ),
        (
            # UPDATE, INSERT OVERWRITE and TRUNCATE are changes, also of a partition of which nothing is left.
            "iow/4_truncate",
            [("t", 1, ("insert",), ()), ("t", 2, ("change",), ()), ("t", 3, ("change",), ()), ("t", 4, ("insert",), ()),
             ("t", 5, ("change",), ()), ("p", 1, ("insert",), ("k=1", "k=2")), ("p", 2, ("insert",), ("k=2",)),
             ("t", 6, ("change",), ())],
        ),
    ],
)  # fmt: skip
def test_commits_of_hive_are_told(
    client: MetastoreClient, load: Callable[[str], None], stage: str, commits: list[tuple[Any, ...]]
) -> None:
    load((FIXTURES / stage / "metastore.sql").read_text())
    assert told(client) == commits


@pytest.mark.every_database
def test_partitions_that_a_compaction_has_tidied_up_are_told_as_possible(
    client: MetastoreClient, load: Callable[[str], None]
) -> None:
    """The first commit's note of the compacted partition is gone; a watcher of that partition must not miss it."""
    load((FIXTURES / "part_dyn/4_compact_one/metastore.sql").read_text())
    first = CommitLog(client.database, client.notifications).read(0).commits[0]
    compacted = "ds=2024-01-02/h=0"
    assert compacted not in (first.partitions or ())
    assert compacted in first.maybe
    assert first.concerns(first.table, compacted, None)
    assert not first.concerns(first.table, "ds=2024-01-09/h=0", None)


@pytest.mark.every_database
@pytest.mark.parametrize("stage", ["3_minor_uncleaned", "6_major_uncleaned", "7_major_cleaned", "8_after"])
def test_compactions_of_hive_are_no_commits(client: MetastoreClient, load: Callable[[str], None], stage: str) -> None:
    load((FIXTURES / "minor_major" / stage / "metastore.sql").read_text())
    write_ids = {"3_minor_uncleaned": 5, "6_major_uncleaned": 7, "7_major_cleaned": 7, "8_after": 8}[stage]
    assert [row[1] for row in told(client)] == list(range(1, write_ids + 1))
