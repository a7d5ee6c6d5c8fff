"""Attempts at a lease: it is granted, or there is a place in the queue, which can be kept and given up.

Each is one transaction of the database, and may be repeated after a lost answer: what was granted to the same secret is
found first. Keeps R3: what stands in the way is judged behind the row of the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.database.backend import execute_batch, finish_batch
from airflow_hive_acid.metastore.leases import rows
from airflow_hive_acid.metastore.leases.grants import (
    Blocked,
    Granted,
    GuardMissingError,
    give_back,
    grab,
    granted_before,
    judge,
    look_steps,
    wake_next,
    with_hive_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.leases.grants import Request


class Attempts:
    """How a request becomes a lease.

    :param end_dead: aborts a txn whose owner is gone, and says whether it did.
    :param longest_ms: how long a lease may last from its start, extensions included.
    """

    def __init__(self, database: Database, end_dead: Callable[[int], bool], longest_ms: int) -> None:
        self._database = database
        self._end_dead = end_dead
        self._longest_ms = longest_ms

    def attempt(self, request: Request, *, queue: bool = True, again: bool = False) -> Granted | Blocked:
        """Be granted a lease, or be told what is in the way; txns whose owners are gone are not.

        :param queue: take a place in the queue, or keep it.
        :param again: there may have been a try before, whose answer was lost.
        """
        answer = self._try_once(request, queue=queue, again=again)
        while isinstance(answer, Blocked) and answer.txn_id is not None and self._end_dead(answer.txn_id):
            answer = self._try_once(replace(request, ticket=answer.ticket), queue=queue)
        return answer

    def _try_once(self, request: Request, *, queue: bool, again: bool = False) -> Granted | Blocked:
        tried = again

        def operation(connection: Connection) -> Granted | Blocked:
            nonlocal tried
            again, tried = tried, True
            if again:
                # The answer to an earlier try may have been lost: nobody else has this secret.
                found = granted_before(connection, request)
                if found is not None:
                    return found
            return grab(connection, request, queue=queue)

        while True:
            try:
                return self._database.run(operation, hot=True)
            except GuardMissingError:
                tried = again
                self._make_guards(request)

    def _make_guards(self, request: Request) -> None:
        def operation(connection: Connection) -> None:
            for db, tbl in sorted({each.table for each in request.objects}):
                place = {"db": db, "tbl": tbl}
                if connection.execute(rows.FIND_GUARD, place).first() is None:
                    connection.execute(rows.INSERT_GUARD, place)

        # A racer may insert first; then there is a row, which is all that is wanted.
        self._database.run(operation, retry_duplicates=True)

    def peek(self, request: Request) -> Blocked | None:
        """Look without locking anything, so that those who wait do not disturb those who work; None: it may be free."""

        def operation(connection: Connection) -> Blocked | None:
            mine = with_hive_id(connection, request)
            now, *found = execute_batch(connection, [rows.NOW, *look_steps(mine)])
            answer = judge(mine, found, int(now.rows[0][0]))
            return answer if isinstance(answer, Blocked) else None

        return self._database.look(operation)

    def withdraw(self, request: Request) -> None:
        """Give a place in the queue up; whoever is next is called."""
        ticket = request.ticket
        if ticket is None:
            return

        def operation(connection: Connection) -> None:
            hive_id = with_hive_id(connection, request).hive_id
            execute_batch(connection, [*rows.guard_steps(request.objects), *rows.leave_steps(ticket, hive_id)])
            finish_batch(connection, wake_next(connection, request.objects))

        self._database.run(operation, hot=True)

    def give_back(self, request: Request, *, untouched: bool = False) -> None:
        """Drop what was granted to the secret of a request.

        :param untouched: only what nobody has gone on with.
        """
        longest = self._longest_ms if untouched else None
        self._database.run(lambda connection: give_back(connection, request, untouched=longest), hot=True)
