"""The metastore cache on a metastore: what is answered from memory, what by the database, and after which failure."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.cache.cache import CachedCatalog
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.catalog.values.partition_conditions import Compare
from airflow_hive_acid.metastore.database.backends import mysql_batch, pipeline
from airflow_hive_acid.metastore.names.objects import TableName, table_name
from airflow_hive_acid.metastore.schema.hive_catalog import TABLE_PARAMS
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG
from airflow_hive_acid.metastore.txns.key_values import KeyValue
from airflow_hive_acid.settings import Settings, Source
from tests.integration.metastore.cache.conftest import Clock, Reader, T, X


@pytest.mark.every_database
def test_ids_and_lists_are_taken_in_one_round_trip(
    client: MetastoreClient, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.transaction({T: "insert"}, partitioned=[T]) as txn:
        txn.add_partitions(T, ["p=1"])
    open_one = client.begin({T: "insert"}, partitioned=[T])
    asked: list[str] = []
    run, send = pipeline.run, mysql_batch._send

    def counting(driver: Any, info: Any, statements: Any, commit: Any) -> Any:
        asked.extend(["one round trip"] if statements else [])
        return run(driver, info, statements, commit)

    def sending(connection: sa.Connection, steps: Any) -> Any:
        asked.extend(["one round trip"] if steps else [])
        return send(connection, steps)

    def single(*call: Any) -> None:
        if backend == "postgresql" or "TBLS" in call[2]:  # BEGIN and the clock are none of a server's
            asked.append(call[2])

    sa.event.listen(client.database.engine, "before_cursor_execute", single)
    monkeypatch.setattr(pipeline, "run", counting)
    monkeypatch.setattr(mysql_batch, "_send", sending)
    found = client.valid_write_ids_and_table_ids([T, X, "db.none"])
    assert len(asked) == 1, asked
    ids = {table.qualified_name: table.id for table in client.catalog.get_tables([T, X])}
    assert {name: ids_.table_id for name, ids_ in found.items()} == ids
    assert str(found[T].write_ids) == f"{T}:2:2:2:"
    assert found[X].write_ids is None
    # A list that was given out before says the same after the other has committed.
    valid = client.valid_txns()
    open_one.add_partitions(T, [])
    open_one.commit()
    asked.clear()
    earlier = client.valid_write_ids_and_table_ids([T, X], str(valid))
    assert len(asked) == 1, asked
    assert str(earlier[T].write_ids) == f"{T}:2:2:2:"
    assert earlier[T].write_ids == client.get_valid_write_ids([T], valid)[T]
    assert str(client.valid_write_ids_and_table_ids([T])[T].write_ids) == f"{T}:2:9223372036854775807::"
    many = [f"db.n{number}" for number in range(40)]
    assert set(client.valid_write_ids_and_table_ids([T, *many])) == {T}


def test_what_is_in_memory_equals_what_the_catalog_says(reader: Reader) -> None:
    assert reader.table(T) == reader.client.catalog.get_table(T)
    assert reader.table(X) == reader.client.catalog.get_table(X)
    assert reader.counted() == {"hit": 2}


def test_a_reader_cannot_spoil_what_others_get(reader: Reader) -> None:
    reader.table(T).properties["spoiled"] = "yes"
    assert "spoiled" not in reader.table(T).properties


def test_a_read_after_a_ddl_goes_to_the_database_until_its_commit_event_was_read(reader: Reader) -> None:
    """
    t1  DDL commits: catalog, write id and events in one database transaction
    t2  a reader whose list has that write id: the database answers
    t3  the follower reads the commit event
    t4  the same reader is answered from memory
    """
    reader.client.catalog.alter_properties(T, {"note": "new"})
    assert reader.table().properties["note"] == "new"
    assert reader.counted() == {"newer": 1}
    reader.follow()
    assert reader.table().properties["note"] == "new"
    assert reader.counted() == {"hit": 1}


@pytest.mark.every_database
def test_every_ddl_on_a_transactional_table_advances_its_write_id_and_its_commit_event_names_it(reader: Reader) -> None:
    catalog = reader.client.catalog

    class Files:
        def fence(self, jobs: Any) -> None: ...
        def move(self, source: str, target: str) -> None: ...
        def name_originals(self, table: Any, places: Any) -> None: ...
        def hide(self, *_: Any) -> None: ...
        def moving(self, *_: Any) -> Any:
            return contextlib.nullcontext()

    from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionAlteration

    changes = [
        lambda: catalog.alter_properties(T, {"a": "1"}),
        lambda: catalog.alter_properties(T, unset=["a"]),
        lambda: catalog.add_columns(T, [Column("b", "int")]),
        lambda: catalog.change_column(T, "b", Column("c", "bigint")),
        lambda: catalog.replace_columns(T, [Column("a", "int"), Column("d", "bigint")]),
        lambda: catalog.alter_storage(T, serde_properties={"k": "v"}),
        lambda: catalog.add_locked_partitions(T, ["p=1", "p=2"]),
        lambda: catalog.alter_partition(T, "p=1", PartitionAlteration(properties={"k": "v"})),
        lambda: catalog.rename_partition(T, "p=1", "p=3"),
        lambda: catalog.drop_partitions(T, ["p=3"], files=Files()),
        lambda: catalog.rename_table(T, "db.t2"),
    ]
    for number, change in enumerate(changes, 1):
        before = reader.client.notifications.current_event_id()
        change()
        name = T if number < len(changes) else "db.t2"
        assert reader.client.valid_write_ids_and_table_ids([name])[name].write_ids.high_watermark == number  # type: ignore[union-attr]
        (commit,) = [e.message() for e in reader.client.events_after(before) if e.type == "COMMIT_TXN"]
        assert (commit["databases"], commit["writeIds"]) == (["db"], [number])
        assert reader.table(name).id
        assert reader.counted() in ({"newer": 1}, {"missing": 1})
        reader.follow()
        assert reader.table(name) == reader.client.catalog.get_table(name)
        assert reader.counted() == {"hit": 1}


def test_a_write_of_rows_is_followed_too_and_what_its_commit_changed_without_an_event(reader: Reader) -> None:
    """A stream's position is a table parameter that changes with the commit, and no event tells of it."""
    reader.client.catalog.alter_properties(T, {"_meta.offset": "1"})
    reader.follow()
    table = reader.table()
    with contextlib.suppress(StopIteration):
        txn = reader.client.open_txn()
        reader.client.allocate_write_ids(T, txn)
        reader.client.commit_txn(txn, key_value=KeyValue(table.id, "_meta.offset", "2"))
    assert reader.table().properties["_meta.offset"] == "2"
    reader.follow()
    reader.counted()
    assert reader.table().properties["_meta.offset"] == "2"
    assert reader.counted() == {"hit": 1}


