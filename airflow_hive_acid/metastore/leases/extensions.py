"""Extending a whole lease in one round trip, where it can be: locks, checks, changes and COMMIT travel together.

The update changes all rows of the lease or none: it counts first how many of them are live and may last that long, in a
statement of its own behind the locks on the tables (R3, R8). When it has changed none, the long way finds out why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, exists, func, or_, select, update

from airflow_hive_acid.metastore.database.backend import Step, at_once
from airflow_hive_acid.metastore.database.clock import statement_ms
from airflow_hive_acid.metastore.leases import rows
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS
from airflow_hive_acid.metastore.schema.leases import HIVE_LEASE

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.leases.model import Lease

_L, _H = HIVE_LEASE.c, HIVE_LOCKS.c
_HELD = HIVE_LEASE.alias("held")
_MINE = and_(
    _L.LEASE_ID == bindparam("lease_id", type_=sa.BigInteger), _L.SECRET_HASH == bindparam("hash", type_=sa.String)
)
_END = statement_ms() + bindparam("lasts", type_=sa.BigInteger)
_HOW_MANY = (
    select(func.count())
    .select_from(_HELD)
    .where(
        _HELD.c.LEASE_ID == bindparam("lease_id", type_=sa.BigInteger),
        _HELD.c.SECRET_HASH == bindparam("hash", type_=sa.String),
        _HELD.c.END_UTC > statement_ms(),
        _END - _HELD.c.START_UTC <= bindparam("longest", type_=sa.BigInteger),
        or_(
            _HELD.c.MIRROR_EXT_ID.is_(None),
            exists().where(_H.HL_LOCK_EXT_ID == _HELD.c.MIRROR_EXT_ID, _H.HL_LOCK_INT_ID == _HELD.c.MIRROR_INT_ID),
        ),
    )
    .scalar_subquery()
)
_EXTEND = (
    update(HIVE_LEASE)
    .where(_MINE, bindparam("objects", type_=sa.BigInteger) == _HOW_MANY)
    .values(END_UTC=func.greatest(_L.END_UTC, _END))
    .returning(_L.END_UTC)
)
_EXTEND_MIRROR = (
    update(HIVE_LOCKS)
    .where(
        _MINE,
        _H.HL_LOCK_EXT_ID == _L.MIRROR_EXT_ID,
        _H.HL_LOCK_INT_ID == _L.MIRROR_INT_ID,
        _H.HL_LAST_HEARTBEAT < _L.END_UTC,
    )
    .values(HL_LAST_HEARTBEAT=_L.END_UTC)
)


def extend_at_once(connection: Connection, lease: Lease, lasts: int, longest: int) -> int | None:
    """Let all objects of a lease last for so many milliseconds from now, and commit.

    :param longest: milliseconds that a lease may last from its start.
    :return: the earliest of their ends now; None when nothing was changed, because it may not be.
    """
    mine = {"lease_id": lease.lease_id, "hash": lease.secret_hash}

    def steps() -> list[Step]:
        extend = Step(_EXTEND, {**mine, "lasts": lasts, "longest": longest, "objects": len(lease.objects)})
        return [*rows.guard_steps(lease.objects), extend, Step(_EXTEND_MIRROR, mine)]

    ends = at_once(connection, steps, decides=-2, number=len(lease.objects))
    return None if ends is None else min(int(end) for (end,) in ends)
