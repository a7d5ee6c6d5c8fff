"""``hive-acid schema check`` and ``schema upgrade`` on what Hive's own scripts make, of each version and database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.errors import SchemaVersionError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.setup.abilities import OF_A_VENDOR
from airflow_hive_acid.metastore.setup.schema import EXTENSION_VERSION
from airflow_hive_acid.settings import Settings, Source
from tests import hive3_schemas, hive_scripts

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.interop, pytest.mark.backends("postgresql", "mariadb", "mysql")]

COUNTING = {
    "compaction and cleaning by this package (Hive's own compactor does both; requests are put into its queue)",
    "minor compactions (what a Hive 3.1 makes of one, it may not be able to read)",
    "a replica of another metastore",
    "statistics of columns (ANALYZE … FOR COLUMNS)",
    "pools of compactions",
    "REBALANCE compactions",
    "databases of data connectors",
}
ONLY_3_1 = {
    "why a compaction failed",
    "when a compaction was asked for",
    "the last write id of a table in the catalog",
    "MANAGEDLOCATION of databases",
    "what a commit wrote, for replication (TXN_WRITE_NOTIFICATION_LOG)",
}
SERVED: dict[str, set[str]] = {
    "3.1.0": COUNTING | ONLY_3_1,
    hive3_schemas.VERSIONS["cdp"]: COUNTING | {OF_A_VENDOR},
    "4.0.0": set(),
    "4.1.0": set(),
    "4.2.0": set(),
}
"""Versions, and what is not on a metastore of each."""
REFUSED = {
    "1.2.0": "belongs to a Hive 1.2, whose transactions follow an older protocol",
    "3.0.0": "belongs to a Hive 3.0, whose transactions follow an older protocol",
    "3.2.0": "belongs to a Hive 3.2, whose transactions follow an older protocol",
    "4.0.0-alpha-1": "belongs to an unreleased or changed build of Hive 4",
    "4.0.0-beta-1": "belongs to an unreleased or changed build of Hive 4",
    "4.3.0": "belongs to a Hive 4.3, which needs a newer release of this package",
}


@pytest.fixture
def command(database_url: str) -> Callable[..., Any]:
    """Run the command line on the test's metastore."""

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["--metastore-url", database_url, *arguments])

    return run


def create(url: str, version: str) -> None:
    if version == hive3_schemas.VERSIONS["cdp"]:
        hive3_schemas.create(url, "cdp")
    elif version == "4.3.0":
        hive_scripts.create(url, "4.2.0")
        write_version(url, version)
    else:
        hive_scripts.create(url, version)


def write_version(url: str, version: str) -> None:
    named = sa.table("VERSION", sa.column("SCHEMA_VERSION"))
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.update(named).values(SCHEMA_VERSION=version))


@pytest.mark.parametrize("version", SERVED)
def test_a_schema_is_named_with_what_it_cannot_hold_and_given_our_tables(
    command: Callable[..., Any], database_url: str, version: str
) -> None:
    create(database_url, version)
    bare = command("schema", "check")
    assert bare.exit_code == 1
    assert f"Hive schema {version}, without our tables: run 'hive-acid schema upgrade'" in bare.stderr
    assert command("schema", "upgrade").exit_code == 0
    checked = command("schema", "check")
    assert checked.exit_code == 0, checked.output
    assert f"Hive schema {version}, our tables version {EXTENSION_VERSION};" in checked.stderr
    told = {line.split(": ", 1)[1] for line in checked.stderr.splitlines() if "not on this metastore" in line}
    assert told == SERVED[version]
    insists = Settings({Source.CONNECTION: {"hive.acid.unverified.metastores": "true"}})
    with MetastoreClient(database_url, insists) as client:
        assert client.database.layout().counts_txns == version.startswith("3.")
        with client.transaction({"db.t": "update"}) as txn:
            pass
        assert client.get_valid_write_ids("db.t")["db.t"].is_valid(txn.write_ids["db.t"])


@pytest.mark.parametrize("version", REFUSED)
def test_a_schema_that_is_not_served_is_named_and_left_as_it_is(
    command: Callable[..., Any], database_url: str, version: str
) -> None:
    create(database_url, version)

    def tables() -> set[str]:
        return set(sa.inspect(sa.create_engine(database_url, poolclass=sa.pool.NullPool)).get_table_names())

    before = tables()
    for verb in ("check", "upgrade", "create"):
        done = command("schema", verb)
        assert done.exit_code == 1
        assert isinstance(done.exception, SchemaVersionError)
        assert f"schema version is {version}; served are 3.1, 4.0, 4.1 and 4.2" in str(done.exception)
        assert REFUSED[version] in str(done.exception)
    assert tables() == before