def test_a_transaction_reads_its_own_writes_from_the_database(reader: Reader) -> None:
    with reader.client.transaction({T: "insert"}, partitioned=[T]) as txn:
        txn.add_partitions(T, [])
        found = reader.client.valid_write_ids_and_table_ids([T], txn.txn_id)[T]
        assert found.write_ids is not None
        own = found.write_ids.with_committed(txn.write_ids[T])
        reader.follow()
        reader.cache.get_table("db", "t", found.table_id, own)
        assert reader.counted() == {"newer": 1}
        # Everybody else is answered from memory meanwhile.
        assert reader.table().id == found.table_id
        assert reader.counted() == {"hit": 1}
    reader.follow()
    reader.counted()
    reader.cache.get_table("db", "t", found.table_id, own)
    assert reader.counted() == {"hit": 1}


def test_an_older_list_gets_the_current_metadata_from_the_database(reader: Reader) -> None:
    old = reader.client.valid_write_ids_and_table_ids([T])[T]
    reader.client.catalog.alter_properties(T, {"note": "new"})
    reader.follow()
    found = reader.cache.get_table("db", "t", old.table_id, old.write_ids)
    assert found.properties["note"] == "new"
    assert reader.counted() == {"older": 1}


def test_aborted_writes_leave_the_table_in_memory(reader: Reader) -> None:
    reader.client.begin({T: "insert"}, partitioned=[T]).abort()
    reader.table()
    reader.follow()
    reader.table()
    assert reader.counted() == {"hit": 2}


