"""Tasks: every row of the seed's table of events, ACID events, state ids, and finding a factory."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.log import LoggedEvent
from airflow_hive_acid.replication.dumps.state_ids import ObjectState, may_drop, may_import
from airflow_hive_acid.replication.events import factories
from airflow_hive_acid.replication.events.collapse import CollapsedEvent
from airflow_hive_acid.replication.events.event import EventKind as K
from airflow_hive_acid.replication.events.event import ReplicationEvent
from airflow_hive_acid.replication.events.exim_tasks import EximReplicationTaskFactory, merge_syncs
from airflow_hive_acid.replication.events.factories import create_task, create_tasks, load_factory
from airflow_hive_acid.replication.events.tasks import (
    CopyMode,
    NoOp,
    ReplicationTask,
    ReplicationTaskFactory,
    SyncAcidCommand,
    TaskSettings,
)
from tests.unit.replication.replica_model import table_object

SETTINGS = TaskSettings("file:/src/staging", "file:/dst/staging/", {"d": "copy"})
T, OLD = TableName("d", "t"), TableName("d", "old")


def event(kind: K, event_id: int = 7, *, name: TableName | None = T, **fields: object) -> ReplicationEvent:
    logged = LoggedEvent(event_id, 0, kind.name, "hive", "d", None, "", None)
    fields.setdefault("transactional", False if name is not None else None)
    fields.setdefault("was_transactional", fields["transactional"])
    return ReplicationEvent(event_id, 0, kind, kind.name, logged, database="d", table=name, **fields)  # type: ignore[arg-type]


def task(kind: K, event_id: int = 7, **fields: object) -> ReplicationTask:
    return create_task(EximReplicationTaskFactory(SETTINGS), event(kind, event_id, **fields))  # type: ignore[arg-type]


# --- the ten events ---


@pytest.mark.conformance("E01")
def test_create_database_is_a_no_op_because_it_must_exist_before() -> None:
    made = task(K.CREATE_DATABASE, name=None)
    assert made.is_no_op
    assert made.needs_copy is CopyMode.NONE
    assert made.report is None
    assert isinstance(made.destination[0], NoOp)
    assert "before it exists at the destination" in made.destination[0].reason


@pytest.mark.conformance("E02")
def test_drop_database_cascades_at_the_destination_under_its_name_there() -> None:
    made = task(K.DROP_DATABASE, name=None)
    assert made.sql == ("DROP DATABASE IF EXISTS `copy` CASCADE",)
    assert made.needs_copy is CopyMode.NONE
    assert isinstance(made.source[0], NoOp)


@pytest.mark.conformance("E03")
def test_alter_database_says_that_it_is_not_implemented() -> None:
    made = task(K.ALTER_DATABASE, name=None)
    assert made.is_no_op
    assert made.report is not None
    assert made.report.startswith("event 7 ALTER_DATABASE of d: AlterDatabase is not implemented")


@pytest.mark.conformance("E04")
def test_create_table_exports_copies_and_imports() -> None:
    made = task(K.CREATE_TABLE)
    assert made.sql == (
        "EXPORT TABLE `d`.`t` TO 'file:/src/staging/d/t/7_create_table' FOR REPLICATION('7')",
        "IMPORT TABLE `copy`.`t` FROM 'file:/dst/staging/d/t/7_create_table'",
    )
    assert made.needs_copy is CopyMode.DATA
    assert (made.copies[0].source, made.copies[0].target) == (
        "file:/src/staging/d/t/7_create_table", "file:/dst/staging/d/t/7_create_table",
    )  # fmt: skip


@pytest.mark.conformance("E05")
@pytest.mark.parametrize("acid", [False, True])
def test_drop_table_carries_its_event_id(acid: bool) -> None:
    made = task(K.DROP_TABLE, transactional=acid)
    assert made.sql == ("DROP TABLE IF EXISTS `copy`.`t` FOR REPLICATION('7')",)
    assert made.needs_copy is CopyMode.NONE


@pytest.mark.conformance("E06")
def test_alter_table_moves_metadata_only() -> None:
    made = task(K.ALTER_TABLE)
    assert made.sql == (
        "EXPORT TABLE `d`.`t` TO 'file:/src/staging/d/t/7_alter_table_metadata' FOR METADATA REPLICATION('7')",
        "IMPORT TABLE `copy`.`t` FROM 'file:/dst/staging/d/t/7_alter_table_metadata'",
    )
    assert made.needs_copy is CopyMode.METADATA


@pytest.mark.parametrize("how", ["truncated", "moved"])
@pytest.mark.parametrize("kind", [K.ALTER_TABLE, K.ALTER_PARTITION])
def test_an_alter_that_changed_the_data_brings_the_data(kind: K, how: str) -> None:
    made = task(kind, partitions=("p=1",) if kind is K.ALTER_PARTITION else (), **{how: True})
    assert made.needs_copy is CopyMode.DATA
    assert "FOR REPLICATION('7')" in made.sql[0]


def test_a_rename_is_a_drop_of_the_old_name_and_an_import_under_the_new_one() -> None:
    made = task(K.ALTER_TABLE, table_before=OLD)
    assert [sql.split(" TO ")[0].split(" FROM ")[0] for sql in made.sql] == [
        "EXPORT TABLE `d`.`t`", "DROP TABLE IF EXISTS `copy`.`old` FOR REPLICATION('7')", "IMPORT TABLE `copy`.`t`",
    ]  # fmt: skip
    assert made.needs_copy is CopyMode.DATA


@pytest.mark.conformance("E07")
def test_several_partitions_travel_in_one_dump_and_arrive_together() -> None:
    made = task(K.ADD_PARTITION, partitions=("p=1/q=it's", "p=2/q=a%2Fb"))
    assert made.sql == (
        "EXPORT TABLE `d`.`t` PARTITION (`p`='1', `q`='it\\'s'), PARTITION (`p`='2', `q`='a/b') "
        "TO 'file:/src/staging/d/t/7_add_partition' FOR REPLICATION('7')",
        "IMPORT TABLE `copy`.`t` PARTITION (`p`='1', `q`='it\\'s'), PARTITION (`p`='2', `q`='a/b') "
        "FROM 'file:/dst/staging/d/t/7_add_partition'",
    )
    assert len(made.destination) == 1
    assert made.needs_copy is CopyMode.DATA


@pytest.mark.conformance("E08")
def test_each_dropped_partition_is_a_command() -> None:
    made = task(K.DROP_PARTITION, partitions=("p=1", "p=2"))
    assert made.sql == (
        "ALTER TABLE `copy`.`t` DROP IF EXISTS PARTITION (`p`='1') FOR REPLICATION('7')",
        "ALTER TABLE `copy`.`t` DROP IF EXISTS PARTITION (`p`='2') FOR REPLICATION('7')",
    )
    assert made.needs_copy is CopyMode.NONE


@pytest.mark.conformance("E09")
def test_alter_partition_moves_metadata_only() -> None:
    made = task(K.ALTER_PARTITION, partitions=("p=1",))
    assert "PARTITION (`p`='1') TO" in made.sql[0]
    assert made.sql[0].endswith("FOR METADATA REPLICATION('7')")
    assert made.needs_copy is CopyMode.METADATA


def test_a_renamed_partition_is_a_drop_and_an_import() -> None:
    made = task(K.ALTER_PARTITION, partitions=("p=2",), partitions_before=("p=1",), moved=True)
    assert made.sql[1] == "ALTER TABLE `copy`.`t` DROP IF EXISTS PARTITION (`p`='1') FOR REPLICATION('7')"
    assert made.sql[2].startswith("IMPORT TABLE `copy`.`t` PARTITION (`p`='2')")


@pytest.mark.conformance("E10")
@pytest.mark.parametrize("partitions", [(), ("p=1",)])
def test_insert_copies_the_whole_object(partitions: tuple[str, ...]) -> None:
    made = task(K.INSERT, partitions=partitions, files=("file:/one/of/many",))
    assert made.needs_copy is CopyMode.DATA
    assert made.sql[0].endswith("TO 'file:/src/staging/d/t/7_insert' FOR REPLICATION('7')")
    assert ("PARTITION" in made.sql[0]) is bool(partitions)


# --- ACID ---


def sync(made: ReplicationTask) -> SyncAcidCommand:
    (command,) = [c for c in made.destination if isinstance(c, SyncAcidCommand)]
    return command


@pytest.mark.parametrize(
    "kind", [K.CREATE_TABLE, K.ALTER_TABLE, K.ADD_PARTITION, K.DROP_PARTITION, K.ALTER_PARTITION, K.INSERT]
)
def test_whatever_happens_to_an_acid_table_but_its_drop_asks_for_its_state(kind: K) -> None:
    made = task(kind, transactional=True)
    assert made.destination == (SyncAcidCommand(frozenset({T}), frozenset(), None, 7),)
    assert made.needs_copy is CopyMode.NONE
    assert not made.is_no_op


@pytest.mark.parametrize("kind", [K.ALLOC_WRITE_ID, K.ACID_WRITE, K.COMMIT_COMPACTION])
def test_txn_events_that_name_a_table_ask_for_its_state(kind: K) -> None:
    assert sync(task(kind, txn_ids=(3,))) == SyncAcidCommand(frozenset({T}), frozenset(), None, 7)


@pytest.mark.parametrize("kind", [K.COMMIT_TXN, K.ABORT_TXN])
def test_the_end_of_a_txn_asks_for_what_it_wrote(kind: K) -> None:
    made = sync(task(kind, name=None, txn_ids=(3,), databases=("d",)))
    assert made == SyncAcidCommand(frozenset(), frozenset({3}), frozenset({"d"}), 7)
    assert sync(task(kind, name=None, txn_ids=(3,))).databases is None
    assert task(kind, name=None, txn_ids=(3,), databases=()).is_no_op


def test_an_opened_txn_concerns_nobody_before_its_first_write_id() -> None:
    assert task(K.OPEN_TXN, name=None, txn_ids=(3,)).is_no_op


def test_a_renamed_acid_table_and_one_that_became_one_lose_the_copy_they_had() -> None:
    renamed = task(K.ALTER_TABLE, transactional=True, table_before=OLD)
    assert renamed.sql == ("DROP TABLE IF EXISTS `copy`.`old` FOR REPLICATION('7')",)
    converted = task(K.ALTER_TABLE, transactional=True, was_transactional=False)
    assert converted.sql == ("DROP TABLE IF EXISTS `copy`.`t` FOR REPLICATION('7')",)
    for made in (renamed, converted):
        assert sync(made).tables == {T}


def test_syncs_are_one_and_last_so_that_a_txn_of_several_tables_arrives_whole() -> None:
    other = TableName("d", "u")
    tasks = [
        task(K.ALLOC_WRITE_ID, 1, txn_ids=(3,)), task(K.CREATE_TABLE, 2),
        task(K.ALTER_TABLE, 3, name=other, transactional=True, table_before=OLD),
        task(K.COMMIT_TXN, 4, name=None, txn_ids=(3,), databases=("d",)), task(K.DROP_TABLE, 5),
    ]  # fmt: skip
    made = merge_syncs(tasks)
    assert [(t.kind, t.event_ids) for t in made] == [
        (K.CREATE_TABLE, (2,)), (K.ALTER_TABLE, (3,)), (K.DROP_TABLE, (5,)), (K.COMMIT_TXN, (1, 3, 4)),
    ]  # fmt: skip
    assert made[-1].destination == (SyncAcidCommand(frozenset({T, other}), frozenset({3}), frozenset({"d"}), 4),)
    assert made[1].sql == ("DROP TABLE IF EXISTS `copy`.`old` FOR REPLICATION('3')",)
    assert merge_syncs([tasks[1]]) == [tasks[1]]
    unknown = [tasks[3], task(K.ABORT_TXN, 6, name=None, txn_ids=(9,))]
    assert sync(merge_syncs(unknown)[0]).databases is None, "one of them may be anywhere"


# --- reported ---


def test_what_cannot_be_applied_is_reported_and_what_nobody_misses_is_not() -> None:
    unknown = task(K.UNKNOWN, name=None, problem="nobody knows it")
    assert unknown.is_no_op
    assert unknown.report == "event 7 UNKNOWN of d: nobody knows it"
    function = replace(event(K.NOT_REPLICATED, name=None, problem="code"), type="CREATE_FUNCTION")
    statistics = replace(function, type="UPDATE_TBL_COL_STAT_EVENT")
    factory = EximReplicationTaskFactory(SETTINGS)
    assert factory.create(function).report == "event 7 CREATE_FUNCTION of d: code"
    assert factory.create(statistics).report is None


def test_materialized_views_are_built_at_each_side() -> None:
    view = replace(table_object("t"), type="MATERIALIZED_VIEW")
    made = task(K.CREATE_TABLE, transactional=True, table_object=view)
    assert made.is_no_op
    assert "materialized view" in str(made.report)


# --- state ids ---


@pytest.mark.conformance("E11")
@pytest.mark.parametrize(
    ("held", "state", "metadata_only", "accepted"),
    [
        (ObjectState(False), 5, False, True), (ObjectState(False), 5, True, False),
        (ObjectState(True, 4), 5, False, True), (ObjectState(True, 5), 5, False, False),
        (ObjectState(True, 6), 5, False, False), (ObjectState(True, 4), 5, True, True),
        (ObjectState(True, 4, 5), 5, True, False), (ObjectState(True, 4, 9), 5, False, True),
        (ObjectState(True), 5, False, True),
    ],
)  # fmt: skip
def test_an_import_is_accepted_when_it_is_newer(
    held: ObjectState, state: int, metadata_only: bool, accepted: bool
) -> None:
    verdict = may_import(held, state, metadata_only=metadata_only)
    assert verdict.accepted is accepted
    assert verdict.reason


@pytest.mark.conformance("E12")
@pytest.mark.parametrize(
    ("held", "accepted"),
    [
        (ObjectState(True, 6), True), (ObjectState(True, 7), False), (ObjectState(True, 8), False),
        (ObjectState(False), False), (ObjectState(True), False), (ObjectState(True, 6, 9), True),
    ],
)  # fmt: skip
def test_a_drop_is_accepted_when_its_event_is_newer(held: ObjectState, accepted: bool) -> None:
    assert may_drop(held, 7).accepted is accepted


def test_the_states_of_an_object_stand_in_its_parameters() -> None:
    assert ObjectState.of(None) == ObjectState(False)
    assert ObjectState.of({}) == ObjectState(True)
    held = ObjectState.of({"repl.last.id": "12", "hive.acid.repl.last.metadata.id": "15"})
    assert held == ObjectState(True, 12, 15)
    assert held.after_import(20, metadata_only=True) == {"hive.acid.repl.last.metadata.id": "20"}
    assert held.after_import(20, metadata_only=False) == {"repl.last.id": "20"}
    with pytest.raises(InvalidArgumentsError, match=r"repl.last.id of d.t is 'x1', no event id"):
        ObjectState.of({"repl.last.id": "x1"}, "d.t")


# --- factories ---


class Twice:
    """A factory of somebody's."""

    def __init__(self, settings: TaskSettings) -> None:
        self.settings = settings

    def create(self, event: ReplicationEvent) -> ReplicationTask:
        return ReplicationTask((event.event_id,), event.kind, "mine", (), ())


