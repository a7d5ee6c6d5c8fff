"""What a compaction asks of its Spark application: its name, the queue, memory, and the user it runs as.

Names and sources are Hive's (Worker, CompactorUtil.getCompactorJobQueueName, the Hive Transactions document):
properties of the request win over those of the table, ``compactor.`` stands before a job property, ``tblprops.`` before
a table property. A table's properties are its users' input, and an application runs with the Worker's rights: only the
settings named here reach Spark, and a user only in the form that accounts have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Compaction
    from airflow_hive_acid.settings import Settings

JOB_PREFIX = "compactor."
TABLE_PREFIX = "tblprops."
QUEUE = "spark.yarn.queue"
EXECUTOR_MEMORY = "spark.executor.memory"
DRIVER_MEMORY = "spark.driver.memory"

#: In Hive's order; the first that is set counts.
_QUEUES = ("hive.compactor.job.queue", "mapreduce.job.queuename", "mapred.job.queue.name", "tez.queue.name")
#: Hadoop's memory in MB; where two mean the same setting of Spark, the larger counts.
_MEMORY = {
    "mapreduce.map.memory.mb": EXECUTOR_MEMORY,
    "mapreduce.reduce.memory.mb": EXECUTOR_MEMORY,
    "hive.tez.container.size": EXECUTOR_MEMORY,
    "yarn.app.mapreduce.am.resource.mb": DRIVER_MEMORY,
    "tez.am.resource.memory.mb": DRIVER_MEMORY,
}
_CORES = {
    "mapreduce.map.cpu.vcores": "spark.executor.cores",
    "mapreduce.reduce.cpu.vcores": "spark.executor.cores",
    "yarn.app.mapreduce.am.resource.cpu-vcores": "spark.driver.cores",
}
#: What may be said in Spark's own words: sizes, nothing that names code, files or credentials.
_SPARK = frozenset({
    EXECUTOR_MEMORY, "spark.executor.memoryOverhead", "spark.executor.cores", "spark.executor.instances",
    DRIVER_MEMORY, "spark.driver.memoryOverhead", "spark.driver.cores", "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.minExecutors", "spark.dynamicAllocation.maxExecutors", "spark.sql.shuffle.partitions",
    QUEUE,
})  # fmt: skip
_BY_LOWER = {name.lower(): name for name in _SPARK}
_SIZE = re.compile(r"^[1-9]\d{0,11}[kmgt]?$", re.IGNORECASE)
_VALUE = re.compile(r"^(true|false|[1-9]\d{0,8})$", re.IGNORECASE)
_QUEUE_NAME = re.compile(r"^[\w.-]{1,128}$")
ACCOUNT = re.compile(r"^[A-Za-z_][\w.$-]{0,127}(@[\w.-]{1,128})?$")
"""How the name of a user looks whom an application acts for."""


@dataclass(frozen=True, slots=True)
class Application:
    """What a Spark application must be like.

    :param name: as the cluster shows it.
    :param conf: Spark settings, over those of the connection.
    :param user: whom it runs as (``spark-submit --proxy-user``); None: whoever submits.
    """

    name: str = "hive-acid"
    conf: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None

    def is_like(self, other: Application) -> bool:
        """Whether one can serve what asks for the other; names do not matter."""
        return self.user == other.user and dict(self.conf) == dict(other.conf)


def application_for(request: Compaction, table: Table, settings: Settings, host: str) -> Application:
    """The application of a compaction.

    :param host: of the Worker; Hive's job names begin with it.
    :raises InvalidArgumentsError: when a property is unusable; names it and says what it may be.
    """
    return Application(
        name=job_name(request, host),
        conf=_conf(request, table, settings),
        user=_user(run_as(request, table, settings)) if settings.flag("hive.acid.compactor.proxy.user") else None,
    )


def check_properties(table: Mapping[str, str], request: Mapping[str, str]) -> None:
    """Refuse when it is asked for what a Worker would refuse when it begins.

    :param table: the table's properties, which count where the request has none.
    :raises InvalidArgumentsError: when a ``compactor.*`` property cannot be given, or has an unusable value; names it.
    """
    for properties in (table, request):
        for _ in _spark_settings(properties):
            pass
    _checked_queue(_queue(request) or _queue(table))


def job_name(request: Compaction, host: str) -> str:
    """``<host>-compactor-<db>.<table>[.<partition>]``, as Hive names its jobs."""
    where = request.resource
    parts = (where.database, where.table, *(() if where.partition is None else (where.partition,)))
    return f"{host}-compactor-{'.'.join(parts)}"


def run_as(request: Compaction, table: Table, settings: Settings) -> str | None:
    """Whom a compaction is done for: as requested, as set for all, or the owner of the table (CQ_RUN_AS)."""
    return request.run_as or settings.string("hive.compactor.run.as.user") or table.owner


def table_properties(request: Compaction, table: Table) -> dict[str, str]:
    """The table's properties with those that the request lays over them (``tblprops.``)."""
    over = {k[len(TABLE_PREFIX) :]: v for k, v in request.properties.items() if k.lower().startswith(TABLE_PREFIX)}
    replaced = {key.lower() for key in over}
    return {**{k: v for k, v in table.properties.items() if k.lower() not in replaced}, **over}