@pytest.mark.every_database
def test_what_a_read_must_say_of_a_table(reader: Reader) -> None:
    ids = reader.client.valid_write_ids_and_table_ids([T, X])
    with pytest.raises(InvalidArgumentsError, match="without valid_write_id_list"):
        reader.cache.get_table("db", "t", ids[T].table_id)
    with pytest.raises(InvalidArgumentsError, match="without table_id"):
        reader.cache.get_table("db", "t", None, ids[T].write_ids)
    with pytest.raises(InvalidArgumentsError, match="not transactional"):
        reader.cache.get_table("db", "x", ids[X].table_id, ids[T].write_ids)
    assert reader.cache.get_table("db", "x").id == ids[X].table_id
    assert reader.cache.get_table("DB", "T", ids[T].table_id, str(ids[T].write_ids)).id == ids[T].table_id
    with pytest.raises(NoSuchObjectError, match=r"no table db\.none"):
        reader.cache.get_table("db", "none")


def test_an_external_table_is_the_current_copy_once_the_log_was_followed(reader: Reader) -> None:
    reader.client.catalog.alter_properties(X, {"note": "new"})
    assert "note" not in reader.table(X).properties
    reader.follow()
    assert reader.table(X).properties["note"] == "new"
    assert reader.counted() == {"hit": 2}


def test_a_table_made_again_is_another_one_from_the_first_read_on(reader: Reader) -> None:
    old = reader.client.valid_write_ids_and_table_ids([T])[T]
    reader.client.catalog.drop_table(T)
    reader.client.catalog.create_table(TableDefinition("db", "t", (Column("other", "int"),)))
    assert reader.table().columns[0].name == "other"
    reader.follow()
    assert reader.table().columns[0].name == "other"
    assert reader.counted() == {"replaced": 1, "hit": 1}
    with pytest.raises(NoSuchObjectError, match="the name belongs to table"):
        reader.cache.get_table("db", "t", old.table_id, old.write_ids)


def test_a_dropped_table_is_gone_for_everybody_once_the_log_was_followed(reader: Reader) -> None:
    old = reader.client.valid_write_ids_and_table_ids([T])[T]
    reader.client.catalog.drop_table(T)
    with pytest.raises(NoSuchObjectError):
        reader.table()
    # A reader of before may be served what it was; nobody new gets its id.
    assert reader.cache.get_table("db", "t", old.table_id, old.write_ids).id == old.table_id
    reader.follow()
    with pytest.raises(NoSuchObjectError):
        reader.cache.get_table("db", "t", old.table_id, old.write_ids)


def test_partitions_come_from_memory_and_follow_the_log(reader: Reader) -> None:
    reader.client.catalog.add_locked_partitions(T, [f"p={n}" for n in (1, 2, 10)])
    reader.follow()
    assert [p.name for p in reader.partitions()] == ["p=1", "p=10", "p=2"]
    reader.follow()
    reader.counted()
    view = reader.cache.view([T])
    assert [p.name for p in view.list_partitions(T, Compare("p", ">", 1))] == ["p=10", "p=2"]
    assert [p.name for p in view.list_partitions(T, {"p": ["1", "7"]})] == ["p=1"]
    assert view.get_partition(T, {"p": "2"}) == reader.client.catalog.get_partition(T, "p=2")
    assert set(view.find_partitions(T, ["p=1", "p=5"])) == {"p=1"}
    with pytest.raises(NoSuchObjectError, match="has no partition p=5"):
        view.get_partition(T, "p=5")
    assert reader.counted() == {"hit": 5}
    with reader.client.transaction({T: "insert"}, partitioned=[T]) as txn:
        txn.add_partitions(T, ["p=1", "p=3"])
        txn.before_commit(
            lambda connection: (
                reader.client.catalog.add_partitions_in(
                    connection, TableName("db", "t"), ["p=3"], write_id=txn.write_ids[T]
                )
                and None
            )
        )
    assert len(reader.partitions()) == 4
    reader.follow()
    assert [p.name for p in reader.partitions()] == ["p=1", "p=10", "p=2", "p=3"]
    assert reader.counted() == {"newer": 1, "hit": 1}


@pytest.mark.every_database
def test_pages_are_in_the_order_of_the_database_and_come_from_it(reader: Reader) -> None:
    reader.client.catalog.add_locked_partitions(T, [f"p={n}" for n in range(5)])
    reader.follow()
    reader.partitions()
    reader.follow()
    ids = reader.client.valid_write_ids_and_table_ids([T])[T]
    who: Any = {"table_id": ids.table_id, "valid_write_id_list": ids.write_ids}
    page = reader.cache.list_partitions("db", "t", limit=2, **who)
    assert page == reader.client.catalog.list_partitions(T, limit=2)
    rest = reader.cache.list_partitions("db", "t", after=page[-1].name, **who)
    assert page + rest == reader.cache.list_partitions("db", "t", **who)


