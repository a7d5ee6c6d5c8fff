"""Events of a known type whose message cannot be read: what must be read anew, so that the replica does not differ.

What such an event changed is not known, but the source is there to be asked: the table that the row names is brought
to the source's state, whatever was done to it. A rename has a second name, so the tables that there are, are compared
too. Txns change ACID tables alone, whose write ids of both sides say what differs. Where nothing says what was changed
the policy stops: to pass over it would leave a difference that nobody ever finds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ReplicationGapError
from airflow_hive_acid.replication.events.decoder import promised_kind
from airflow_hive_acid.replication.events.event import TXN_KINDS, EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.replication.events.event import ReplicationEvent

_CHANGES_NOTHING = frozenset({EventKind.CREATE_DATABASE, EventKind.ALTER_DATABASE, EventKind.OPEN_TXN})
"""Kinds that ask for nothing when they can be read, either."""


@dataclass(frozen=True, slots=True)
class Reread:
    """What is to be read anew.

    :param event_id: of the newest event that asks for it, 0 when none does.
    :param tables: that are brought to the source's state, or dropped when they are not there.
    :param names: compare which tables there are on both sides.
    :param write_ids: compare the write ids of all ACID tables.
    """

    event_id: int = 0
    tables: frozenset[TableName] = frozenset()
    names: bool = False
    write_ids: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.tables or self.names or self.write_ids)

    def __str__(self) -> str:
        said = sorted(map(str, self.tables))
        said += ["which tables there are"] if self.names else []
        said += ["all ACID tables whose write ids differ"] if self.write_ids else []
        return " and ".join(said)


def reread_of(event: ReplicationEvent) -> Reread:
    """What an event asks to read anew.

    :raises ReplicationGapError: when nothing says what it was about.
    """
    kind = promised_kind(event.type)
    if event.kind is not EventKind.UNREADABLE or kind in _CHANGES_NOTHING:
        return Reread()
    if event.table is not None:
        return Reread(event.event_id, frozenset({event.table}), names=kind is EventKind.ALTER_TABLE)
    if kind in TXN_KINDS:
        return Reread(event.event_id, write_ids=True)
    if kind is EventKind.DROP_DATABASE and event.database is not None:
        return Reread(event.event_id, names=True)
    raise ReplicationGapError(
        f"event {event.event_id} {event.type} cannot be read, and its row in NOTIFICATION_LOG does not name its table: "
        f"{event.problem}. What it changed is not known, and without it the replica would differ from then on; nothing "
        "of it was passed over. Bootstrap the policy again."
    )


def both(items: Iterable[Reread]) -> Reread:
    """All of them as one."""
    found = Reread()
    for item in items:
        found = Reread(
            max(found.event_id, item.event_id), found.tables | item.tables, found.names or item.names,
            found.write_ids or item.write_ids,
        )  # fmt: skip
    return found


def told(event: ReplicationEvent, wanted: Reread) -> ReplicationEvent:
    """The event with what is done about it, for the record."""
    return event if wanted.is_empty else replace(event, problem=f"{event.problem}; read anew: {wanted}")