def needs_more(settings: TaskSettings, more: int) -> Twice:
    return Twice(settings)


def not_configured(settings: TaskSettings) -> Twice:
    raise ConfigurationError("no token")


def nothing(settings: TaskSettings) -> object:
    return object()


VALUE = 7


@pytest.fixture
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("somebodys_factories")
    for made in (Twice, needs_more, not_configured, nothing):
        setattr(module, made.__name__, made)
    module.VALUE = VALUE  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "somebodys_factories", module)


@pytest.mark.usefixtures("_importable")
@pytest.mark.parametrize("name", ["somebodys_factories:Twice", "somebodys_factories.Twice"])
def test_a_factory_is_found_by_its_path(name: str) -> None:
    factory = load_factory(name, SETTINGS)
    assert isinstance(factory, Twice)
    assert factory.settings is SETTINGS
    assert create_task(factory, event(K.INSERT)).about == "mine"


@pytest.mark.parametrize("name", [None, "exim"])
def test_the_default_factory_is_built_in(name: str | None) -> None:
    factory = load_factory(name, SETTINGS)
    assert isinstance(factory, EximReplicationTaskFactory)
    assert isinstance(factory, ReplicationTaskFactory)


def _offer(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    points = [EntryPoint("twice", value, "airflow_hive_acid.replication_task_factories") for value in values]
    monkeypatch.setattr(factories, "entry_points", lambda group: points if group == points[0].group else [])


@pytest.mark.usefixtures("_importable")
def test_a_factory_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    _offer(monkeypatch, "somebodys_factories:Twice")
    assert isinstance(load_factory("twice", SETTINGS), Twice)


@pytest.mark.usefixtures("_importable")
def test_two_packages_that_offer_one_name_are_not_guessed_between(monkeypatch: pytest.MonkeyPatch) -> None:
    _offer(monkeypatch, "somebodys_factories:Twice", "somebodys_factories:nothing")
    with pytest.raises(InvalidArgumentsError, match=r"several installed packages offer .* 'twice'.*by its path"):
        load_factory("twice", SETTINGS)


@pytest.mark.usefixtures("_importable")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exmi", r"there is no replication task factory 'exmi'; known are exim.*package.module:Class"),
        ("", "there is no replication task factory ''"),
        ("no_such_module_x:Class", "module 'no_such_module_x' cannot be imported here.*install"),
        ("somebodys_factories:Thrice", "has no 'Thrice'; correct the path"),
        ("somebodys_factories:VALUE", "is int, nothing that can be called"),
        ("somebodys_factories:needs_more", "could not be made of TaskSettings: TypeError"),
        ("somebodys_factories:nothing", r"made a object, which has no method create\(event\)"),
    ],
)
def test_what_is_wrong_with_a_factory_is_said(name: str, message: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        load_factory(name, SETTINGS)


@pytest.mark.usefixtures("_importable")
def test_an_error_that_a_factory_raises_on_purpose_is_its_own() -> None:
    with pytest.raises(ConfigurationError, match="no token"):
        load_factory("somebodys_factories:not_configured", SETTINGS)


def test_a_factory_that_forgets_an_event_is_an_error() -> None:
    class Forgets(Twice):
        def create(self, event: ReplicationEvent) -> ReplicationTask:
            return None  # type: ignore[return-value]

    class Mistakes(Twice):
        def create(self, event: ReplicationEvent) -> ReplicationTask:
            return ReplicationTask((event.event_id + 1,), event.kind, "", (), ())

    with pytest.raises(InvalidArgumentsError, match=r"Forgets returned NoneType for event 7 INSERT of d\.t"):
        create_task(Forgets(SETTINGS), event(K.INSERT))
    with pytest.raises(InvalidArgumentsError, match=r"its event_ids must be \(7,\)"):
        create_task(Mistakes(SETTINGS), event(K.INSERT))


def test_the_task_of_a_collapsed_event_stands_for_all_of_them() -> None:
    item = CollapsedEvent(event(K.INSERT, 9), (3, 5, 9))
    (made,) = create_tasks(EximReplicationTaskFactory(SETTINGS), [item])
    assert (made.first_event_id, made.last_event_id, made.event_ids) == (3, 9, (3, 5, 9))
    assert made.sql[0].endswith("REPLICATION('9')")