def test_databases_and_names_follow_the_log_and_can_be_asked_to_be_no_older(reader: Reader) -> None:
    """Databases have no write ids; the order of the log is their guarantee."""
    cache, client = reader.cache, reader.client

    def all_of_it() -> tuple[Any, ...]:
        return cache.get_database("db").properties, cache.list_databases(), cache.list_tables("db")

    all_of_it()
    reader.follow()
    reader.counted()
    assert all_of_it() == ({}, ["db", "default"], ["t", "x"])
    assert reader.counted() == {"hit": 3}
    client.catalog.alter_database("db", {"k": "v"})
    client.catalog.create_database("db2")
    client.catalog.rename_table(X, "db.y")
    mine = client.notifications.current_event_id()
    assert cache.get_database("db", at_least=mine).properties == {"k": "v"}
    assert cache.list_databases(at_least=mine) == ["db", "db2", "default"]
    assert cache.list_tables("db", at_least=mine) == ["t", "y"]
    reader.follow()
    for _ in range(2):
        assert all_of_it() == ({"k": "v"}, ["db", "db2", "default"], ["t", "y"])
        reader.follow()
    client.catalog.drop_database("db2")
    client.catalog.drop_database("db", cascade=True)
    reader.follow()
    assert cache.list_databases() == ["default"]
    with pytest.raises(NoSuchObjectError):
        cache.get_database("db")
    with pytest.raises(NoSuchObjectError):
        reader.cache.get_table("db", "y")


def test_a_log_purged_under_the_follower_means_that_everything_is_read_anew(reader: Reader, rows: Any) -> None:
    reader.client.catalog.alter_properties(X, {"note": "new"})
    rows.change(sa.delete(NOTIFICATION_LOG))
    reader.client.catalog.alter_properties(T, {"note": "newer"})
    reader.follow()
    assert reader.cache.statistics().restarts == 1
    assert reader.table(X).properties["note"] == "new"
    assert reader.table(T).properties["note"] == "newer"
    assert reader.counted() == {"missing": 2}
    reader.follow()
    reader.table(X)
    reader.table(T)
    assert reader.counted() == {"hit": 2}


@pytest.mark.every_database
@pytest.mark.parametrize("further", [True, False], ids=["past the position", "just to the position"])
def test_a_log_of_a_backup_that_has_gone_on_means_that_everything_is_read_anew(
    reader: Reader, rows: Any, *, further: bool
) -> None:
    """
    t1  the cache has followed the log to its end
    t2  the metastore is restored from a backup of before; tables are what they were
    t3  it goes on, and gives the same event ids again, at a later time
    """
    reader.client.catalog.alter_properties(X, {"note": "lost"})
    reader.follow()
    reader.table(X)
    reader.follow()
    position = reader.client.notifications.current_event_id()
    rows.change(sa.update(NOTIFICATION_LOG).values(EVENT_TIME=NOTIFICATION_LOG.c.EVENT_TIME + 60))
    rows.update("TABLE_PARAMS", {"PARAM_VALUE": "restored"}, PARAM_KEY="note")
    if further:
        reader.client.catalog.alter_properties(T, {"other": "x"})
    assert (reader.client.notifications.current_event_id() > position) is further
    reader.counted()
    reader.follow()
    assert reader.cache.statistics().restarts == 1
    assert "was restored" in str(reader.cache.statistics().restarted_because)
    assert reader.table(X).properties["note"] == "restored"
    assert reader.counted() == {"missing": 1}
    reader.follow()
    reader.table(X)
    assert reader.counted() == {"hit": 1}
    assert reader.cache.statistics().restarts == 1


@pytest.mark.every_database
def test_a_message_that_cannot_be_read_means_that_everything_is_read_anew(reader: Reader, rows: Any) -> None:
    last = reader.client.notifications.current_event_id()
    reader.client.catalog.alter_properties(X, {"note": "new"})
    rows.update("NOTIFICATION_LOG", {"MESSAGE": "?"}, EVENT_ID=last + 2)
    reader.follow()
    assert "cannot be read" in str(reader.cache.statistics().restarted_because)
    assert reader.table(X).properties["note"] == "new"