def _conf(request: Compaction, table: Table, settings: Settings) -> dict[str, str]:
    conf: dict[str, str] = {}
    # The request's properties come last and win, whatever names both use.
    for properties in (table.properties, request.properties):
        conf |= dict(_spark_settings(properties))
    queue = _queue(request.properties) or _queue(table.properties) or settings.string("hive.compactor.job.queue")
    if queue:
        conf[QUEUE] = _checked_queue(queue)
    return conf


def _checked_queue(queue: str) -> str:
    form = "letters, digits, '.', '_' and '-'"
    return queue and _checked(queue, _QUEUE_NAME, "the queue of a compaction", form)


def _spark_settings(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What the job properties of one source mean to Spark; Hadoop's other settings mean nothing to it."""
    largest: dict[str, int] = {}
    own: dict[str, str] = {}
    for written, value in properties.items():
        key = written.lower().removeprefix(JOB_PREFIX)
        if not written.lower().startswith(JOB_PREFIX):
            continue
        if key in _MEMORY or key in _CORES:
            number = int(_checked(value, re.compile(r"^[1-9]\d{0,8}$"), f"property {written!r}", "a whole number"))
            target = (_MEMORY | _CORES)[key]
            largest[target] = max(number, largest.get(target, 0))
        elif key.startswith("spark."):
            own[_known(key, written)] = _spark_value(_known(key, written), value, written)
    yield from ((k, f"{n}m" if k in (EXECUTOR_MEMORY, DRIVER_MEMORY) else str(n)) for k, n in largest.items())
    yield from own.items()


def _known(key: str, written: str) -> str:
    if key not in _BY_LOWER:
        raise InvalidArgumentsError(
            f"property {written!r} cannot be given by a table or request; those that can are "
            + ", ".join(f"{JOB_PREFIX}{name}" for name in sorted(_SPARK))
            + "; others go into the extra of the hive_acid connection"
        )
    return _BY_LOWER[key]


def _spark_value(key: str, value: str, written: str) -> str:
    if key == QUEUE:
        return _checked(value, _QUEUE_NAME, f"property {written!r}", "the name of a queue")
    is_size = "emory" in key
    form = "a size such as 3g or 3072m" if is_size else "a whole number, true or false"
    return _checked(value, _SIZE if is_size else _VALUE, f"property {written!r}", form)


def _queue(properties: Mapping[str, str]) -> str:
    given = {key.lower(): value for key, value in properties.items()}
    return next((given[JOB_PREFIX + name].strip() for name in _QUEUES if given.get(JOB_PREFIX + name, "").strip()), "")


def _user(name: str | None) -> str:
    form = "the name of an account: give the table an owner, or set hive.compactor.run.as.user"
    return _checked(name or "", ACCOUNT, "the user a compaction runs as", form)


def _checked(text: str, form: re.Pattern[str], what: str, expected: str) -> str:
    if not form.match(text.strip()):
        raise InvalidArgumentsError(f"{what} is {text[:80]!r}; it must be {expected}")
    return text.strip()
