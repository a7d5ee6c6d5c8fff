"""How a query looks at a table: what the option behind the table's name asks for, and why it may be refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_hive_acid.format import changes
from airflow_hive_acid.format.jobs import FETCH_DELETED_ROWS
from airflow_hive_acid.sql.planning.columns import column_names, no_such_column
from airflow_hive_acid.sql.text.table_options import AsOfOption, ChangesOption, PinOption, PropertyOption

if TYPE_CHECKING:
    from airflow_hive_acid.sql.model.plans import TableFacts
    from airflow_hive_acid.sql.text.table_options import Option


class Look(NamedTuple):
    """How a table is looked at: what its option says; its fields are those of a :class:`TableRead`."""

    deleted_rows: bool | None = None
    pin: str | None = None
    changes: changes.Changes | None = None
    as_of: int | str | None = None

    def __hash__(self) -> int:
        wanted = self.changes
        return hash(
            (self.deleted_rows, self.pin, self.as_of, wanted and (wanted.first, wanted.last, wanted.net, wanted.key))
        )


USUAL = Look()
"""What there is now, without an option."""


def refuse_look(option: Option, facts: TableFacts) -> str | None:
    """Why a table cannot be looked at in this way; None when it can."""
    name, transactional = facts.qualified_name, facts.is_transactional
    match option:
        case PropertyOption():
            return _wrong_property(option, facts)
        case PinOption():
            return None if transactional else f"{name} is no ACID table, and in no pin"
        case AsOfOption():
            return None if transactional else f"{name} is no ACID table: what it was is not kept"
        case ChangesOption():
            return _wrong_changes(option, facts)


def look_by(option: Option) -> Look:
    """What an option asks for that was not refused."""
    match option:
        case PropertyOption(value=value):
            return Look(value.lower() == "true")
        case PinOption(name):
            return Look(pin=name)
        case AsOfOption(moment):
            return Look(as_of=moment)
        case ChangesOption(first, last, net, key):
            return Look(changes=changes.Changes(first, last, net, key))


def _wrong_property(option: PropertyOption, facts: TableFacts) -> str | None:
    """Why ``t('acid.fetch.deleted.rows'='true')`` cannot be."""
    if option.key != FETCH_DELETED_ROWS or option.value.lower() not in ("true", "false"):
        return f"of a table's properties a query can set '{FETCH_DELETED_ROWS}', to 'true' or 'false'"
    if option.value.lower() == "true" and (not facts.is_transactional or facts.is_insert_only):
        return f"{facts.qualified_name} has no deleted rows to show: it is not a full ACID table"
    return None


def _wrong_changes(option: ChangesOption, facts: TableFacts) -> str | None:
    """Why a query cannot ask for these changes of a table."""
    if not facts.is_transactional:
        return f"{facts.qualified_name} has no changes to tell: it is no ACID table"
    if not 1 <= option.first <= option.last:
        return "write ids begin at 1, and a range goes upwards: CHANGES BETWEEN 5 AND 9"
    unknown = next((name for name in option.key if name not in column_names(facts)), None)
    return None if unknown is None else no_such_column(facts, unknown)
