"""Reading what was committed since: ranges of write ids, and the queries that read their changes.

A range that somebody asks for without its end goes as far as all write ids have ended; they stay so, which makes the
range the same for everybody who looks later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import ChangesNoLongerAvailableError, InvalidArgumentsError
from airflow_hive_acid.format.changes import checked_range
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.sql.parsing.builders import quoted_column, quoted_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.engine import Engine
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.metastore import MetastoreClient


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """A range of write ids of a table, all of which have ended.

    :param last: less than ``first`` when there is nothing new yet.
    """

    table: str
    first: int
    last: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing can have changed."""
        return self.last < self.first

    def query(self, *, net: bool = False, key: Sequence[str] = ()) -> str:
        """The SELECT of its changes.

        :param net: leave out what the range itself made and undid.
        :param key: columns by which a deleted and an inserted row are the two halves of an update.
        """
        kind = "NET CHANGES" if net else "CHANGES"
        names = [quoted_column(name, f"key[{i}]") for i, name in enumerate(key)]
        paired = f" KEY ({', '.join(names)})" if names else ""
        return f"SELECT * FROM {quoted_table(self.table)} {kind} BETWEEN {self.first} AND {self.last}{paired}"  # noqa: S608 - checked and quoted

    def to_document(self) -> dict[str, Any]:
        """As plain values."""
        return {"table": self.table, "from_write_id": self.first, "to_write_id": self.last}


def change_range(client: MetastoreClient, table: str, first: object, last: object = None) -> ChangeRange:
    """A range that can be read now.

    :param first: the first write id, and ``last`` the last one; numbers, or their texts as templates render them.
        Without the last: as far as all have ended.
    :raises ChangesNotCompleteError: when write ids of it have not ended.
    :raises ChangesNoLongerAvailableError: when it goes on from where the table has never been: that was another one of
        its name, or the table was restored.
    """
    name = table_name(table)
    found = client.catalog.get_table(str(name))
    if not found.is_transactional:
        raise InvalidArgumentsError(f"table: {name} is no ACID table; it has no changes to tell")
    seen = client.get_valid_write_ids([str(name)])[str(name)]
    start, end = _number(first, "from_write_id"), _last(last)
    if end is None and start > seen.high_watermark + 1:
        raise ChangesNoLongerAvailableError(
            f"from_write_id: the changes of {name} from write id {start} on cannot be told: it has only had write ids "
            f"up to {seen.high_watermark}, so it was dropped and made again, or restored. Read it as a whole, and go "
            f"on from {seen.high_watermark + 1}"
        )
    return ChangeRange(str(name), start, checked_range(str(name), seen, start, end))


def read_changes(
    engine: Engine,
    client: MetastoreClient,
    table: str,
    from_write_id: object,
    to_write_id: object = None,
    *,
    net: bool = False,
    key: Sequence[str] = (),
) -> tuple[ChangeRange, Rows | None]:
    """Inserted, updated and deleted rows of a range of write ids.

    :return: the range that was read, and its rows; None when nothing is new, for which Spark is not needed.
    :raises ChangesNoLongerAvailableError: when compaction has passed it; names what can still be read.
    """
    found = change_range(client, table, from_write_id, to_write_id)
    return found, None if found.is_empty else engine.query(found.query(net=net, key=key))


def _last(value: object) -> int | None:
    return None if value in (None, "", "None") else _number(value, "to_write_id")


def _number(value: object, field: str) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError
        return int(value)
    except ValueError:
        raise InvalidArgumentsError(f"{field}: {value!r} is no write id; give a number from 1 on") from None
