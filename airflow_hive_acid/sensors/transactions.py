"""Waits until txns have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.faces import renamed
from airflow_hive_acid.sensors.base import MetastoreSensor, listed, number
from airflow_hive_acid.triggers.ended import TxnsEndedTrigger, TxnsQuestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.triggers.base import QuestionTrigger
    from airflow_hive_acid.triggers.questions import Question


class HiveAcidTransactionSensor(MetastoreSensor):
    """Waits until one or several txns are committed or aborted, whoever opened them; returns their ``states``.

    A state is ``committed`` or ``aborted``, or ``forgotten`` for a txn that ended so long ago that the metastore does
    not know how. A txn that was never opened fails the sensor. When it gives up it says who is still at work since
    when.

    :param txn_id: the txn, or a list of them. (templated)
    :param expect: ``committed`` or ``aborted``: a txn that ends otherwise fails the sensor; None: either will do.
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("txn_id", "hive_acid_conn_id")
    ui_color = "#dae8fc"

    def __init__(self, *, txn_id: int | str | Sequence[int | str], expect: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.txn_id = txn_id
        self.expect = expect

    def question(self, client: MetastoreClient) -> Question:
        """Have they ended?"""
        return TxnsQuestion(self._txn_ids(), self.expect)

    def page(self) -> dict[str, Any]:
        """The first of them."""
        return {"view": "transactions", "txn_id": next(iter(self._given()), None)}

    def trigger(self, question: Question, until: float) -> QuestionTrigger:
        """What waits for it."""
        return TxnsEndedTrigger(
            list(self._txn_ids()), self.expect, until, self.hive_acid_conn_id, float(self.poke_interval)
        )

    def _txn_ids(self) -> tuple[int, ...]:
        found = [number("txn_id", one) for one in self._given()]
        if None in found:
            raise InvalidArgumentsError(f"txn_id is {self.txn_id!r}; give the number of a txn, or a list of numbers")
        return tuple(dict.fromkeys(one for one in found if one is not None))

    def _given(self) -> list[Any]:
        return listed(self.txn_id)


__getattr__ = renamed(__name__, {"HiveTransactionSensor": "HiveAcidTransactionSensor"})
