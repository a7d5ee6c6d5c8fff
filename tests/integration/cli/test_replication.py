"""``hive-acid replication``: from a file of policies to a replica, what stands where, fail-over and the way back."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.errors import ActionRefusedError, HiveAcidError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG
from airflow_hive_acid.replication.site import Site
from tests.integration.replication.world import Watch, World, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from typer.testing import Result

POLICIES = """
[[policy]]
name = "sales"
source = "berlin"
destination = "madrid-2"
databases = ["sales"]

[[policy]]
name = "back"
source = "madrid-2"
destination = "berlin"
databases = ["nothing"]
"""


@pytest.fixture
def sites(metastore_url: str, replica_metastore_url: str, tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    found = []
    for name, url in (("berlin", metastore_url), ("madrid-2", replica_metastore_url)):
        client = MetastoreClient(url)
        (tmp_path / name).mkdir()
        client.catalog.set_warehouse((tmp_path / name).as_uri())
        found.append(Site(client, name=name))
    yield found[0], found[1]
    for site in found:
        site.client.close()


@pytest.fixture
def call(
    metastore_url: str, replica_metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES)
    monkeypatch.setenv("HIVE_ACID_SITE_MADRID_2", replica_metastore_url)

    def invoke(command: str, *arguments: str, site: bool = True) -> Result:
        where = ["--site", f"berlin={metastore_url}"] if site else []
        return CliRunner().invoke(app, ["replication", command, *arguments, "--policies", str(file), *where])

    return invoke


def rows(done: Result) -> list[dict[str, object]]:
    assert done.exit_code == 0, done.output + str(done.exception)
    return list(json.loads(done.stdout))


def test_policies_run_from_a_terminal(
    sites: tuple[Site, Site], call: Callable[..., Result], replica_metastore_url: str
) -> None:
    primary, replica = sites
    world = World(primary, random.Random(5))
    world.create()
    replica.client.catalog.create_database("sales")
    assert [(r["policy"], r["phase"]) for r in rows(call("status", "--format", "json"))] == [
        ("sales", "new"), ("back", "new"),
    ]  # fmt: skip
    done = call("run", "sales")
    assert "replication sales: from nothing to event" in done.stderr
    world.two_tables()
    with primary.client.database.transaction() as connection:
        newest = sa.select(sa.func.max(NOTIFICATION_LOG.c.EVENT_ID)).scalar_subquery()
        connection.execute(
            sa.update(NOTIFICATION_LOG)
            .where(NOTIFICATION_LOG.c.EVENT_ID == connection.execute(sa.select(newest)).scalar_one())
            .values(EVENT_TYPE="MAKE_TEA", DB_NAME="sales")
        )
    (at,) = rows(call("status", "sales", "--format", "json"))
    assert (at["phase"], at["error"]) == ("incremental", None)
    assert isinstance(at["behind"], int)
    assert at["behind"] > 0
    assert "1 events kept that nobody could apply" in call("run", "sales").stderr
    (kept,) = rows(call("events", "sales", "--format", "json"))
    assert (kept["type"], kept["database"]) == ("MAKE_TEA", "sales")
    assert "1 events of sales up to" in call("events", "sales", "--forget", str(kept["event"])).stderr
    assert call("bootstrap", "sales").exit_code == 0
    Watch(world, replica).look(must_be_current=True)
    tables = rows(call("status", "sales", "--tables", "--format", "json"))
    assert [t["source_table"] for t in tables] == ["sales.parts", "sales.plain"]
    # Whoever has the replica alone sees what it knows.
    alone = CliRunner().invoke(
        app, ["--metastore-url", replica_metastore_url, "replication", "status", "--format", "json"]
    )
    (here,) = rows(alone)
    assert (here["source"], here["behind"]) == ("berlin", None)


@pytest.mark.backends("sqlite")
def test_fail_over_ends_a_policy_and_fail_back_turns_it_round(
    sites: tuple[Site, Site], call: Callable[..., Result], tmp_path: Path
) -> None:
    primary, replica = sites
    world = World(primary, random.Random(5))
    world.create()
    replica.client.catalog.create_database("sales")
    world.write()
    assert call("run", "sales").exit_code == 0
    before = read(primary, world.tables)
    done = call("failover", "sales", site=False)  # the source is gone
    assert done.exit_code == 0, str(done.exception)
    assert "2 ACID tables have the state of event" in done.stderr
    assert "was failed over before" in call("failover", "sales").stderr
    for command in ("run", "bootstrap"):
        assert isinstance(call(command, "sales").exception, ActionRefusedError)
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES.replace('["nothing"]', '["other"]'))
    failed = call("failback", "sales", "--back", "sales")
    assert isinstance(failed.exception, HiveAcidError)
    assert "the way back from madrid-2 to berlin is wanted" in str(failed.exception)
    assert "nothing has to be copied again" in call("failback", "sales", "--back", "back", "--dry-run").stderr
    assert "run policy back now" in call("failback", "sales", "--back", "back").stderr
    file.write_text("[[policy]]" + POLICIES.split("[[policy]]")[2].replace("nothing", "sales"))
    there = World(replica, random.Random(6), history=[before])
    there.write()
    done = call("run", "back")
    assert done.exit_code == 0, str(done.exception)
    Watch(there, primary).look(must_be_current=True)


@pytest.mark.backends("sqlite")
def test_a_side_that_nobody_knows_is_asked_for_by_name(call: Callable[..., Result]) -> None:
    done = call("run", "sales", site=False)
    assert "where is 'berlin'? Give --site berlin=" in str(done.exception)
    assert "HIVE_ACID_SITE_BERLIN" in str(done.exception)
    assert "did you mean 'sales'" in str(call("run", "sale").exception)
