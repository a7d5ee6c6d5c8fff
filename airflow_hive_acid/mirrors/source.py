"""What a table looks like to a reader, as far as a mirror of it has to know.

Asked while the reader's txn is open (R16), so that what it finds stays; for a look that starts nothing the newest state
will do, as nothing is read by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ChangesNotCompleteError, InvalidArgumentsError
from airflow_hive_acid.format.changes import as_of, complete_up_to
from airflow_hive_acid.format.mirrors import SourceTable, partition_digests
from airflow_hive_acid.metastore.listing import cleaned_up_to
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.notifications import is_another_log
from airflow_hive_acid.metastore.replica import newest_rebalance_seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore import MetastoreClient


@dataclass(frozen=True, slots=True)
class Seen:
    """A source, with what only a job needs.

    :param cleaned: by partition name, up to which write id a Cleaner may have removed what was replaced.
    :param partition_ids: by partition name, its id in the catalog.
    :param altered: by partition name, the write id that has written or altered it last, where the catalog knows it.
    """

    source: SourceTable
    cleaned: dict[str, int] = field(default_factory=dict)
    partition_ids: dict[str, int] = field(default_factory=dict)
    altered: dict[str, int] = field(default_factory=dict)


def look(
    client: MetastoreClient, table: str, write_ids: ValidWriteIdList | None = None, txns: ValidTxnList | None = None
) -> Seen:
    """A source now.

    :param table: ``db.table``.
    :param write_ids: what a reader sees of it whose txn is open; None: what one would see now.
    :param txns: those that had ended before that reader looked, so that it sees the ids that their rebalances have
        given; None: those that have ended now.
    :raises InvalidArgumentsError: for a table without transactions.
    :raises ChangesNotCompleteError: when the first write id of the table is still open.
    """
    key = table_name(table)
    found = client.catalog.get_table(str(key))
    if not found.is_transactional:
        raise InvalidArgumentsError(f"{key} is no ACID table; it has no commits to follow")
    seen = client.get_valid_write_ids([str(key)])[str(key)] if write_ids is None else write_ids
    complete = complete_up_to(seen)
    if complete < 1 <= seen.high_watermark:
        raise ChangesNotCompleteError(
            f"{key} cannot be mirrored yet: its write id 1 is open; wait for its commit or abort"
        )
    partitions = client.catalog.list_partitions(str(key)) if found.is_partitioned else []

    ended = client.get_valid_txns() if txns is None else txns

    def read(connection: Connection) -> tuple[int, dict[str, int]]:
        return newest_rebalance_seen(connection, key, ended), cleaned_up_to(connection, key)

    rebalanced, cleaned = client.database.read(read)
    newest, digest, moved = partition_digests([(p.id, p.name, p.location) for p in partitions], found.location)
    source = SourceTable(
        table=str(key),
        table_id=found.id,
        columns=tuple((c.name.lower(), c.type) for c in found.columns),
        partition_columns=tuple((c.name.lower(), c.type) for c in found.partition_columns),
        write_id=complete,
        write_ids=as_of(seen, complete).short_text(),
        rebalanced=rebalanced,
        newest_partition=newest,
        partitions=digest,
        moved=moved,
        insert_only=found.is_insert_only,
    )
    # A Hive 3 does not note it.
    noted = not client.database.layout().lacks("PARTITIONS", "WRITE_ID")
    altered = {p.name: p.write_id for p in partitions} if noted else {}
    return Seen(source, cleaned, {p.name: p.id for p in partitions}, altered)


def latest_event(client: MetastoreClient) -> tuple[int, int] | None:
    """The latest event of the source's log and when it was written; None when it is not there (any more).

    To be asked behind the look: whoever restores the metastore to before what was seen there loses it.
    """
    if not client.database.read(client.notifications.enabled):
        return None
    event_id = client.notifications.current_event_id()
    _, time = client.notifications.end(event_id)
    return None if time is None else (event_id, time)


def is_other_log(client: MetastoreClient, event: Sequence[int]) -> bool:
    """Whether the source's log has another event where it had this one, or none yet; of a purged one nobody knows."""
    event_id, noted = event
    last, time = client.notifications.end(event_id)
    return event_id > last or is_another_log(noted, time)
