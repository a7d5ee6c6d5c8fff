"""The log of a metastore of ours as a source of events: what its verbs say, and a store that outlives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import ReplicationGapError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.replication.events.collapse import collapse
from airflow_hive_acid.replication.events.decoder import decode_event
from airflow_hive_acid.replication.events.event import EventKind as K
from airflow_hive_acid.replication.events.event import EventSource, read_after
from airflow_hive_acid.replication.events.store import EventStore

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.replication.site import Site

PLAIN = {"transactional": "false"}


@pytest.mark.every_database
@pytest.mark.conformance("E13", "E15")
def test_what_a_metastore_of_ours_says_is_read_from_its_log_and_from_a_store(primary: Site, tmp_path: Path) -> None:
    client, catalog = primary.client, primary.client.catalog
    log = client.notifications
    assert isinstance(log, EventSource)
    assert (log.first_event_id(), log.current_event_id()) == (1, 0)
    catalog.create_database("d")
    columns, keys = (Column("a", "int"),), (Column("day", "string"),)
    catalog.create_table(TableDefinition("d", "Plain", columns, keys, properties=PLAIN))
    catalog.add_partitions("d.plain", ["day=a%2Fb", "day=2"])
    catalog.create_table(TableDefinition("d", "acid", columns, properties={"transactional": "true"}))
    with client.transaction({"d.acid": "insert"}) as txn:
        txn_id, write_id = txn.txn_id, txn.write_ids["d.acid"]
    catalog.rename_table("d.acid", "d.other")
    catalog.drop_partition("d.plain", "day=2")
    catalog.drop_table("d.plain")

    events = [decode_event(logged) for logged in read_after(log, 0)]
    assert [event.event_id for event in events] == list(range(1, log.current_event_id() + 1))
    told = [(e.kind, e.table, tuple(sorted(e.partitions))) for e in events if e.kind not in (K.OPEN_TXN, K.COMMIT_TXN)]
    plain, acid, other = (TableName("d", name) for name in ("plain", "acid", "other"))
    assert told == [
        (K.CREATE_DATABASE, None, ()), (K.CREATE_TABLE, plain, ()),
        (K.ADD_PARTITION, plain, ("day=2", "day=a%2Fb")), (K.CREATE_TABLE, acid, ()), (K.ALLOC_WRITE_ID, acid, ()),
        (K.ALTER_TABLE, acid, ()), (K.ALLOC_WRITE_ID, acid, ()), (K.ALTER_TABLE, other, ()),
        (K.DROP_PARTITION, plain, ("day=2",)), (K.DROP_TABLE, plain, ()),
    ]  # fmt: skip
    assert next(e.write_ids for e in events if e.kind is K.ALLOC_WRITE_ID) == ((txn_id, write_id),)
    by_kind = {event.kind: event for event in events}
    assert by_kind[K.COMMIT_TXN].databases == ("d",)
    assert (by_kind[K.ALTER_TABLE].table_before, by_kind[K.ALTER_TABLE].transactional) == (acid, True)
    assert by_kind[K.DROP_TABLE].transactional is False

    collapsed = [(i.event.kind, i.event.table, i.event_ids) for i in collapse(events) if i.event.table is not None]
    assert collapsed == [
        (K.DROP_TABLE, acid, (4, 6, 7, 8, 10, 11)), (K.CREATE_TABLE, other, (11, 12)),
        (K.DROP_TABLE, plain, (2, 3, 13, 14)),
    ]  # fmt: skip

    store = EventStore(primary.filesystem, (tmp_path / "store").as_uri(), segment_events=4)
    assert store.copy_from(log) == len(events)
    log.purge(age_ms=-10_000)
    assert log.first_event_id() == len(events) + 1
    with pytest.raises(ReplicationGapError, match=f"{len(events)} events were purged"):
        read_after(log, 0)
    assert [decode_event(logged) for logged in read_after(store, 0)] == events
    catalog.create_table(TableDefinition("d", "later", columns, properties=PLAIN))
    assert store.copy_from(log) == 1
    assert decode_event(read_after(store, len(events))[0]).table == TableName("d", "later")
