"""Builder of the replication DAGs: a task group for each policy, in which the first copy comes before what follows.

Policies that name no schedule share ``hive_acid_replication``; each that does has a DAG of its own. Nothing is decided
here: tasks run cycles (:mod:`airflow_hive_acid.operators.replication`), one at a time for each policy.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, AssetAny, Param, TaskGroup

from airflow_hive_acid.airflow_versions import AssetOrTimeSchedule, DeltaTriggerTimetable, interval_of
from airflow_hive_acid.dag_factories.schedules import SHORTEST_WAIT, ScheduleRule, Timetable, timetable, timetable_of
from airflow_hive_acid.hooks.configuration import SECTION
from airflow_hive_acid.hooks.replication import OPTION, configured_policies, policy_asset
from airflow_hive_acid.operators.replication import HiveAcidReplicationOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from airflow_hive_acid.dag_factories.schedules import Schedule
    from airflow_hive_acid.replication.policies.policy import Policy

DAG_ID = "hive_acid_replication"
_RULE = ScheduleRule("replication_schedule", "hive.acid.repl.interval", waits=SHORTEST_WAIT)
_LONGEST_SHARED_WAIT = 60.0
"""Policies of one run wait together, and what happens to one that is done waits for the next run."""


def replication_dags(found: Sequence[Policy] | Sequence[Mapping[str, Any]] | None = None) -> list[DAG]:
    """The DAGs of policies.

    :param found: the policies, as values or as mappings; by default those of ``[hive_acid] replication_policies``.
    :raises InvalidArgumentsError: when they cannot be in force together, or a schedule is none; names the policy.
    """
    policies = _policies(found)
    shared = [one for one in policies if one.schedule is None]
    dags = [_dag(DAG_ID, shared, timetable(_RULE))] if shared or not policies else []
    for one in policies:
        if one.schedule is not None:
            where = f"replication policy {one.name!r}: schedule"
            dags.append(_dag(f"{DAG_ID}_{one.name}", [one], timetable_of(one.schedule, where)))
    return dags


def _policies(found: Sequence[Policy] | Sequence[Mapping[str, Any]] | None) -> tuple[Policy, ...]:
    from airflow_hive_acid.hooks.replication import policy_of
    from airflow_hive_acid.replication.policies.policy import check_together

    if found is None:
        return configured_policies()
    policies = tuple(policy_of(one) for one in found)
    check_together(policies)
    return policies


def _dag(dag_id: str, policies: Sequence[Policy], times: Timetable | None) -> DAG:
    wait = 0.0
    schedule: Schedule | AssetAny = times
    if times is not None and not isinstance(times, DeltaTriggerTimetable):
        pass  # whoever chooses times wants them
    elif times is not None:
        wait = interval_of(times).total_seconds()
        wait = wait if len(policies) < 2 else min(wait, _LONGEST_SHARED_WAIT)
        if policies:
            # A run that brought something is followed by another one at once.
            schedule = AssetOrTimeSchedule(timetable=times, assets=AssetAny(*(policy_asset(p.name) for p in policies)))
    dag = DAG(
        dag_id,
        schedule=schedule if policies else None,
        catchup=False,
        max_active_runs=1,
        tags=["hive-acid"],
        default_args={"owner": "hive-acid", "retries": 2, "retry_delay": timedelta(seconds=30)},
        params={
            "bootstrap": Param(
                [], type="array", items={"type": "string"},
                description="Policies that are copied again from the beginning, by name.",
            ),
            "wait_seconds": Param(
                wait, type="number", minimum=0, description="How long to wait for news at the source; 0: look once."
            ),
        },
        render_template_as_native_obj=True,
        doc_md=_doc(policies),
    )  # fmt: skip
    with dag:
        for one in policies:
            _group(one)
    return dag


def _group(one: Policy) -> None:
    document = one.to_document()
    with TaskGroup(one.name, tooltip=f"{one.source} to {one.destination}"):
        first = HiveAcidReplicationOperator(
            task_id="bootstrap", policy=document, bootstrap="{{ params.bootstrap }}", only_first=True
        )
        follow = HiveAcidReplicationOperator(
            task_id="follow", policy=document, wait_seconds="{{ params.wait_seconds }}"
        )
        first >> follow


def _doc(policies: Sequence[Policy]) -> str:
    if not policies:
        return (
            f"There are no replication policies: write some into a file and name it in `[{SECTION}] {OPTION}`; see "
            "docs/how-to/running/replication.md."
        )
    lines = ["Replicates tables from one metastore and warehouse to another.", "", "| policy | from | to | tables |",
             "|---|---|---|---|"]  # fmt: skip
    for one in policies:
        tables = ", ".join(f"`{pattern}`" for pattern in one.tables)
        lines.append(f"| {one.name} | {one.source} | {one.destination} | {tables} |")
    return "\n".join(lines)