def test_events_in_plain_json_are_followed_as_well(client: MetastoreClient, metastore_url: str, reader: Reader) -> None:
    plain = Settings({Source.CONNECTION: {"hive.metastore.event.message.factory": "json-0.2"}})
    with MetastoreClient(metastore_url, plain) as other:
        other.catalog.alter_properties(T, {"note": "new"})
        other.catalog.add_locked_partitions(T, ["p=1"])
    reader.follow()
    assert reader.table().properties["note"] == "new"
    assert reader.counted() == {"hit": 1}


def test_a_writer_that_tells_nothing_is_never_served_stale(metastore_url: str, reader: Reader) -> None:
    """A commit without events: the list says that it happened, the log never will; the table is read again."""
    silent = Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": "false"}})
    with MetastoreClient(metastore_url, silent) as other:
        other.catalog.alter_properties(T, {"note": "new"})
    assert reader.table().properties["note"] == "new"
    assert reader.counted() == {"newer": 1}
    assert reader.table().properties["note"] == "new"
    assert reader.counted() == {"hit": 1}


def test_an_alter_table_that_took_no_write_id_is_seen_once_its_event_was_read(reader: Reader, rows: Any) -> None:
    """TOUCH of a Hive takes none; other engines alter tables without any."""
    catalog = reader.client.catalog
    reader.table()

    def alter(connection: sa.Connection) -> None:
        before = catalog.get_tables_in(connection, [table_name(T)])[0]
        connection.execute(
            sa.insert(TABLE_PARAMS).values(TBL_ID=before.id, PARAM_KEY="note", PARAM_VALUE="by another engine")
        )
        after = catalog.get_tables_in(connection, [table_name(T)])[0]
        catalog.events.table_altered(connection, before, after, write_id=None)

    catalog.changes.run(alter)
    reader.follow()
    assert reader.table().properties["note"] == "by another engine"
    assert reader.counted() == {"hit": 2}


def test_a_touch_is_seen_by_the_first_read_after_it(reader: Reader) -> None:
    """It takes a write id, as every change of a transactional table does: the list tells before the log was read."""
    write_id = reader.table().write_id
    reader.client.catalog.touch(T)
    after = reader.table()
    assert after == reader.client.catalog.get_table(T)
    if not reader.client.database.layout().lacks("TBLS", "WRITE_ID"):
        assert after.write_id == write_id + 1
    assert reader.counted() == {"hit": 1, "newer": 1}


@pytest.mark.every_database
def test_a_change_behind_the_log_is_found_by_whoever_sees_it(reader: Reader, rows: Any) -> None:
    old = reader.client.valid_write_ids_and_table_ids([T])[T]
    reader.client.catalog.alter_properties(T, {"note": "told"})
    reader.follow()
    rows.change(sa.update(TABLE_PARAMS).where(TABLE_PARAMS.c.PARAM_KEY == "note").values(PARAM_VALUE="untold"))
    assert reader.table().properties["note"] == "told"  # what nobody tells, nobody can know
    reader.cache.get_table("db", "t", old.table_id, old.write_ids)  # goes to the database, and compares
    assert reader.table().properties["note"] == "untold"
    reader.follow()
    reader.counted()
    assert reader.table().properties["note"] == "untold"
    assert reader.counted() == {"hit": 1}


