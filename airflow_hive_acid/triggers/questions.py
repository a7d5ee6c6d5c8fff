"""What a sensor waits for, as a question with an answer: is it over, and if not, who is in the way since when.

A question is a value; what it needs to know it reads in one short look at the metastore. Questions that many tasks ask
at the same time are asked together (:class:`~airflow_hive_acid.triggers.shared.QuestionRoom`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from airflow_hive_acid.metastore import MetastoreClient

SHOWN = 3
"""So many of those in the way are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look has found.

    :param over: there is nothing to wait for any more.
    :param said: one sentence for a person while it is not over.
    :param answer: plain values for whoever waited, once it is over.
    :param failed: why it has ended otherwise than was waited for; asking again would not help.
    """

    over: bool
    said: str = ""
    answer: dict[str, Any] = field(default_factory=dict)
    failed: str = ""


class Question:
    """Something that will be over some time. Questions that are equal are asked once."""

    __slots__ = ()

    def ask(self, client: MetastoreClient) -> Looked:
        """Look once.

        :raises HiveAcidError: when it will never be over, or the metastore cannot be asked.
        """
        raise NotImplementedError

    @classmethod
    def ask_all(cls, client: MetastoreClient, questions: Sequence[Self]) -> dict[Self, Looked | HiveAcidError]:
        """Look for many; a class that can ask for all of them at once does so.

        :return: a look for each, or the error that is this question's alone.
        :raises HiveAcidError: when the metastore cannot be asked.
        """
        found: dict[Self, Looked | HiveAcidError] = {}
        for question in questions:
            try:
                found[question] = question.ask(client)
            except HiveAcidError as error:
                if error.retryable:
                    raise
                found[question] = error
        return found


def some(described: Sequence[str]) -> str:
    """The first few of a list, and how many more there are."""
    more = f" and {len(described) - SHOWN} more" if len(described) > SHOWN else ""
    return f"{', '.join(described[:SHOWN])}{more}"


def since(then_ms: int | None, now_ms: int) -> str:
    """A moment by the database's clock for messages, and how long ago that is."""
    from airflow_hive_acid.metastore.leases import utc  # not needed to defer

    return "" if not then_ms else f" since {utc(then_ms)} ({max(0, now_ms - then_ms) // 1000} s)"
