"""State ids: which import and which drop an object of the destination accepts.

An export carries the state id of the source at the moment when it is made, which may be long after the event that
asked for it. An import is accepted when that id is newer than the object's, a drop when its event is (Event IDs, State
IDs, and Sequencing in HiveReplicationDevelopment).

An export of metadata says nothing of the data, so it does not raise the object's state id: it has one of its own.
Otherwise an ALTER (event 5), exported after an INSERT (event 6), would give the object the state 6, and the import that
brings the rows of event 6 would be refused as not newer; and a table that was altered, dropped and created anew would
keep the old rows, because its drop would be refused. An import with data brings the metadata with it, and raises both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_ID = "repl.last.id"
"""Hive's parameter of databases, tables and partitions: data and metadata are at least that new."""
METADATA_STATE_ID = "hive.acid.repl.last.metadata.id"
"""Ours: the metadata is that new, the data may not be. Hive has no use for it and keeps it."""


@dataclass(frozen=True, slots=True)
class ObjectState:
    """What is known of an object at the destination.

    :param exists: whether there is one.
    :param state_id: its ``repl.last.id``; None when it was not made by replication.
    :param metadata_id: of the last import of metadata alone.
    """

    exists: bool
    state_id: int | None = None
    metadata_id: int | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, str] | None, name: str = "the object") -> ObjectState:
        """From the object's parameters; None when there is no object.

        :raises InvalidArgumentsError: when a state id is no number.
        """
        if parameters is None:
            return cls(exists=False)
        return cls(True, _number(parameters, STATE_ID, name), _number(parameters, METADATA_STATE_ID, name))

    def after_import(self, state_id: int, *, metadata_only: bool) -> dict[str, str]:
        """The parameters that an accepted import sets."""
        key = METADATA_STATE_ID if metadata_only else STATE_ID
        return {key: str(state_id)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something is done at the destination, and why (not)."""

    accepted: bool
    reason: str


def may_import(held: ObjectState, state_id: int, *, metadata_only: bool = False) -> Verdict:
    """Whether an import is accepted.

    :param state_id: of the dump.
    """
    if not held.exists:
        if metadata_only:
            return Verdict(False, "there is no such object; one that exists at the source comes with a later event")
        return Verdict(True, "there is no such object yet")
    known = [i for i in (held.state_id, held.metadata_id if metadata_only else None) if i is not None]
    if not known:
        return Verdict(True, "the object has no state id")
    newest = max(known)
    if state_id > newest:
        return Verdict(True, f"state {state_id} is newer than {newest}")
    return Verdict(False, f"the object has state {newest}, which is not older than {state_id}")


def may_drop(held: ObjectState, event_id: int) -> Verdict:
    """Whether a drop of an event is accepted.

    The state of the metadata does not count: it may be that of a later object of the same name.
    """
    if not held.exists:
        return Verdict(False, "there is no such object")
    if held.state_id is None:
        return Verdict(False, f"the object has no {STATE_ID}: it did not come by replication, so it stays")
    if event_id > held.state_id:
        return Verdict(True, f"event {event_id} is newer than state {held.state_id}")
    return Verdict(False, f"the object has state {held.state_id}, which is not older than event {event_id}")


def _number(parameters: Mapping[str, str], key: str, name: str) -> int | None:
    text = parameters.get(key)
    if text is None or not text.strip():
        return None
    if not (text.isascii() and text.isdecimal()):
        raise InvalidArgumentsError(
            f"{key} of {name} is {text!r}, no event id; set it right, or bootstrap {name} again"
        )
    return int(text)
