"""Values by table: ``values["db.t"]``, whatever the case it is written in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.names.objects import TableName, table_name

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


class ByTable(Mapping[str, T]):
    """A mapping from ``db.table`` to values.

    :param what: for messages: what there is one of per table.
    """

    def __init__(self, what: str, values: Mapping[TableName, T]) -> None:
        self._what = what
        self._values = dict(values)

    def __getitem__(self, table: str) -> T:
        try:
            return self._values[table_name(table)]
        except InvalidArgumentsError:
            raise
        except KeyError:
            known = ", ".join(map(str, self._values)) or "none"
            raise KeyError(f"no {self._what} of {table}; declared are: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return (str(name) for name in self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, table: object) -> bool:
        return isinstance(table, str) and table in set(self)

    def __repr__(self) -> str:
        return repr({str(k): v for k, v in self._values.items()})
