"""What a test of a DAG wants to know; each says what it found instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.metastore.database import TxnState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.testing.testbed import HiveAcidTestbed


def assert_committed(testbed: HiveAcidTestbed, result: Mapping[str, Any]) -> None:
    """Every statement of a task's result that ran in a txn is committed.

    :param result: the XCom of a ``HiveAcidOperator``.
    """
    _assert_states(testbed, result, TxnState.COMMITTED)


def assert_aborted(testbed: HiveAcidTestbed, txn_id: int) -> None:
    """A txn was given up."""
    _assert_states(testbed, {"statements": [{"txn_id": txn_id}]}, TxnState.ABORTED)


def assert_rows(testbed: HiveAcidTestbed, query: str, expected: Sequence[Sequence[Any] | Mapping[str, Any]]) -> None:
    """A query gives exactly these rows; their order counts only if the query has an ORDER BY.

    :param expected: rows as lists in the order of the columns, or as dictionaries.
    """
    found = testbed.rows(query)
    wanted = [dict(row) if hasattr(row, "keys") else row for row in expected]
    shown: list[Any] = [row if wanted and isinstance(wanted[0], dict) else list(row.values()) for row in found]
    listed = [row if isinstance(row, dict) else list(row) for row in wanted]
    if "order by" not in query.lower():
        shown, listed = sorted(shown, key=repr), sorted(listed, key=repr)
    if shown != listed:
        raise AssertionError(f"{query}\n  gives    {shown}\n  expected {listed}")


def assert_at_rest(testbed: HiveAcidTestbed) -> None:
    """No txn is open and nobody holds or waits for a lock: nothing was left behind."""
    open_txns = [txn for txn in testbed.client.show_transactions() if txn.state is TxnState.OPEN]
    if open_txns:
        raise AssertionError(f"open txns: {', '.join(f'{txn.txn_id} ({txn.agent_info})' for txn in open_txns)}")
    locks = testbed.client.show_locks()
    if locks:
        raise AssertionError(f"locks: {', '.join(f'{lock.describe()} by {lock.agent_info}' for lock in locks)}")


def _assert_states(testbed: HiveAcidTestbed, result: Mapping[str, Any], expected: TxnState) -> None:
    wanted = {statement["txn_id"] for statement in result["statements"] if statement.get("txn_id") is not None}
    if not wanted:
        raise AssertionError("the result names no txn: none of its statements ran in one")
    states = {txn.txn_id: txn.state for txn in testbed.client.show_transactions(include_committed=True)}
    # What is committed or aborted is forgotten some day; then nobody can say any more, and the test ran far too late.
    wrong = {txn_id: states.get(txn_id) for txn_id in sorted(wanted) if states.get(txn_id) is not expected}
    if wrong:
        found = ", ".join(
            f"txn {txn_id} is {'unknown' if s is None else s.name.lower()}" for txn_id, s in wrong.items()
        )
        raise AssertionError(f"{found}; expected {expected.name.lower()}")
