"""docs/how-to/streams/time-travel.md as it is: its statements and commands run, in order, and print what it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.cli.session import CliSession
from airflow_hive_acid.engine.changes import change_range, read_changes
from airflow_hive_acid.errors import ChangesNoLongerAvailableError, NoSuchPinError, TablePinnedError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.maintenance import run_cleaner
from airflow_hive_acid.metastore.listing.commit_log import CommitLog

pytestmark = [pytest.mark.crossing("time travel x pins, as the documents show it"), pytest.mark.spark]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "streams" / "time-travel.md"


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)


def _shown(rows):
    return [" | ".join("" if v is None else str(v) for v in row) for row in rows]


def test_the_page_is_true(engine, client):
    """Each SQL block; what follows ``-->`` in a comment is a row of its last SELECT."""
    for block in _blocks("sql"):
        results = engine.run(block)
        expected = re.findall(r"^-- +--> (.*)$", block, re.M)
        if expected:
            assert _shown(results[-1].rows.rows) == expected, block
        for pin in re.findall(r"^-- pinned as '(\w+)'$", block, re.M):
            client.pins.pin(pin, ["shop.orders"], expires=3600)


@pytest.fixture
def orders(engine):
    """The page's table, with the changes it makes first."""
    create, change, *_ = _blocks("sql")
    engine.run(f"{create};{change}")
    return "shop.orders"


@pytest.fixture
def call(metastore_url):
    """Runs a command line of the page."""

    def call(line, *more):
        program, *arguments = shlex.split(line)
        assert program == "hive-acid"
        done = CliRunner().invoke(app, ["--metastore-url", metastore_url, *arguments, *more])
        assert done.exit_code == 0, (line, done.output, done.exception)
        return done

    return call


def test_the_commands_of_the_page_pin_extend_and_drop(orders, client, call):
    (block,) = _blocks("bash")
    add, show, extend, drop = block.splitlines()
    call(add)
    (pin,) = json.loads(call(show, "--format", "json").stdout)
    assert (pin["name"], pin["tables"], pin["state"]) == ("month_end", orders, "active"), pin
    (made,) = client.pins.show()
    assert (made.max_bytes, made.comment) == (50_000_000_000, "books of October")
    call(extend)
    (extended,) = client.pins.show()
    assert (extended.expires - made.expires) / 86_400_000 == pytest.approx(30, abs=0.01)
    call(drop)
    assert json.loads(call(show, "--format", "json").stdout) == []
    (ended,) = json.loads(call(f"{show} --ended", "--format", "json").stdout)
    assert ended["name"] == "month_end"


