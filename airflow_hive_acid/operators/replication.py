"""Runs cycles of replication policies, and sends an asset event for each commit that arrived."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_hive_acid.airflow_versions import seconds_of
from airflow_hive_acid.errors import HiveAcidError, ReplicationBusyError, ReplicationGapError
from airflow_hive_acid.hooks import stats
from airflow_hive_acid.hooks.arguments import (
    Argument,
    Takes,
    check_parsed,
    check_rendered,
    mapping,
    optional_texts,
    seconds,
)
from airflow_hive_acid.hooks.links import LINKS
from airflow_hive_acid.hooks.lives import task_life
from airflow_hive_acid.hooks.replication import REPLICATED, open_sites, policy_asset, policy_of
from airflow_hive_acid.hooks.tasks import agent_info, error_of_event, fail_task, stop_on_kill
from airflow_hive_acid.triggers.replication import ReplicationFreeTrigger, ReplicationNewsTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from airflow.sdk import Context
    from pydantic import JsonValue

    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.replication.policies.state import PolicyState
    from airflow_hive_acid.replication.site import Site

_DOCUMENT = mapping("fields to their values")


def _is_policy(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, Mapping):
        return _DOCUMENT.fits(value)
    from airflow_hive_acid.replication.policies.policy import Policy  # for those who give one

    return isinstance(value, Policy)


_POLICY = Argument("the name of a policy of [hive_acid] replication_policies, or its fields as a mapping", _is_policy)
_POLICY_NAMES = optional_texts("names of policies")
_BOOTSTRAP = Argument(
    "True or False, or a list of names of policies",
    lambda value: isinstance(value, bool) or _POLICY_NAMES.fits(value),
    (None,),
)
_STORE_KEY = "hive_acid_replication_told"


class HiveAcidReplicationOperator(BaseOperator):
    """Runs one cycle of a replication policy: the first copy if there is none yet, then what has happened since.

    A cycle that was interrupted is done again from its position, and what is there already is not done twice. Every
    commit that arrived is told of once, as an event of :func:`~airflow_hive_acid.hooks.replication.policy_asset`.

    :param policy: name of a policy of ``[hive_acid] replication_policies``, or its fields as a mapping.
    :param bootstrap: copy everything again, whatever the position is; also a list of names of policies (as a DAG's
        parameter gives it), of which this may be one. (templated)
    :param only_first: do nothing when there is a first copy already.
    :param wait_seconds: when there is no news: how long to wait for some at most. (templated)
    :param busy_timeout: seconds, or a ``timedelta``, to wait at most for another cycle of the policy to end.
    :param poll_interval: seconds, or a ``timedelta``, between two looks.
    :param deferrable: wait in the triggerer instead of in a worker slot.
    """

    template_fields: Sequence[str] = ("bootstrap", "wait_seconds")
    ui_color = "#e1d5e7"
    operator_extra_links = LINKS
    linked: dict[str, Any] | None = None
    hive_acid_conn_id: str = ""
    takes: ClassVar[Takes] = {
        "policy": _POLICY,
        "bootstrap": _BOOTSTRAP,
        "wait_seconds": seconds(),
        "busy_timeout": seconds(),
        "poll_interval": seconds(0.01),
    }

    def __init__(
        self,
        *,
        policy: str | Mapping[str, Any],
        bootstrap: bool | str | Sequence[str] = False,
        only_first: bool = False,
        wait_seconds: float | timedelta | str = 0,
        busy_timeout: float | timedelta = 3600.0,
        poll_interval: float | timedelta = 5.0,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"outlets": [REPLICATED], **kwargs})
        self.policy = policy
        self.bootstrap = bootstrap
        self.only_first = only_first
        self.wait_seconds = seconds_of(wait_seconds)
        self.busy_timeout = seconds_of(busy_timeout)
        self.poll_interval = seconds_of(poll_interval)
        self.deferrable = deferrable
        self._hooks: tuple[HiveAcidHook, ...] = ()
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> dict[str, Any]:
        """Look for news, wait if there is none and it is wanted, and run a cycle.

        :return: what the cycle has done, see :class:`~airflow_hive_acid.replication.cycles.runner.CycleReport`.
        """
        try:
            check_rendered(self, self.takes)
            one = policy_of(self.policy)
            self._wait_for_news(one)
        except HiveAcidError as error:
            fail_task(error)
        return self._cycle(context, one, may_wait=True)

    def execute_complete(self, context: Context, event: dict[str, Any], may_wait: bool = True) -> dict[str, Any]:
        """Go on after a wait, also after one in vain: a cycle that finds nothing says that nothing is missing."""
        if event["status"] != "success":
            fail_task(error_of_event(event))
        try:
            one = policy_of(self.policy)
        except HiveAcidError as error:
            fail_task(error)
        # dag.test() passes the event alone.
        return self._cycle(context, one, may_wait=may_wait and "free" not in event)

    def on_kill(self) -> None:
        """Stop what runs in Spark. The next cycle goes on from the position, with what was copied."""
        hooks = self._hooks
        if hooks:
            stop_on_kill(lambda: _stop(hooks))

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _wait_for_news(self, one: Policy) -> None:
        """Defer while there is nothing to do."""
        wait = float(seconds_of(self.wait_seconds))
        if wait <= 0 or self.only_first or self._wants_bootstrap(one):
            return
        from airflow_hive_acid.replication.cycles.cycle import standing

        with open_sites(one) as (_, _, source, target):
            found = standing(one.name, source, target)
        if found.has_news or found.state is None or found.state.position is None:
            return
        until = time.time() + wait
        trigger = ReplicationNewsTrigger(found.state.position, until, one.source, self.poll_interval)
        if self.deferrable:
            self.defer(trigger=trigger, method_name="execute_complete")
        with open_sites(one) as (hook, _, _, _):
            while trigger.check(hook.get_conn()) is None:
                time.sleep(min(self.poll_interval, max(0.0, until - time.time())))

    def _wait_until_free(self, one: Policy, busy: ReplicationBusyError) -> None:
        deadline = time.time() + self.busy_timeout
        self.log.info("%s", busy)
        trigger = ReplicationFreeTrigger(one.name, deadline, one.destination, self.poll_interval)
        if self.deferrable:
            self.defer(trigger=trigger, method_name="execute_complete", kwargs={"may_wait": False})
        with open_sites(one) as (_, hook, _, _):
            while trigger.check(hook.get_conn()) is None:
                time.sleep(min(self.poll_interval, max(0.0, deadline - time.time())))

    def _wants_bootstrap(self, one: Policy) -> bool:
        wanted = self.bootstrap
        if isinstance(wanted, bool):
            return wanted
        names = [wanted] if isinstance(wanted, str) else [str(name) for name in wanted or ()]
        return one.name in names or any(name.strip().lower() == "true" for name in names)

    # --- the cycle ----------------------------------------------------------------------------------------------------

    def _cycle(self, context: Context, one: Policy, *, may_wait: bool) -> dict[str, Any]:
        from airflow_hive_acid.replication.cycles.cycle import ask_for_bootstrap, replicate
        from airflow_hive_acid.replication.cycles.runner import propose_bootstrap
        from airflow_hive_acid.replication.policies.state import PolicyRecord

        self.hive_acid_conn_id, self.linked = one.destination, {"view": "replication"}
        while True:
            try:
                with open_sites(one) as (source_hook, target_hook, source, target):
                    self._hooks = (source_hook, target_hook)
                    record = PolicyRecord(target.client.database, one.name)
                    again = self._wants_bootstrap(one)
                    before = record.read()
                    if self.only_first and not again and before is not None and before.position is not None:
                        self.log.info("policy %s has its first copy, up to event %d", one.name, before.position)
                        return {"policy": one.name, "position": before.position, "first": False}
                    if again:
                        ask_for_bootstrap(one, target)
                    told = self._told_before(context, before)
                    report = replicate(
                        one, source, target, holder=agent_info(context), again=again,
                        step=lambda step: self.log.debug("%s", step),
                    )  # fmt: skip
                    self.log.info("%s", report)
                    for note in (*report.kept, *report.notes):
                        self.log.warning("%s", note)
                    after = record.read()
                    self._tell(context, one, source, target, told, after)
                    stats.tell_replication(report, _lag(after, target), one.destination)
                    return report.to_document()
            except ReplicationBusyError as busy:
                if not may_wait:
                    fail_task(busy)
                may_wait = False
                self._wait_until_free(one, busy)
            except ReplicationGapError as error:
                fail_task(ReplicationGapError(propose_bootstrap(error, one)))
            except HiveAcidError as error:
                fail_task(error)
            finally:
                self._hooks = ()

    def _told_before(self, context: Context, state: PolicyState | None) -> int | None:
        """The event from which on this task tells of commits: where its first try began, or where the last task ended.

        So what a try has brought and could not tell of is told of by the next one.
        """
        store = context.get("task_state_store")
        # A task that is run anew on purpose is another life, which has told of nothing yet (decision 18).
        key = f"{_STORE_KEY}_{task_life(context)}"
        noted = None if store is None else store.get(key)
        if isinstance(noted, int):
            return noted
        told = None if state is None else state.told if state.told is not None else state.position
        if store is not None and told is not None:
            store.set(key, told)
        return told

    def _tell(
        self,
        context: Context,
        one: Policy,
        source: Site,
        target: Site,
        told: int | None,
        after: PolicyState | None,
    ) -> None:
        """Send an asset event for each commit that has arrived; a first copy is one event for all of them."""
        from airflow_hive_acid.replication.cycles.cycle import commits_between
        from airflow_hive_acid.replication.policies.state import PolicyRecord

        if after is None or after.position is None:
            return
        outlet = context["outlet_events"][REPLICATED]
        asset = policy_asset(one.name)
        if told is None or after.report.get("first"):
            outlet.add(asset, extra={"kind": "first_copy", "policy": one.name, "event_id": after.position})
        else:
            try:
                for commit in commits_between(one, source, target, told, after.position):
                    outlet.add(asset, extra=commit)
            except ReplicationGapError as gap:
                # They are purged by now; what they did is here all the same.
                lost: dict[str, JsonValue] = {
                    "kind": "gap",
                    "policy": one.name,
                    "event_id": after.position,
                    "why": str(gap),
                }
                outlet.add(asset, extra=lost)
        # Last: who is killed before tells of all of it again, from where it began.
        PolicyRecord(target.client.database, one.name).change(after.epoch, told=after.position)


def _stop(hooks: Sequence[HiveAcidHook]) -> None:
    for hook in hooks:
        hook.stop_replication()


def _lag(state: PolicyState | None, target: Site) -> float | None:
    from airflow_hive_acid.metastore.database import now_ms

    return None if state is None else state.lag_seconds(target.client.database.read(now_ms))