def test_a_round_that_has_read_less_than_a_reader_was_shown_meanwhile_shows_nothing_older(
    reader: Reader, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  the follower has read a change of the table, and has not let it take effect
    t2            a Hive without a listener changes the table: no event, the log's end stays where it is
    t3                     a reader that knows of the first change is shown both by the database
    t4  the round takes effect
    """
    reader.client.catalog.alter_properties(T, {"note": "told"})
    shown: list[str] = []

    def meanwhile() -> None:
        rows.update("TABLE_PARAMS", {"PARAM_VALUE": "untold"}, PARAM_KEY="note")
        shown.append(reader.table().properties["note"])

    with monkeypatch.context() as patch:
        after_reads(patch, reader.cache.follower, [meanwhile])
        reader.follow()
    assert shown == ["untold"]
    for _ in range(3):
        assert reader.table().properties["note"] == "untold"
        reader.follow()
    assert reader.counted() == {"newer": 1, "unconfirmed": 1, "hit": 2}


def test_a_reader_that_has_read_less_than_another_was_shown_meanwhile_leaves_nothing_in_memory(
    reader: Reader, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with two readers: the second begins and ends while the first holds what it has read."""
    reader.client.catalog.alter_properties(X, {"note": "told"})
    reader.cache.close()
    reader.follow()
    shown: list[Any] = []

    def meanwhile() -> None:
        rows.update("TABLE_PARAMS", {"PARAM_VALUE": "untold"}, PARAM_KEY="note")
        shown.append(reader.table(X).properties["note"])

    def another_name() -> None:
        rows.update("TBLS", {"TBL_NAME": "y"}, TBL_NAME="x")
        shown.append(reader.cache.list_tables("db"))

    with monkeypatch.context() as patch:
        after_reads(patch, reader.cache, [meanwhile])
        assert reader.cache.get_table("db", "x").properties["note"] == "told"
    assert reader.cache.get_table("db", "x").properties["note"] == "untold"
    with monkeypatch.context() as patch:
        after_reads(patch, reader.cache, [another_name])
        assert reader.cache.list_tables("db") == ["t", "x"]
    assert shown == ["untold", ["t", "y"]]
    assert reader.cache.list_tables("db") == ["t", "y"]


def after_reads(patch: pytest.MonkeyPatch, actor: Any, does: list[Any]) -> None:
    """Something happens once an actor has read the database, before it does anything with that; once."""
    read = actor._database.read

    class Stopped:
        def read(self, *arguments: Any, **named: Any) -> Any:
            found = read(*arguments, **named)
            if does and not named.get("one_statement"):
                does.pop()()
            return found

    patch.setattr(actor, "_database", Stopped())


def test_a_follower_that_is_too_far_behind_serves_nothing(reader: Reader, clock: Clock) -> None:
    clock.now += 31
    reader.client.catalog.alter_properties(X, {"note": "new"})
    assert reader.table(X).properties["note"] == "new"
    assert reader.cache.statistics().state == "behind"
    assert reader.cache.statistics(ask_log=True).lag_events == 3
    assert reader.cache.statistics().lag_seconds == 31
    reader.follow()
    assert reader.table(X).properties["note"] == "new"
    assert reader.counted() == {"behind": 1, "hit": 1}
    assert reader.cache.statistics(ask_log=True).lag_events == 0


@pytest.mark.parametrize("key", ["hive.acid.cache.enabled", "hive.metastore.event.db.listener.on"])
@pytest.mark.setting("hive.acid.cache.enabled")
def test_a_cache_that_is_off_asks_the_database(metastore_url: str, client: MetastoreClient, key: str) -> None:
    off = Settings({Source.CONNECTION: {key: "false"}})
    with MetastoreClient(metastore_url, off) as other, CachedCatalog(other, other.catalog) as cache:
        reader = Reader(other, cache)
        assert reader.table().name == "t"
        assert cache.list_tables("db") == ["t", "x"]
        assert reader.counted() == {"off": 2}
        assert cache.statistics().state == "off"


def test_a_cache_that_was_closed_and_started_again_begins_anew(reader: Reader) -> None:
    reader.cache.close()
    reader.client.catalog.alter_properties(X, {"note": "new"})
    assert reader.table(X).properties["note"] == "new"
    reader.cache.start()
    assert reader.table(X).properties["note"] == "new"
    assert reader.counted() == {"off": 1, "missing": 1}


@pytest.mark.every_database
def test_prewarming_tells_how_far_it_is_and_stops_when_memory_is_full(client: MetastoreClient) -> None:
    for number in range(30):
        client.catalog.create_table(TableDefinition("db", f"n{number}", (Column("a", "int"),)))
    told: list[tuple[int, int]] = []
    with CachedCatalog(client, client.catalog) as cache:
        assert cache.prewarm(["db"], progress=lambda *step: told.append(step)) == 32
        assert told == [(32, 32)]
        cache.follower.look()
        reader = Reader(client, cache)
        reader.table("db.n7")
        assert reader.counted()["hit"] == 1
        assert cache.prewarm(["db"], partitions=True, progress=lambda *step: told.append(step)) == 32
        assert told[-1] == (32, 32)
        cache._state.store._Cache__maxsize = cache._state.store.currsize  # type: ignore[attr-defined]
        assert cache.prewarm(["db"]) == 0
