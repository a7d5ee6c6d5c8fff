"""Who is told how far a transaction has come, and has a word in its commit.

A claim on what a statement does (:mod:`.claims`), a member of a transaction across tasks, a micro-batch of a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.engine.outcomes.results import StatementResult
    from airflow_hive_acid.metastore import Transaction


class Progress(Protocol):
    """Is told in this order; an error ends the transaction."""

    def begun(self, txn_id: int) -> None:
        """Its txn is open, and asks for its locks next."""

    def starting(self, txn: Transaction, job_id: str) -> None:
        """A job is about to be recorded and started, and its statement ids are given out."""

    def at_commit(self, txn_id: int, results: Sequence[StatementResult]) -> Callable[[Connection], None] | None:
        """What the commit has to do besides; raises to refuse it."""
