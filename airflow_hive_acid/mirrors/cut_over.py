"""A mirror becomes the primary: the table is read-only from then on, until it is taken back or dropped.

A lease keeps writers off while the last changes go over and both sides are compared. Then a lock of its own takes the
lease's place, EXCL_WRITE and without an end: a real Hive's writers wait for it and its readers pass. Ours are refused
at once, by the record. Lock and record change in one transaction of the metastore, so whatever dies leaves a table
that can be written as before, or one that is handed over.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import (
    HiveAcidError,
    MirrorDivergedError,
    MirrorRefusedError,
    NoSuchObjectError,
    TxnOpenError,
)
from airflow_hive_acid.format.changes import complete_up_to
from airflow_hive_acid.format.mirrors import MirrorTarget
from airflow_hive_acid.metastore.compaction import find_open_writers
from airflow_hive_acid.metastore.database import LockState, LockType, Operation
from airflow_hive_acid.metastore.leases import LeaseObject, kept
from airflow_hive_acid.metastore.locks import LockComponent
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.mirrors.runner import run_mirror, verify_mirror
from airflow_hive_acid.sql.parsing.builders import literal, quoted_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.leases import Lease
    from airflow_hive_acid.metastore.records import Mirror
    from airflow_hive_acid.mirrors.reports import Verification

    OpenEngine = Callable[[], contextlib.AbstractContextManager[Engine]]

CUT_OVER, TAKE_BACK, RETIRE = "cut-over", "take-back", "retire"
"""What can be done, in the words of the command line."""
PRIMARY = "hive.acid.primary"
"""Property of a table that was handed over: where it is written now, for people; the record counts."""
_UNSET = f"UNSET TBLPROPERTIES IF EXISTS ({literal(PRIMARY, 'property')})"
_LEASE_SECONDS = 120.0
_WAIT_SECONDS = 300.0


def cut_over(
    client: MetastoreClient, open_engine: OpenEngine, table: str, target: str, *, wait: float = _WAIT_SECONDS
) -> Verification:
    """Declare a mirror the primary of its table.

    :param open_engine: gives an engine, as a context manager.
    :param table: ``db.table``; ``target`` a mirror of it that has been run.
    :param wait: seconds to wait for those who write now.
    :return: the last comparison of both sides.
    :raises NoSuchObjectError: when there is no such mirror.
    :raises MirrorRefusedError: when the table is handed over already.
    :raises LeaseAlreadyExistsError: when writers did not end in time; nothing was changed.
    :raises TxnOpenError: when a write id is still open whose writer holds no lock, or somebody has written who waits
        for no lease; nothing was declared.
    :raises MirrorDivergedError: when both sides differ; nothing was declared.
    """
    name, place = str(table_name(table)), str(MirrorTarget.parse(target))
    _require_mirror(client, name, place)
    other = client.mirrors.primaries([name]).get(name)
    if other is not None:
        raise MirrorRefusedError(f"{name} is handed over to {other} already; 'hive-acid mirror take-back' undoes it")
    with _alone(client, name, wait) as lease, open_engine() as engine:
        _require_all_ended(client, name)
        # First, because it takes a write id of its own, up to which the mirror has to follow.
        _alter(engine, name, f"SET TBLPROPERTIES ({literal(PRIMARY, 'property')}={literal(place, 'target')})", lease)
        try:
            seen = _require_all_ended(client, name)  # up to here it will have everything
            run_mirror(client, lambda: contextlib.nullcontext(engine), name, place)
            found = verify_mirror(client, engine, name, place)
            if not found.is_equal:
                raise MirrorDivergedError(
                    f"{place} is not what {name} is: {found.shown_differences}. Nothing was declared; copy it again "
                    "(--bootstrap) once the cause is known"
                )
            _declare(client, name, place, lease, max(seen, found.write_id))
        except HiveAcidError:
            with contextlib.suppress(HiveAcidError):
                _alter(engine, name, _UNSET, lease)
            raise
    return found


def take_back(
    client: MetastoreClient, open_engine: OpenEngine, table: str, target: str, *, discard: bool = False
) -> None:
    """Let the table be written again; its mirror follows it as before.

    One that died behind the first half of it, or of a cut-over, is gone on with.

    :param discard: also when the target was written since: the next run of the mirror copies the table over it.
    :raises MirrorRefusedError: when it is not handed over to this target.
    :raises MirrorDivergedError: when the target was written since, and that is not to be discarded.
    """
    name, place = str(table_name(table)), str(MirrorTarget.parse(target))
    record = _require_mirror(client, name, place)
    if record.primary is None and not _is_named(client, name, place):
        raise _not_handed_over(name, place)
    with open_engine() as engine:
        if record.primary is not None:
            if not discard:
                _require_unwritten(client, engine, name, place)
            client.mirrors.end_primary(name, place)
        _alter(engine, name, _UNSET, None)


def retire(
    client: MetastoreClient, open_engine: OpenEngine, table: str, target: str, *, wait: float = _WAIT_SECONDS
) -> None:
    """Drop the table that was handed over, and forget its mirror; one that died on the way is gone on with.

    :param wait: seconds to wait for those who hold a lock on it.
    :raises MirrorRefusedError: when it is not handed over to this target.
    :raises MirrorDivergedError: when somebody has written to it since, or is writing; it is not dropped then.
    """
    name, place = str(table_name(table)), str(MirrorTarget.parse(target))
    record = _require_mirror(client, name, place)
    if record.primary is None and not _is_retiring(client, record):
        raise _not_handed_over(name, place)
    client.mirrors.end_primary(name, place, (RETIRE, "the table is dropped"))
    if not client.catalog.find_tables([name]):
        client.mirrors.forget(name, place)
        return
    with _alone(client, name, wait) as lease, open_engine() as engine:
        if client.mirrors.is_written_behind(name, record.write_id or 0):
            raise MirrorDivergedError(
                f"{name} was not dropped: somebody has written to it since it was handed over, as one who had waited "
                "for the lock, or is writing now. Cut over again"
            )
        _drop(engine, name, lease)
        client.mirrors.forget(name, place)


def is_left(client: MetastoreClient, action: str, table: str, target: str) -> bool:
    """Whether an action still has something to do: of a task that is tried again, it may be done already.

    :param action: :data:`CUT_OVER`, :data:`TAKE_BACK` or :data:`RETIRE`.
    :raises NoSuchObjectError: when there is no such mirror, and no sign that there was one.
    """
    name, place = str(table_name(table)), str(MirrorTarget.parse(target))
    if action == CUT_OVER:
        return client.mirrors.primaries([name]).get(name) != place
    if action == RETIRE and not client.catalog.find_tables([name]):
        return client.mirrors.find(name, place) is not None
    record = _require_mirror(client, name, place)
    return action == RETIRE or record.primary is not None or _is_named(client, name, place)


@contextlib.contextmanager
def _alone(client: MetastoreClient, table: str, wait: float) -> Iterator[Lease]:
    """While nobody else writes the table, of a real Hive either."""
    lease = client.leases.grab_lease(LeaseObject.parse(table), _LEASE_SECONDS, wait, mirror=True)
    with kept(client.leases, lease, drop=True) as keeper, client.leases.under(keeper.lease):
        yield keeper.lease


def _declare(client: MetastoreClient, table: str, target: str, lease: Lease, seen: int) -> None:
    lock_id = _lock(client, table, target)
    try:
        client.leases.require_lease(lease)
        client.mirrors.declare_primary(table, target, lock_id, seen=seen)
    except HiveAcidError:
        with contextlib.suppress(HiveAcidError):
            client.unlock(lock_id)
        raise


def _lock(client: MetastoreClient, table: str, target: str) -> int:
    """The lock that takes the lease's place, with a heartbeat's time to live until it is declared."""
    name = table_name(table)
    component = LockComponent(name.database, name.name, None, LockType.EXCL_WRITE, Operation.NO_TXN)
    response = client.lock(component, agent_info=f"handed over to {target}"[:128])
    if response.state is not LockState.ACQUIRED:
        client.unlock(response.lock_id)
        raise MirrorRefusedError(
            f"{table} is locked by {response.blocked_by or 'somebody'} in spite of the lease; nothing was declared: "
            "try again"
        )
    return response.lock_id


def _require_all_ended(client: MetastoreClient, table: str) -> int:
    """Whatever was written to it must have ended: nothing may appear in it later.

    :return: the newest write id.
    """
    seen = client.get_valid_write_ids([table])[table]
    if complete_up_to(seen) >= seen.high_watermark:
        return seen.high_watermark
    key = table_name(table)
    writers = client.database.read(lambda connection: find_open_writers(connection, [key])).get(key, ())
    shown = "; ".join(map(str, writers)) or "a write id is open"
    raise TxnOpenError(f"{table} is still written: {shown}. Wait until it ends, or abort it; nothing was changed")


def _require_unwritten(client: MetastoreClient, engine: Engine, table: str, target: str) -> None:
    found = verify_mirror(client, engine, table, target)
    if not found.is_equal:
        raise MirrorDivergedError(
            f"{target} was written since {table} was handed over to it: {found.shown_differences}. Import it "
            "(hive-acid import) to keep that, or take the table back with --discard"
        )


def _require_mirror(client: MetastoreClient, table: str, target: str) -> Mirror:
    record = client.mirrors.find(table, target)
    if record is None:
        raise NoSuchObjectError(f"no mirror of {table} in {target} is known; run it first: hive-acid mirror run")
    return record


def _not_handed_over(table: str, target: str) -> MirrorRefusedError:
    return MirrorRefusedError(f"{table} is not handed over to {target}; hive-acid mirror list shows what is")


def _is_named(client: MetastoreClient, table: str, target: str) -> bool:
    """Whether the table's property names this target as the primary, which it is not, or not any more."""
    found = client.catalog.find_tables([table]).get(table)
    return found is not None and found.properties.get(PRIMARY) == target


def _is_retiring(client: MetastoreClient, record: Mirror) -> bool:
    """Whether the table was handed over until its dropping began, which somebody did not end.

    The property alone does not say so: one that died in a cut-over has left it, too.
    """
    if record.todo != RETIRE:
        return False
    return not client.catalog.find_tables([record.table]) or _is_named(client, record.table, record.target)


def _drop(engine: Engine, table: str, lease: Lease) -> None:
    engine.run(f"DROP TABLE {quoted_table(table)}", lease=lease)


def _alter(engine: Engine, table: str, change: str, lease: Lease | None) -> None:
    engine.run(f"ALTER TABLE {quoted_table(table)} {change}", lease=lease)
