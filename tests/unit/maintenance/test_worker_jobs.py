"""What a compaction asks of its Spark application: names, queues, memory and users, by Hive's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance.worker.jobs import Application, application_for, run_as, table_properties
from airflow_hive_acid.metastore.compaction.model import Compaction, CompactionState, CompactionType, Resource
from airflow_hive_acid.settings import Settings, Source
from tests.tables import flat_table

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.catalog.values.model import Table


def table(owner: str | None = "ann", **properties: str) -> Table:
    named = {key.replace("__", "."): value for key, value in properties.items()}
    return flat_table(
        db="sales", name="t", id=1, location="file:/w/t", columns=(Column("id", "int"),), partition_columns=(),
        properties={"transactional": "true", **named}, owner=owner, type="MANAGED_TABLE",
    )  # fmt: skip


def request(partition: str | None = None, run_as: str | None = None, **properties: str) -> Compaction:
    return Compaction(
        7, Resource("sales", "t", partition), CompactionType.MAJOR, CompactionState.WORKING, queued=True,
        properties={key.replace("__", "."): value for key, value in properties.items()}, run_as=run_as,
    )  # fmt: skip


def application(request: Compaction, table: Table, **settings: str) -> Application:
    own = {key.replace("__", "."): value for key, value in settings.items()}
    return application_for(request, table, Settings({Source.CONNECTION: own}), "host1")


def test_jobs_are_named_as_hive_names_them() -> None:
    assert application(request(), table()).name == "host1-compactor-sales.t"
    assert application(request("day=1/hour=2"), table()).name == "host1-compactor-sales.t.day=1/hour=2"


def test_nothing_asked_for_is_an_application_like_any_other() -> None:
    assert application(request(), table()).is_like(Application())
    assert not application(request(), table(), hive__compactor__job__queue="etl").is_like(Application())


@pytest.mark.parametrize(
    "name",
    ["hive__compactor__job__queue", "mapreduce__job__queuename", "mapred__job__queue__name", "tez__queue__name"],
)
@pytest.mark.setting("hive.compactor.job.queue")
def test_queue_of_request_table_and_setting_in_this_order(name: str) -> None:
    key = f"compactor__{name}"
    everywhere: dict[str, Any] = {"hive__compactor__job__queue": "set"}
    asked, own = request(**{key: "asked"}), table(**{key.upper(): "own"})
    assert application(asked, own, **everywhere).conf == {"spark.yarn.queue": "asked"}
    assert application(request(), own, **everywhere).conf == {"spark.yarn.queue": "own"}
    assert application(request(), table(), **everywhere).conf == {"spark.yarn.queue": "set"}


def test_memory_of_map_and_reduce_tasks_becomes_that_of_executors() -> None:
    """The seed's example: ALTER TABLE … WITH OVERWRITE TBLPROPERTIES ("compactor.mapreduce.map.memory.mb"="3072")."""
    wanted = request(compactor__mapreduce__map__memory__mb="3072")
    assert application(wanted, table()).conf == {"spark.executor.memory": "3072m"}
    both = table(
        compactor__mapreduce__map__memory__mb="1024", compactor__mapreduce__reduce__memory__mb="2048",
        compactor__mapreduce__map__cpu__vcores="2", compactor__yarn__app__mapreduce__am__resource__mb="1500",
        compactor__mapreduce__job__maps="9",
    )  # fmt: skip
    assert application(request(), both).conf == {
        "spark.executor.memory": "2048m", "spark.executor.cores": "2", "spark.driver.memory": "1500m"}  # fmt: skip
    assert application(wanted, both).conf["spark.executor.memory"] == "3072m"


def test_sizes_may_be_given_in_sparks_words() -> None:
    own = table(compactor__spark__executor__memory="4g", compactor__spark__executor__instances="3")
    assert application(request(), own).conf == {"spark.executor.memory": "4g", "spark.executor.instances": "3"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("compactor.mapreduce.map.memory.mb", "much", "it must be a whole number"),
        ("compactor.mapreduce.map.memory.mb", "-1", "it must be a whole number"),
        ("compactor.spark.executor.memory", "4g --conf x=y", "it must be a size such as 3g"),
        ("compactor.spark.driver.extraJavaOptions", "-javaagent:/tmp/x.jar", "cannot be given by a table or request"),
        ("compactor.spark.jars", "http://evil/x.jar", "cannot be given by a table or request"),
        ("compactor.spark.kerberos.keytab", "/etc/hive.keytab", "cannot be given by a table or request"),
        ("compactor.hive.compactor.job.queue", "a b;c", "it must be letters, digits"),
    ],
)
def test_property_that_could_do_more_than_size_a_job_is_refused_by_name(key: str, value: str, said: str) -> None:
    """A table's properties are written by whoever may alter it, and the job runs with the Worker's rights."""
    for asked, own in ((request(**{key: value}), table()), (request(), table(**{key: value}))):
        with pytest.raises(InvalidArgumentsError, match=said):
            application(asked, own)


@pytest.mark.setting("hive.compactor.run.as.user")
def test_runs_as_requested_or_as_set_or_as_the_owner() -> None:
    everywhere = Settings({Source.CONNECTION: {"hive.compactor.run.as.user": "hive"}})
    assert run_as(request(run_as="bob"), table(), everywhere) == "bob"
    assert run_as(request(), table(), everywhere) == "hive"
    assert run_as(request(), table(), Settings()) == "ann"


@pytest.mark.setting("hive.acid.compactor.proxy.user")
def test_acts_for_that_user_only_where_it_is_switched_on() -> None:
    assert application(request(), table()).user is None
    assert application(request(), table(), hive__acid__compactor__proxy__user="true").user == "ann"


@pytest.mark.parametrize("owner", [None, "", "-x", "a b", "ann\n--conf", "x" * 200])
def test_owner_that_is_no_account_is_refused(owner: str | None) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"the user a compaction runs as .* give the table an owner"):
        application(request(), table(owner=owner), hive__acid__compactor__proxy__user="true")


def test_table_properties_of_the_request_win_in_any_case() -> None:
    own = table(ORC__compress__size="1", orc__stripe__size="2")
    found = table_properties(request(tblprops__orc__compress__size="8192"), own)
    assert found == {"transactional": "true", "orc.stripe.size": "2", "orc.compress.size": "8192"}