def test_the_changes_that_an_asset_event_names_are_read_as_the_page_does(orders, client, engine, call, monkeypatch):
    (command,) = re.findall(r"On a terminal: `(hive-acid changes [^`]*)`", PAGE.read_text(encoding="utf-8"))
    monkeypatch.setattr(CliSession, "engine", lambda _session: engine)
    shown = call(command, "--format", "csv")
    assert "changes of shop.orders from write id 2 to 3; go on with --from 4 --event " in shown.stderr
    kinds = sorted(line.split(",")[3] for line in shown.stdout.splitlines()[1:])
    assert kinds == ["delete", "update_after", "update_before"]

    told = [
        SimpleNamespace(extra={"payload": {**commit.to_document(), "conn_id": "hive_acid_default"}})
        for commit in CommitLog(client.database, client.notifications).read(0).commits
        if str(commit.table) == orders
    ]
    read = []

    class Lent(HiveAcidHook):
        """The page's hook, on the metastore and the Spark application of this test."""

        def get_conn(self):
            return client

        def get_engine(self):
            return engine

        def close(self):
            """Somebody else may still need them."""

        def read_changes(self, *arguments, **named):
            read.append(super().read_changes(*arguments, **named))
            return read[-1]

    monkeypatch.setattr("airflow_hive_acid.hooks.hive_acid.HiveAcidHook", Lent)
    example, going_on = _blocks("python")
    names = {}
    exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    names["follow"].function(triggering_asset_events={"orders": told})
    assert [(found.first, found.last, len(rows.rows)) for found, rows in read] == [(1, 1, 3), (2, 2, 2), (3, 3, 1)]
    names |= {"hook": Lent(), "position": read[-1][0].to_document()}
    exec(compile(going_on, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    assert (read[-1][0].first, read[-1][0].is_empty, names["position"]["to_write_id"]) == (4, True, 3)
    gap = SimpleNamespace(extra={"payload": {"kind": "gap", "table": orders, "event_id": 9}})
    with pytest.raises(RuntimeError, match="read the table as a whole"):
        names["follow"].function(triggering_asset_events={"orders": [gap]})


def test_a_pin_is_read_after_compaction_cleanup_and_overwrite(engine, client):
    engine.run(
        """
        CREATE DATABASE w;
        CREATE TABLE w.t (id INT, name STRING) PARTITIONED BY (p INT) STORED AS ORC
            TBLPROPERTIES ('transactional'='true');
        INSERT INTO w.t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2);
        DELETE FROM w.t WHERE id = 2
        """
    )
    client.pins.pin("books", ["w.t"], expires=3600)
    engine.run("UPDATE w.t SET name = 'x'; INSERT OVERWRITE TABLE w.t PARTITION (p = 1) VALUES (9, 'z');"
               "INSERT INTO w.t VALUES (4, 'd', 3); ALTER TABLE w.t PARTITION (p = 2) COMPACT 'major'")  # fmt: skip
    found, rows = read_changes(engine, client, "w.t", 3, key=["id", "p"])
    assert (found.first, found.last) == (3, 5)
    assert sorted((row[3], row[4], row[0], row[1]) for row in rows.rows) == [
        ("delete", 4, 1, "x"), ("insert", 4, 9, "z"), ("insert", 5, 4, "d"),
        ("update_after", 3, 1, "x"), ("update_after", 3, 3, "x"),
        ("update_before", 3, 1, "a"), ("update_before", 3, 3, "c"),
    ]  # fmt: skip
    assert all(row[5] for row in rows.rows), "their txns are known"
    engine.run_compactions("w")
    with client.snapshot(["w.t"]):
        pass
    run_cleaner(client, engine._context.filesystem)
    then = "SELECT id, name, p FROM w.t FOR SYSTEM_VERSION AS OF PIN 'books'"
    both = f"SELECT 1, * FROM w.t UNION ALL SELECT 0, * FROM ({then}) ORDER BY 1, 2"  # noqa: S608 - a constant
    assert engine.query(both).rows == [[0, 1, "a", 1], [0, 3, "c", 2], [1, 3, "x", 2], [1, 4, "d", 3], [1, 9, "z", 1]]
    (explained,) = engine.run(f"EXPLAIN {then} WHERE p = 1")
    text = "\n".join(row[0] for row in explained.rows.rows)
    assert "w.t as of pin 'books'" in text
    assert "partitions: 1 of 2" in text
    assert "p=1/delta_0000001_0000001_0000" in text
    assert "base" not in text.partition("LOCKS:")[0], "not the overwritten one of now"
    (copied,) = engine.run("INSERT INTO w.t SELECT * FROM w.t FOR SYSTEM_VERSION AS OF PIN 'books' WHERE p = 2")
    assert copied.inserted == 1
    with pytest.raises(ChangesNoLongerAvailableError, match=r"in w.t/p=2 base_\d+_v\d+ knows only what is left"):
        read_changes(engine, client, "w.t", 3)
    for statement in ("DROP TABLE w.t", "ALTER TABLE w.t DROP PARTITION (p = 2)", "ALTER TABLE w.t RENAME TO w.u"):
        with pytest.raises(TablePinnedError, match="hive-acid pin drop 'books'"):
            engine.run(statement)
    client.pins.unpin("books")
    with pytest.raises(NoSuchPinError, match="'books' has ended: dropped by"):
        engine.query(then)
    engine.run("ALTER TABLE w.t DROP PARTITION (p = 1)")
    with pytest.raises(ChangesNoLongerAvailableError, match="a partition was dropped since"):
        engine.query("SELECT * FROM w.t CHANGES BETWEEN 6 AND 6")
    assert change_range(client, "w.t", 8).is_empty
