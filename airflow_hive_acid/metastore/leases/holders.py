"""Whether a lease is held: what every verb of a holder, every lock under a lease and every commit under one asks.

R8: a commit locks the rows of the lease's tables first, as every grab does, and the locks that stand for the lease, so
that neither a thief nor Hive can take what it covers before the commit is over; then it looks at the end, and once more
behind the global lock. R7: a lease whose lock in HIVE_LOCKS is gone has ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import LeaseAlreadyExistsError, LeaseEndedError
from airflow_hive_acid.metastore.database.backend import Step, execute_batch
from airflow_hive_acid.metastore.leases import rows
from airflow_hive_acid.metastore.leases.grants import utc
from airflow_hive_acid.metastore.leases.model import LeaseObject, LeaseType
from airflow_hive_acid.metastore.locks.lease_locks import Mirror

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.leases.model import Lease
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.txns.commits import CommitHooks


def held_step(lease: Lease) -> Step:
    """The rows of a lease, for who knows its secret."""
    return Step(rows.MINE, {"lease_id": lease.lease_id, "hash": lease.secret_hash})


def look(connection: Connection, lease: Lease) -> tuple[int, list[rows.LeaseRow]]:
    """The database's clock, and the rows of a lease, all of them live.

    :raises LeaseEndedError: when it is not held.
    """
    now, found = execute_batch(connection, [rows.NOW, held_step(lease)])
    moment = int(now.rows[0][0])
    return moment, check_held(lease, rows.lease_rows([found]), moment)


def lock_and_look(connection: Connection, lease: Lease) -> tuple[int, list[rows.LeaseRow]]:
    """The same behind the locks on the lease's tables: nobody can change it, or grab what it covers, until the end of
    the transaction (R8)."""
    *_, now, found = execute_batch(connection, [*rows.guard_steps(lease.objects), rows.NOW, held_step(lease)])
    moment = int(now.rows[0][0])
    return moment, check_held(lease, rows.lease_rows([found]), moment)


def commit_hooks(lease: Lease | None, hooks: CommitHooks) -> CommitHooks:
    """What a commit does, and that it does so only while a lease is held (R8); without one the same."""
    if lease is None:
        return hooks

    def locked(connection: Connection) -> None:
        fence(connection, lease)

    def looked(connection: Connection) -> None:
        look(connection, lease)

    return replace(hooks, leases=(*hooks.leases, locked), behind_lock=(*hooks.behind_lock, looked))


def require_no_other(connection: Connection, tables: Iterable[TableName], own: Lease | None) -> None:
    """Refuse to change tables of which somebody holds a lease, or one on their partitions, without a lock of Hive's.

    Behind the locks on the tables that were ever leased: no lease on these is granted until the end of the transaction
    (R8).

    :param own: the lease under which it is done; None: without one.
    :raises LeaseAlreadyExistsError: naming the table, the holder and the end.
    """
    wanted = [LeaseObject(table.database, table.name) for table in tables]
    *found, now = execute_batch(
        connection, [*rows.guard_steps(wanted), *(rows.conflict_step(each) for each in wanted), rows.NOW]
    )
    moment = int(now.rows[0][0])
    for row in rows.lease_rows(found[-len(wanted) :] if wanted else []):
        if row.is_live(moment) and (own is None or row.lease.lease_id != own.lease_id):
            raise LeaseAlreadyExistsError(
                f"{row.lease.describe()} is held by {row.lease.user} as lease {row.lease.lease_id} until "
                f"{utc(row.lease.end_utc)}, so nobody else may change it; wait for its end, or drop it "
                f"(hive-acid lease force-drop)"
            )


def fence(connection: Connection, lease: Lease) -> None:
    """Refuse a commit when its lease has ended, and keep it from ending by somebody else's hand meanwhile (R8).

    :raises LeaseEndedError: when it has.
    """
    _, found = lock_and_look(connection, lease)
    mirrors = sorted(row.mirror for row in found if row.mirror is not None)
    if mirrors:
        # Nor may the locks be removed by Hive; R3: whether they are there, and the time, is asked behind that wait.
        execute_batch(connection, [Step(rows.LOCK_MIRROR, {"ext": ext, "int": internal}) for ext, internal in mirrors])
        look(connection, lease)


def mirror_of(connection: Connection, lease: Lease) -> Mirror | None:
    """The locks that stand for a lease; None when none do.

    :raises LeaseEndedError: when it is not held.
    """
    now, found = look(connection, lease)
    own = {row.mirror for row in found if row.mirror is not None}
    if not own:
        return None
    shared = {row.mirror for row in found if row.mirror is not None and row.lease.lease_type is LeaseType.SHARED}
    others: set[tuple[int, int]] = set()
    for ext, internal in sorted(shared):
        sharers = rows.lease_rows(execute_batch(connection, [Step(rows.OF_MIRROR, {"ext": ext})]))
        if any(
            row.mirror == (ext, internal) and row.lease.lease_id != lease.lease_id and row.is_live(now)
            for row in sharers
        ):
            others.add((ext, internal))
    return Mirror(frozenset(own), frozenset(own - others))


def check_held(lease: Lease, held: list[rows.LeaseRow], now: int) -> list[rows.LeaseRow]:
    """The rows of a lease, all of which must be live.

    :param held: its rows; none when the secret is wrong.
    :param now: by the database's clock.
    :raises LeaseEndedError: otherwise; what was wrong is told to those who know the secret only.
    """
    by_place = {row.lease.place: row for row in held}
    wanted = [each.place for each in lease.objects] or list(by_place)
    for place in wanted:
        row = by_place.get(place)
        if row is None:
            continue
        if not row.there:
            raise LeaseEndedError(
                f"lease {lease.lease_id} on {row.lease.describe()} has ended: the lock that stood for it in Hive was "
                "removed (R7). Grab a new one; nothing done under this one can be committed"
            )
        if not row.is_live(now):
            raise LeaseEndedError(
                f"lease {lease.lease_id} on {row.lease.describe()} ended {(now - row.lease.end_utc) / 1000:.1f} s ago, "
                f"{utc(row.lease.end_utc)} by the database's clock. Grab a new one; nothing done under this one can be "
                "committed"
            )
    missing = [each.describe() for each in lease.objects if each.place not in by_place]
    if missing or not held:
        where = f" on {missing[0]}" if missing else ""
        raise LeaseEndedError(
            f"lease {lease.lease_id}{where} is not held with this secret: it was dropped, or ended and was taken by "
            "somebody else, or never granted. Grab a new one; nothing done under it can be committed"
        )
    return held
