"""The routes that change something: each takes the right to act, a header that no other site can send, and leaves a row
in Airflow's audit log. Doing one twice does no harm.
"""

from __future__ import annotations

from fastapi import APIRouter

from airflow_hive_acid.engine.statements import interventions
from airflow_hive_acid.engine.statements.interventions import Person
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.initiator.by_hand import Wanted
from airflow_hive_acid.plugins import models, shaping
from airflow_hive_acid.plugins.access import Actor, AuditedRoute
from airflow_hive_acid.plugins.routes.parameters import Client, RowId

router = APIRouter(
    prefix="/connections/{conn_id}", tags=["actions"], route_class=AuditedRoute, responses=models.RESPONSES
)
_WHERE = "Airflow's page"


@router.post("/transactions/{txn_id}/abort", name="abort_txn")
def abort_txn(person: Actor, client: Client, txn_id: RowId, because: models.Because) -> models.ActionAnswer:
    """Fence a txn's jobs and abort it."""
    return shaping.answer(
        interventions.abort_txn(client, AnyFilesystem(), txn_id, Person(f"{person} on {_WHERE}", because.reason))
    )


@router.post("/compactions", name="request_compaction")
def request_compaction(person: Actor, client: Client, wish: models.CompactionWish) -> models.ActionAnswer:
    """Put a compaction into the queue; one that is there already is as good."""
    wanted = Wanted(f"{wish.database}.{wish.table}", wish.partition, wish.type, pool=wish.pool)
    return shaping.answer(interventions.request_compaction(client, AnyFilesystem(), wanted))


@router.post("/compactions/{compaction_id}/cancel", name="cancel_compaction")
def cancel_compaction(
    person: Actor, client: Client, compaction_id: RowId, because: models.Because
) -> models.ActionAnswer:
    """End a request that waits at once, one that runs by its Worker."""
    return shaping.answer(interventions.cancel_compaction(client, compaction_id, Person(person, because.reason)))


@router.post("/leases/{lease_id}/force-drop", name="force_drop_lease")
def force_drop_lease(person: Actor, client: Client, lease_id: RowId, because: models.Because) -> models.ActionAnswer:
    """Drop a lease, whoever holds it; a reason must be given."""
    if not because.reason:
        raise InvalidArgumentsError("reason is empty; say why, its holder will ask")
    return shaping.answer(interventions.force_drop_lease(client, lease_id, Person(person, because.reason)))


@router.post("/pins/{pin_id}/drop", name="drop_pin")
def drop_pin(person: Actor, client: Client, pin_id: RowId, because: models.Because) -> models.ActionAnswer:
    """Drop a pin; who reads by it now reads to the end."""
    return shaping.answer(interventions.drop_pin(client, pin_id, Person(f"{person} on {_WHERE}", because.reason)))


@router.post("/locks/{lock_id}/withdraw", name="withdraw_lock")
def withdraw_lock(person: Actor, client: Client, lock_id: RowId, because: models.Because) -> models.ActionAnswer:
    """Withdraw a request for locks, or take away locks that belong to no txn."""
    return shaping.answer(interventions.withdraw_lock(client, lock_id))
