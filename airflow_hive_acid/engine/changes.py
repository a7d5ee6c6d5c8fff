"""Reading what was committed since: ranges of write ids, and the queries that read their changes.

A range that somebody asks for without its end goes as far as all write ids have ended; they stay so, which makes the
range the same for everybody who looks later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import ChangesNoLongerAvailableError, InvalidArgumentsError
from airflow_hive_acid.format.changes import checked_range, complete_up_to
from airflow_hive_acid.metastore.listing import altered_after
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.sql.parsing.builders import quoted_column, quoted_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.engine import Engine
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.names import TableName


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """A range of write ids of a table, all of which have ended.

    :param last: less than ``first`` when there is nothing new yet.
    :param event_id: the latest event of the notification log when the range was found; None without a log. Whoever goes
        on from here gives it, and is told when the table is not the same any more.
    """

    table: str
    first: int
    last: int
    event_id: int | None = None

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
        return {
            "table": self.table, "from_write_id": self.first, "to_write_id": self.last, "event_id": self.event_id,
        }  # fmt: skip


def change_range(
    client: MetastoreClient, table: str, first: object, last: object = None, event_id: object = None
) -> ChangeRange:
    """A range that can be read now.

    :param first: the first write id, and ``last`` the last one; numbers, or their texts as templates render them.
        Without the last: as far as all have ended.
    :param event_id: of the event that told of the range, or of the range before.
    :raises ChangesNotCompleteError: when write ids of it have not ended.
    :raises ChangesNoLongerAvailableError: when it goes on from where the table has never been: that was another one of
        its name, or the table was restored. And when since that event another table has got the name, or a partition
        was dropped, renamed or moved.
    """
    name = table_name(table)
    # Before anything is looked at: what happens meanwhile is told of by a later event.
    latest = client.notifications.current_event_id() if client.database.read(client.notifications.enabled) else None
    found = client.catalog.get_table(str(name))
    if not found.is_transactional:
        raise InvalidArgumentsError(f"table: {name} is no ACID table; it has no changes to tell")
    seen = client.get_valid_write_ids([str(name)])[str(name)]
    start, end = _number(first, "from_write_id"), _optional(last, "to_write_id")
    _require_same(client, name, _optional(event_id, "event_id"), latest, complete_up_to(seen) + 1)
    if end is None and start > seen.high_watermark + 1:
        raise ChangesNoLongerAvailableError(
            f"from_write_id: the changes of {name} from write id {start} on cannot be told: it has only had write ids "
            f"up to {seen.high_watermark}, so it was dropped and made again, or restored. Read it as a whole, and go "
            f"on from {seen.high_watermark + 1}"
        )
    return ChangeRange(str(name), start, checked_range(str(name), seen, start, end), latest)


def _require_same(client: MetastoreClient, name: TableName, since: int | None, latest: int | None, next_: int) -> None:
    """Refuse numbers that another table of the name has given, and what no write id tells of.

    :param since: the event up to which the reader knows what has happened; None: he does not say.
    :param latest: the latest event; None without a log.
    :param next_: the write id from which whoever reads the table now goes on.
    """
    if since is None:
        return
    if latest is None:
        raise InvalidArgumentsError(
            f"event_id: {client.database.where} writes no notification log (hive.metastore.event.db.listener.on), so "
            "nobody knows what has happened since an event; leave event_id out"
        )
    why: str | None = "the log is another one, as when the metastore was restored"
    if since <= latest:
        why = client.database.read(lambda connection: altered_after(connection, name, event_id=since))
    if why is not None:
        raise ChangesNoLongerAvailableError(
            f"event_id: the changes of {name} since event {since} cannot be told: {why}. Read the table as a whole, "
            f"and go on from write id {next_} and event {latest}"
        )


def read_changes(
    engine: Engine,
    client: MetastoreClient,
    table: str,
    from_write_id: object,
    to_write_id: object = None,
    *,
    net: bool = False,
    key: Sequence[str] = (),
    event_id: object = None,
) -> tuple[ChangeRange, Rows | None]:
    """Inserted, updated and deleted rows of a range of write ids.

    :param event_id: as of :func:`change_range`.
    :return: the range that was read, and its rows; None when nothing is new, for which Spark is not needed.
    :raises ChangesNoLongerAvailableError: when compaction has passed it; names what can still be read.
    """
    found = change_range(client, table, from_write_id, to_write_id, event_id)
    return found, None if found.is_empty else engine.query(found.query(net=net, key=key))


def _optional(value: object, field: str) -> int | None:
    return None if value in (None, "", "None") else _number(value, field)


def _number(value: object, field: str) -> int:
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError
        return int(value)
    except ValueError:
        what = "id of an event; give a number from 0 on" if field == "event_id" else "write id; give a number from 1 on"
        raise InvalidArgumentsError(f"{field}: {value!r} is no {what}") from None
