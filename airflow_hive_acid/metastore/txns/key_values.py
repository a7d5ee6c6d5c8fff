"""Table parameters that change with a commit: where a stream stands (Hive's CommitTxnKeyValue).

A writer that reads from a stream stores its position with the rows it commits, so that both are there or neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.names.objects import free_text
from airflow_hive_acid.metastore.schema.hive_catalog import TABLE_PARAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.engine import Connection

PREFIX = "_meta"

_P = TABLE_PARAMS.c
_ONE = (_P.TBL_ID == bindparam("id"), _P.PARAM_KEY == bindparam("name"))
_SET = update(TABLE_PARAMS).where(*_ONE).values(PARAM_VALUE=bindparam("new_value"))
_REMOVE = delete(TABLE_PARAMS).where(*_ONE)
_ADD = insert(TABLE_PARAMS).values(
    TBL_ID=bindparam("id"), PARAM_KEY=bindparam("name"), PARAM_VALUE=bindparam("new_value")
)
_PARAMETERS = select(_P.PARAM_KEY, _P.PARAM_VALUE).where(_P.TBL_ID == bindparam("id"))


def moves_with_commits(key: str) -> bool:
    """Whether a table parameter may change with a commit, and so belongs to the rows that are there."""
    return key.startswith(PREFIX)


def take_over(connection: Connection, table_id: int, wanted: Mapping[str, str]) -> None:
    """Make what moves with commits in a table what it is in another one, whose rows it gets in this transaction.

    :param wanted: the other one's parameters of that kind, all of them.
    """
    rows = connection.execute(_PARAMETERS, {"id": table_id})
    found = {key: value for key, value in rows if moves_with_commits(key)}
    for key in sorted(found.keys() | wanted.keys()):
        place = {"id": table_id, "name": key}
        if key not in wanted:
            connection.execute(_REMOVE, place)
        elif key not in found:
            connection.execute(_ADD, {**place, "new_value": wanted[key]})
        elif found[key] != wanted[key]:
            connection.execute(_SET, {**place, "new_value": wanted[key]})


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A table parameter to change with a commit.

    :param table_id: TBL_ID; ``key`` begins with ``_meta`` and exists already.
    """

    table_id: int
    key: str
    value: str

    def __post_init__(self) -> None:
        free_text(self.key, "key of the table parameter", 256)
        if not moves_with_commits(self.key):
            raise InvalidArgumentsError(f"only keys that begin with {PREFIX} change with a commit, not {self.key!r}")

    def set(self, connection: Connection) -> None:
        """Change it, inside the commit; an error refuses the commit."""
        changed = connection.execute(_SET, {"id": self.table_id, "name": self.key, "new_value": self.value}).rowcount
        if changed != 1:
            raise InvalidArgumentsError(
                f"table {self.table_id} has no parameter {self.key!r}, so it cannot change with the commit; create the "
                "parameter first"
            )
