"""What a transaction has published is on the disk before it commits: every kind of write, ACID and plain."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions import plain_writes as plain
from airflow_hive_acid.engine.transactions import transaction as transactions
from airflow_hive_acid.settings import Source

STATEMENTS = {
    "insert": "INSERT INTO w.t VALUES (1, 'x')",
    "insert into a new partition": "INSERT INTO w.p PARTITION (k = 'new') VALUES (1)",
    "update": "UPDATE w.t SET b = 'y' WHERE a = 1",
    "delete": "DELETE FROM w.t WHERE a = 1",
    "merge": "MERGE INTO w.t t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE",
    "overwrite": "INSERT OVERWRITE TABLE w.t SELECT 1, 'x'",
    "truncate": "TRUNCATE TABLE w.t",
    "ctas": "CREATE TABLE w.made STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT 1 AS a",
    "plain insert": "INSERT INTO w.plain VALUES (1)",
    "plain overwrite": "INSERT OVERWRITE TABLE w.plain SELECT 1",
}


def local(uri: str) -> Path:
    return Path("/" + uri.removeprefix("file:").lstrip("/"))


@pytest.fixture
def synced(monkeypatch):
    """Paths in the order in which they were synced."""
    paths: list[Path] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        fsync(descriptor)
        paths.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr(os, "fsync", record)
    return paths


@pytest.fixture
def committing(monkeypatch, synced):
    """Files and directories that a commit makes visible, each asked for inside the commit, and what was synced then."""
    seen: list[tuple[set[Path], list[Path]]] = []
    check_published, check_files = transactions.check_published, plain.check_files

    def acid(filesystem, target, manifests):
        manifests = list(manifests)
        wanted = {local(target.location), local(target.location).parent}
        for directory in (d for manifest in manifests for d in manifest.directories):
            wanted |= {local(directory.place), local(directory.uri), *local(directory.uri).iterdir()}
        seen.append((wanted, list(synced)))
        return check_published(filesystem, target, manifests)

    def files(filesystem, manifests):
        manifests = list(manifests)
        for manifest in manifests:
            wanted = {local(f.uri) for f in manifest.files} | {local(f.place) for f in manifest.files}
            if wanted:
                seen.append((wanted, list(synced)))
        check_files(filesystem, manifests)

    monkeypatch.setattr(transactions, "check_published", acid)
    monkeypatch.setattr(plain, "check_files", files)
    return seen


@pytest.mark.rule("R17")
@pytest.mark.parametrize("kind", STATEMENTS)
def test_files_are_synced_before_the_commit_that_makes_them_visible(engine, synced, committing, kind):
    """
    t1  the job's files are renamed to their places
    t2  files, then directories from below, are synced
    t3  the commit looks at them for the last time, and commits
    """
    engine.run("CREATE EXTERNAL TABLE w.plain (a INT) STORED AS ORC")
    synced.clear()
    engine.run(STATEMENTS[kind])
    ((wanted, before),) = committing
    assert wanted <= set(before)
    assert any(path.is_file() for path in wanted)
    for path in wanted:
        if path.is_file():
            assert before.index(path) < before.index(path.parent), "a name must not reach the disk before its file"


def test_nothing_is_committed_that_the_disk_does_not_take(engine, fake, states, monkeypatch):
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="the disk is broken"):
        engine.run(STATEMENTS["insert"])
    assert list(states().values()) == ["ABORTED"]


def test_a_filesystem_without_syncs_of_directories_is_no_failure(engine, monkeypatch):
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EINVAL, "not supported")

    monkeypatch.setattr(os, "fsync", refuse)
    engine.run(STATEMENTS["insert"])


@pytest.mark.setting("hive.acid.sync.files")
def test_the_setting_leaves_it_to_the_machine(client, fake, warehouse, engine, synced):
    synced.clear()
    settings = client.settings.with_overrides(Source.CONNECTION, {"hive.acid.sync.files": "false"})
    client.settings = settings
    with Engine(client, fake, warehouse, agent_info="tests") as other:
        other.run(STATEMENTS["insert"])
    assert synced == []
