"""Who intervenes in others' work: each as a function of the cell, with clients of its own where it has them."""

from __future__ import annotations

import contextlib
import types
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.statements import interventions
from airflow_hive_acid.engine.statements.interventions import Person
from airflow_hive_acid.errors import (
    ActionRefusedError,
    JobsAliveError,
    LockTimeoutError,
    NoSuchLockError,
    NoSuchTxnError,
)
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.maintenance.doctor.doctor import examine_metastore, examine_tables
from airflow_hive_acid.metastore.protocol.handover import withdraw

from .world import NEW, write_shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

    from .world import Victim, World

PERSON = Person("op", "it hangs")


def sql_abort(world: World, victim: Victim) -> None:
    world.other.run(f"ABORT TRANSACTIONS {victim.txn_id}")


def page_abort(world: World, victim: Victim) -> None:
    assert victim.txn_id is not None
    with contextlib.suppress(ActionRefusedError, NoSuchTxnError):
        interventions.abort_txn(world.helper, world.fs, victim.txn_id, PERSON)


def page_withdraw(world: World, victim: Victim) -> None:
    """The button at a lock that waits."""
    assert victim.document is not None
    with contextlib.suppress(NoSuchLockError):
        interventions.withdraw_lock(world.helper, int(victim.document["lock_id"]))


def reaper(world: World, _victim: Victim) -> None:
    run_reaper(world.helper, world.fs)


def hook_of(world: World) -> HiveAcidHook:
    """The hook of the task that is the victim."""
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # Airflow takes seconds to import

    hook = HiveAcidHook()
    hook.__dict__["connection"] = types.SimpleNamespace(metastore_url=world.url)
    hook.__dict__["settings"] = world.client.settings
    hook._client = world.client
    return hook


def hook_withdraw(world: World, victim: Victim) -> None:
    hook_of(world).withdraw("a task", "a test")


def on_kill(world: World, victim: Victim) -> None:
    if victim.document is not None:  # the triggerer waits on its behalf
        withdraw(world.helper, victim.document, "killed by Airflow while it waited")
        return
    from airflow_hive_acid.hooks.tasks import Running

    hook = hook_of(world)
    Running(victim.engine, "its txn", lambda: str(hook.withdraw("a task", "killed by Airflow"))).stop()


def retry(world: World, victim: Victim) -> None:
    """A later try of the same task."""
    world.other_spark.row = NEW
    if victim.table.kind == "shared":
        write_shared(world.other, victim.table, victim._operation())
    else:
        world.other.run(victim.table.insert(NEW), once=victim.table.once)


def clear(world: World, victim: Victim) -> None:
    """Somebody clears the running task: it is killed, and tried again."""
    on_kill(world, victim)
    retry(world, victim)


def doctor(world: World, victim: Victim) -> None:
    """What the doctor finds is repaired as it says: it names the reaper, or nothing."""
    found = [*examine_metastore(world.helper), *examine_tables(world.helper, world.fs, [victim.table.name])]
    if any("reaper" in finding.repair for finding in found):
        run_reaper(world.helper, world.fs)
        run_cleaner(world.helper, world.fs)


def cleaner(world: World, _victim: Victim) -> None:
    run_cleaner(world.helper, world.fs)


def drop(world: World, victim: Victim) -> None:
    """Somebody drops the table; he waits for its locks, and not for long."""
    with contextlib.suppress(LockTimeoutError, JobsAliveError):
        world.other.run(f"DROP TABLE {victim.table.name}")


INTERVENERS: dict[str, Callable[[World, Victim], None]] = {
    "SQL ABORT": sql_abort,
    "page abort": page_abort,
    "page withdraws": page_withdraw,
    "reaper": reaper,
    "withdraw": hook_withdraw,
    "on_kill": on_kill,
    "clear": clear,
    "retry": retry,
    "doctor": doctor,
    "DROP": drop,
    "Cleaner": cleaner,
}
ABORTERS = frozenset({"SQL ABORT", "page abort", "reaper", "withdraw", "on_kill", "clear", "retry", "doctor"})
"""Who ends a txn that has not committed; the others leave it alone, or wait for it."""
WRITERS = frozenset({"clear", "retry"})
"""Who writes the row instead."""
BY_SILENCE = frozenset({"reaper", "doctor"})
"""Who ends only what has sent no heartbeat for too long."""
