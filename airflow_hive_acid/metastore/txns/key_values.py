"""Table parameters that change with a commit: where a stream stands (Hive's CommitTxnKeyValue).

A writer that reads from a stream stores its position with the rows it commits, so that both are there or neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, update

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.names.objects import free_text
from airflow_hive_acid.metastore.schema.hive_catalog import TABLE_PARAMS

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PREFIX = "_meta"

_SET = (
    update(TABLE_PARAMS)
    .where(TABLE_PARAMS.c.TBL_ID == bindparam("id"), TABLE_PARAMS.c.PARAM_KEY == bindparam("name"))
    .values(PARAM_VALUE=bindparam("new_value"))
)


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
        if not self.key.startswith(PREFIX):
            raise InvalidArgumentsError(f"only keys that begin with {PREFIX} change with a commit, not {self.key!r}")

    def set(self, connection: Connection) -> None:
        """Change it, inside the commit; an error refuses the commit."""
        changed = connection.execute(_SET, {"id": self.table_id, "name": self.key, "new_value": self.value}).rowcount
        if changed != 1:
            raise InvalidArgumentsError(
                f"table {self.table_id} has no parameter {self.key!r}, so it cannot change with the commit; create the "
                "parameter first"
            )
