"""What cannot be followed says so; what would make a wrong copy is refused, and then nothing has changed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import (
    ConfigurationError,
    HistoryGoneError,
    InvalidArgumentsError,
    MirrorDivergedError,
    MirrorKeyError,
    MirrorRefusedError,
)
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.mirrors.listing import list_mirrors
from tests.mirror.conftest import ACID

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mirror.conftest import Mirroring

pytestmark = pytest.mark.mirror
_numbers = itertools.count()


@pytest.fixture(params=["iceberg", "delta"])
def target(request: pytest.FixtureRequest, mirror_home: Path) -> str:
    if request.param == "delta":
        return f"delta:{mirror_home}/refused/t{next(_numbers)}"
    return f"iceberg:ice.refused.t{next(_numbers)}"


@pytest.fixture
def m(mirroring: Mirroring) -> Mirroring:
    """A table with three rows."""
    mirroring.sql(f"CREATE TABLE t (id int, s string) {ACID}", "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    return mirroring


def written(m: Mirroring, target: str, statement: str) -> None:
    """Somebody else writes the target."""
    kind, _, place = target.partition(":")
    m.spark.sql(statement.format(f"delta.`{place}`" if kind == "delta" else place))


def compacted(m: Mirroring, kind: str = "major") -> None:
    """A compaction, cleaned up after."""
    m.sql(f"ALTER TABLE t COMPACT '{kind}'")
    outcomes = m.engine.run_compactions("w")
    assert all(o.directories for o in outcomes), outcomes
    run_cleaner(m.client, AnyFilesystem())


def test_two_rows_of_one_key_are_named_and_nothing_changes(m: Mirroring, target: str) -> None:
    m.sql("INSERT INTO t VALUES (2, 'again')")
    with pytest.raises(MirrorKeyError, match=r"two rows of default.t have the key id = 2; a mirror by key needs one"):
        m.run(target, ["id"])
    assert "two rows of default.t" in list_mirrors(m.client)[0].mirror.error
    m.sql("DELETE FROM t WHERE s = 'again'")
    m.follow(target, ["id"], "bootstrap")
    rows = m.in_target(target)
    # One that is there already, and two that are both new.
    for second in ("INSERT INTO t VALUES (3, 'second')", "INSERT INTO t VALUES (9, 'second'), (9, 'third')"):
        m.sql("UPDATE t SET s = concat(s, '+') WHERE id = 1", second)
        with pytest.raises(MirrorKeyError, match=r"have the key id = (3|9);.*The target was not changed"):
            m.run(target)
        assert m.in_target(target) == rows
        m.sql("DELETE FROM t WHERE s IN ('second', 'third')")
    m.follow(target)


def test_what_the_cleaner_has_removed_is_copied_again_unless_that_is_refused(m: Mirroring, target: str) -> None:
    m.follow(target, [], "bootstrap")
    m.sql("UPDATE t SET s = 'new' WHERE id = 1", "DELETE FROM t WHERE id = 2")
    compacted(m)
    rows = m.in_target(target)
    with pytest.raises(HistoryGoneError):
        m.verify(target)
    with pytest.raises(MirrorRefusedError, match=r"cannot follow default.t: the changes of default.t from write id 2"):
        m.run(target, refuse_bootstrap=True)
    assert m.in_target(target) == rows
    report = m.follow(target, todo="bootstrap")
    assert "knows only what is left of the write ids up to 3" in report.reason
    # A compaction of what the mirror has already takes nothing from it.
    m.sql("INSERT INTO t VALUES (6, 'm')")
    m.follow(target)
    compacted(m)
    m.sql("INSERT INTO t VALUES (7, 'n')", "DELETE FROM t WHERE id = 3")
    m.follow(target)


def test_rows_known_by_their_ids_are_copied_again_after_rebalancing(m: Mirroring, target: str) -> None:
    m.follow(target, [], "bootstrap")
    m.follow(f"{target}_k", ["id"], "bootstrap")
    compacted(m, "rebalance")
    m.sql("DELETE FROM t WHERE id = 1")
    assert "rebalancing" in m.follow(target, todo="bootstrap").reason
    m.run(f"{target}_k")
    m.same(f"{target}_k")


def test_a_target_that_somebody_else_wrote_is_copied_again(m: Mirroring, target: str) -> None:
    m.follow(target, ["id"], "bootstrap")
    written(m, target, "DELETE FROM {} WHERE id = 1")
    found = m.verify(target)
    assert (found.is_equal, found.source_rows, found.target_rows, found.partitions) == (False, 3, 2, 1)
    assert found.different == ({"partition": "", "source_rows": 3, "target_rows": 2},)
    m.sql("INSERT INTO t VALUES (9, 'n')")
    with pytest.raises(MirrorRefusedError, match="somebody else has written"):
        m.run(target, refuse_bootstrap=True)
    assert "somebody else has written" in m.follow(target, todo="bootstrap").reason


def test_a_target_that_was_brought_back_is_copied_again(m: Mirroring, target: str) -> None:
    m.follow(target, ["id"], "bootstrap")
    kind, _, place = target.partition(":")
    first = None if kind == "delta" else m.spark.sql(f"SELECT snapshot_id FROM {place}.snapshots").first()[0]
    m.sql("DELETE FROM t WHERE id = 1")
    m.follow(target)
    if kind == "delta":
        m.spark.sql(f"RESTORE TABLE delta.`{place}` TO VERSION AS OF 0")
    else:
        catalog, _, rest = place.partition(".")
        m.spark.sql(f"CALL {catalog}.system.rollback_to_snapshot('{rest}', {first})")
    m.sql("INSERT INTO t VALUES (9, 'n')")
    report = m.follow(target, todo="bootstrap")
    assert ("RESTORE" if kind == "delta" else "brought back to an earlier snapshot") in report.reason


def test_compactions_of_the_target_are_no_strangers(m: Mirroring, target: str) -> None:
    m.follow(target, ["id"], "bootstrap")
    kind, _, place = target.partition(":")
    if kind == "delta":
        written(m, target, "OPTIMIZE {}")
    else:
        catalog, _, rest = place.partition(".")
        m.spark.sql(
            f"CALL {catalog}.system.rewrite_data_files(table => '{rest}', options => map('rewrite-all', 'true'))"
        )
    m.sql("UPDATE t SET s = 'q' WHERE id = 1")
    m.follow(target)


def test_what_is_no_mirror_is_left_alone(m: Mirroring, target: str, mirror_home: Path) -> None:
    place = target.partition(":")[2]
    if target.startswith("delta"):
        m.spark.sql(f"CREATE TABLE delta.`{place}` USING delta AS SELECT 1 AS id")
    else:
        m.spark.sql(f"CREATE TABLE {place} USING iceberg AS SELECT 1 AS id")
    with pytest.raises(MirrorRefusedError, match="is there and no mirror of ours; nothing was changed"):
        m.run(target, bootstrap=True)
    assert m.in_target(target) == [(1,)]


def test_a_table_made_again_under_the_name_is_copied_again(m: Mirroring, target: str) -> None:
    m.follow(target, ["id"], "bootstrap")
    m.sql("DROP TABLE t", f"CREATE TABLE t (id int, s string) {ACID}", "INSERT INTO t VALUES (1, 'other')")
    assert m.follow(target, todo="bootstrap").reason == "default.t was dropped and made again"
    m.follow(target, ["s"], "bootstrap")
    assert m.run(target, bootstrap=True).reason == "it was asked for"
    m.same(target)


def test_a_mirror_that_is_forgotten_goes_on_from_its_target(m: Mirroring, target: str) -> None:
    m.follow(target, ["id"], "bootstrap")
    m.client.mirrors.forget("default.t", target)
    assert list_mirrors(m.client) == []
    m.sql("INSERT INTO t VALUES (9, 'n')")
    report = m.follow(target)
    assert (report.key, report.inserted) == (("id",), 1)


def test_another_table_of_a_forgotten_name_does_not_overwrite_what_is_left_of_it(m: Mirroring, target: str) -> None:
    """The target of a table that was handed over and retired is the only place of its rows."""
    m.follow(target, ["id"], "bootstrap")
    held = m.in_target(target)
    m.client.mirrors.forget("default.t", target)
    m.sql("DROP TABLE t", f"CREATE TABLE t (id int, s string) {ACID}", "INSERT INTO t VALUES (1, 'other')")
    for _ in range(2):  # the first one has left a record
        with pytest.raises(
            MirrorRefusedError, match=r"holds default.t, which is another table .* let it be overwritten"
        ):
            m.run(target)
    assert m.in_target(target) == held
    assert m.run(target, bootstrap=True).todo == "bootstrap"
    m.same(target)


def test_what_is_asked_for_wrongly_says_what_is_right(m: Mirroring, target: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="key names nr, which is no column of"):
        m.run(target, ["nr"])
    with pytest.raises(MirrorDivergedError, match="holds no mirror: there is nothing yet"):
        m.verify(target)
    with pytest.raises(ConfigurationError, match=r"Spark needs the settings spark.sql.catalog.nowhere"):
        m.run("iceberg:nowhere.db.t")
    m.sql("CREATE TABLE plain (id int) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    with pytest.raises(InvalidArgumentsError, match="plain is no ACID table"):
        m.run(target, table="default.plain")
