"""What an import does to the catalog: decided as values, from a dump and what there is at the destination.

State ids decide per object (``state_ids``): what is not newer stays as it is. A dump with data makes an object what it
was at the source: parameters, columns, files. One of metadata changes objects that exist, never where their files are,
and takes from them what would be said of other files (statistics). Source: HiveReplicationDevelopment, and Hive's
ImportSemanticAnalyzer for what lies where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, ReadOnlyReplicaError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import DirectoryKind, parse_directory
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.format.table_kinds import TableKind, is_transactional, table_kind
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.catalog import (
    EXTERNAL_TABLE,
    MANAGED_TABLE,
    PartitionWrite,
    TableWrite,
    WholePartition,
    check_location,
    without_column_statistics,
    without_skew,
)
from airflow_hive_acid.metastore.replica import TARGET_FOR, policies_of
from airflow_hive_acid.replication.dumps.dump import DATA, Dump, Scope
from airflow_hive_acid.replication.dumps.parameters import (
    PURGE,
    TRANSLATED,
    inexact,
    lasting,
    of_metadata,
    of_partition,
    with_data,
)
from airflow_hive_acid.replication.dumps.state_ids import STATE_ID, ObjectState, may_drop, may_import

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from airflow_hive_acid.metastore.catalog import Database, Storage, Table, WholePartition
    from airflow_hive_acid.metastore.names import TableName

VIEW = "VIRTUAL_VIEW"


@dataclass(frozen=True, slots=True)
class Asked:
    """What IMPORT says besides the dump.

    :param table: name at the destination; None for the source's.
    :param partitions: only these of the dump; None for all.
    :param external: IMPORT EXTERNAL.
    :param location: of a new table (LOCATION).
    :param external_root: directory below which external tables of replication lie, each with the path that it has at
        the source; None for the default of their database.
    :param dump_uri: where the dump lies, for an external table that takes it as its own.
    :param anew: whatever state is there: it is of other events than the dump's.
    """

    table: TableName | None = None
    partitions: tuple[str, ...] | None = None
    external: bool = False
    location: str | None = None
    external_root: str | None = None
    dump_uri: str | None = None
    anew: bool = False


def target_of(dump: Dump, asked: Asked) -> TableName | None:
    """The table that a dump becomes; None for a dump of nothing without a name."""
    return asked.table or dump.name


@dataclass(frozen=True, slots=True)
class Existing:
    """What there is at the destination.

    :param table: None when there is none.
    :param partitions: those that the dump may be about; all of them when it is of the whole table.
    :param write_ids: of an ACID table, what of it is seen now.
    """

    table: Table | None = None
    partitions: Mapping[str, WholePartition] | None = None
    write_ids: ValidWriteIdList | None = None


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What is to be done.

    :param reason: of the table: why it is (not) written.
    :param table: how the table is written, None when it is not.
    :param partitions: how partitions are written.
    :param location: of the table, where staging goes.
    :param places: directory by partition (empty name: the table) whose files are replaced by those of the dump.
    :param dropped: partitions that the source has no more.
    :param unchanged: partitions that are as new already, with the reason.
    :param in_place: the files stay where the dump has them.
    :param write_ids: of an ACID table that is there already, what of it is seen now.
    """

    name: TableName
    reason: str
    location: str
    table: TableWrite | None = None
    partitions: tuple[PartitionWrite, ...] = ()
    places: tuple[tuple[str, str], ...] = ()
    dropped: tuple[WholePartition, ...] = ()
    unchanged: tuple[tuple[str, str], ...] = ()
    in_place: bool = False
    write_ids: ValidWriteIdList | None = None

    @property
    def is_noop(self) -> bool:
        """Whether nothing is to be done."""
        return self.table is None and not self.partitions and not self.dropped


def plan_import(dump: Dump, asked: Asked, existing: Existing, database: Database, now: int) -> ImportPlan:
    """Decide what an import does.

    :param database: of the destination.
    :param now: seconds since 1970, by the database's clock.
    :raises InvalidArgumentsError: when the table at the destination is of another kind, or the request is none.
    :raises AlreadyExistsError: outside of replication, when what would be imported is there already.
    """
    source = dump.table
    if source is None:
        raise AssertionError("a dump of nothing is not planned")
    name = asked.table or dump.name
    if name is None:
        raise AssertionError("a table without a name")
    _check_writable(dump, database, name)
    _check_request(dump, asked, source, name, existing)
    if existing.table is not None:
        _check_kind(existing.table, source, asked)
    chosen = _chosen(dump, asked, name)
    in_place = (
        dump.scope is Scope.NONE and asked.external and asked.location is None and existing.table is None
        and asked.dump_uri is not None
        and not is_transactional(source.properties)
    )  # fmt: skip
    if in_place:
        location = check_location(f"{asked.dump_uri}/" + ("" if source.partition_columns else DATA))
    else:
        location = _location(asked, existing.table, database, source, name)
    plan = ImportPlan(name, "", location, in_place=in_place, write_ids=existing.write_ids)
    if dump.scope is Scope.METADATA:
        return _plan_metadata(plan, dump, existing, chosen, now)
    if dump.scope is Scope.NONE:
        return _plan_plain(plan, dump, asked, existing, chosen, now)
    return _plan_replication(plan, dump, asked, existing, chosen, now)


def outline(plan: ImportPlan) -> tuple[object, ...]:
    """What must not have changed between the plan by which files were copied and the one that is committed."""
    before = None if plan.table is None or plan.table.before is None else plan.table.before.id
    parts = tuple((w.after.name, None if w.before is None else w.before.id) for w in plan.partitions)
    return plan.table is None, before, parts, plan.places, plan.location, tuple(s.id for s in plan.dropped)


# --- the three kinds ----------------------------------------------------------------------------------------------


def _plan_metadata(
    plan: ImportPlan, dump: Dump, existing: Existing, chosen: tuple[WholePartition, ...], now: int
) -> ImportPlan:
    state = _state(dump)
    held = _held(existing.table, str(plan.name))
    before = existing.table
    if dump.whole_table:
        verdict = may_import(held, state, metadata_only=True)
        if not verdict.accepted or before is None:
            return replace(plan, reason=verdict.reason)
        after = replace(
            _table_after(dump, plan, before, now),
            type=before.type, write_id=before.write_id,
            properties=of_metadata(before.properties, _source(dump).properties, held, state, now),
        )  # fmt: skip
        return replace(plan, reason=verdict.reason, table=TableWrite(after, before, dump.shared_columns))
    if before is None:
        return replace(plan, reason="there is no such table; one that exists at the source comes with a later event")
    writes, unchanged = [], []
    for part in chosen:
        stored = (existing.partitions or {}).get(part.name)
        held = _held(stored, part.name)
        verdict = may_import(held, state, metadata_only=True)
        if stored is None or not verdict.accepted:
            unchanged.append((part.name, verdict.reason))
            continue
        parameters = of_metadata(stored.properties, part.properties, held, state, now)
        place = stored.storage.location
        after_part = _partition_after(part, plan.name, place, stored.created, parameters)
        writes.append(PartitionWrite(replace(after_part, write_id=stored.write_id), stored))
    return replace(plan, reason="metadata of partitions", partitions=tuple(writes), unchanged=tuple(unchanged))


def _plan_replication(
    plan: ImportPlan, dump: Dump, asked: Asked, existing: Existing, chosen: tuple[WholePartition, ...], now: int
) -> ImportPlan:
    state = _state(dump)
    source, before = _source(dump), existing.table
    verdict = may_import(_held(before, str(plan.name), anew=asked.anew), state)
    if before is not None and is_transactional(before.properties):
        if not verdict.accepted:
            return replace(plan, reason=verdict.reason)
        raise InvalidArgumentsError(
            f"{plan.name} is an ACID table and exists already; its changes are brought by the synchronisation of its "
            "policy, which follows write ids. To begin anew drop it first"
        )
    table = None
    if before is None or (dump.whole_table and verdict.accepted):
        table = TableWrite(_after_data(dump, plan, before, asked, now), before, dump.shared_columns)
    places = []
    writes: list[PartitionWrite] = []
    unchanged = []
    if not source.partition_columns:
        if table is not None and source.storage.location:
            places.append(("", plan.location))
        return replace(plan, reason=verdict.reason, table=table, places=tuple(places))
    known = existing.partitions or {}
    for part in chosen:
        stored = known.get(part.name)
        held = _held(stored, part.name, anew=asked.anew)
        accepted = may_import(held, state)
        if not accepted.accepted:
            unchanged.append((part.name, accepted.reason))
            continue
        write = _partition_write(part, plan, stored, held, state, now)
        writes.append(write)
        places.append((part.name, str(write.after.storage.location)))
    dropped: list[WholePartition] = []
    if dump.whole_table and table is not None and before is not None and asked.partitions is None:
        there = {part.name for part in dump.partitions}
        dropped = [
            stored for part, stored in sorted(known.items())
            if part not in there and (asked.anew or may_drop(_held(stored, part), state).accepted)
        ]  # fmt: skip
    reason = verdict.reason if dump.whole_table or before is None else "partitions"
    return replace(
        plan, reason=reason, table=table, partitions=tuple(writes), places=tuple(places), dropped=tuple(dropped),
        unchanged=tuple(unchanged),
    )  # fmt: skip


def _plan_plain(
    plan: ImportPlan, dump: Dump, asked: Asked, existing: Existing, chosen: tuple[WholePartition, ...], now: int
) -> ImportPlan:
    """IMPORT outside of replication: nothing that is there is changed."""
    source, before = _source(dump), existing.table
    if before is not None and not source.partition_columns:
        raise AlreadyExistsError(
            f"table {plan.name} exists already, at {before.storage.location}; import under another name, or drop it"
        )
    taken = sorted(part.name for part in chosen if part.name in (existing.partitions or {}))
    if taken:
        raise AlreadyExistsError(f"{plan.name} has a partition {taken[0]} already; drop it, or import the others only")
    if existing.write_ids is not None:
        _check_write_ids(dump, plan.name, {part.name for part in chosen}, existing.write_ids)
    table = None if before is not None else TableWrite(_after_data(dump, plan, None, asked, now))
    places: list[tuple[str, str]] = [] if source.partition_columns or not source.storage.location else [
        ("", plan.location)
    ]  # fmt: skip
    writes = []
    for part in chosen:
        write = _partition_write(part, plan, None, ObjectState(exists=False), None, now)
        writes.append(write)
        places.append((part.name, str(write.after.storage.location)))
    return replace(
        plan, reason="there is no such table yet" if before is None else "there are no such partitions yet",
        table=table, partitions=tuple(writes), places=() if plan.in_place else tuple(places),
    )  # fmt: skip


# --- objects ------------------------------------------------------------------------------------------------------


def _after_data(dump: Dump, plan: ImportPlan, before: Table | None, asked: Asked, now: int) -> Table:
    """The table of an import with data."""
    held = _held(before, str(plan.name), anew=asked.anew)
    if before is not None and held.metadata_id is not None and held.metadata_id >= _state(dump):
        # Its metadata is newer already, and never goes back.
        parameters = {**before.properties, STATE_ID: str(dump.state_id)}
        return replace(before, properties=inexact(parameters))
    after = _table_after(dump, plan, before, now)
    parameters = with_data(after.properties, dump.state_id, now)
    if before is None and not dump.whole_table and dump.state_id is not None:
        # Its other partitions are not here: an import of the whole table, and a drop, are newer than that.
        parameters[STATE_ID] = "0"
    if before is not None:
        return replace(after, type=before.type, properties={**parameters, **lasting(before.properties)})
    if asked.external and not is_transactional(parameters):
        parameters = {k: v for k, v in parameters.items() if k not in (TRANSLATED, PURGE)} | {"EXTERNAL": "TRUE"}
        return replace(after, type=EXTERNAL_TABLE, properties=parameters)
    if after.type == MANAGED_TABLE and not is_transactional(parameters):
        # As Hive's metastore translates it: its files still go with it.
        parameters |= {"EXTERNAL": "TRUE", TRANSLATED: "TRUE", PURGE: "TRUE"}
        return replace(after, type=EXTERNAL_TABLE, properties=parameters)
    return replace(after, properties=parameters)


def _table_after(dump: Dump, plan: ImportPlan, before: Table | None, now: int) -> Table:
    """The source's table under the name and in the place it has here."""
    source = _source(dump)
    if before is not None:
        location = before.storage.location
    else:
        location = plan.location if source.storage.location else None
    return replace(
        source, db=plan.name.database, name=plan.name.name, id=0 if before is None else before.id,
        created=now if before is None else before.created, last_access=0 if before is None else before.last_access,
        storage=_moved(source.storage, location),
    )  # fmt: skip


def _partition_write(
    part: WholePartition,
    plan: ImportPlan,
    stored: WholePartition | None,
    held: ObjectState,
    state: int | None,
    now: int,
) -> PartitionWrite:
    place = None if stored is None else stored.storage.location
    place = place or paths.join(plan.location, part.name)
    if stored is not None and state is not None and held.metadata_id is not None and held.metadata_id >= state:
        parameters = inexact({**stored.properties, STATE_ID: str(state)})
        return PartitionWrite(replace(stored, properties=parameters), stored)
    parameters = of_partition(part.properties, now) | ({} if state is None else {STATE_ID: str(state)})
    created = now if stored is None else stored.created
    return PartitionWrite(
        _partition_after(part, plan.name, place, created, without_column_statistics(parameters)), stored
    )


def _partition_after(
    part: WholePartition, name: TableName, place: str | None, created: int, parameters: dict[str, str]
) -> WholePartition:
    return replace(
        part, db=name.database, table=name.name, created=created, last_access=0, properties=parameters,
        storage=_moved(part.storage, place),
    )  # fmt: skip


def _moved(storage: Storage, location: str | None) -> Storage:
    return replace(without_skew(storage), location=location)


# --- checks -------------------------------------------------------------------------------------------------------


def _check_writable(dump: Dump, database: Database, name: TableName) -> None:
    """What came by itself would be in the way of the policy that writes there."""
    policies = policies_of(database.properties.get(TARGET_FOR))
    if dump.scope is Scope.NONE and policies:
        raise ReadOnlyReplicaError(
            f"{name} cannot be imported: database {database.name} is written by the replication policy "
            f"{', '.join(policies)} and read-only for others; import into another database"
        )


def _check_request(dump: Dump, asked: Asked, source: Table, name: TableName, existing: Existing) -> None:
    if asked.external and is_transactional(source.properties):
        raise InvalidArgumentsError(f"{name} is an ACID table, which cannot be external; leave out EXTERNAL")
    if asked.location is not None and existing.table is not None:
        held = existing.table.storage.location
        if held is None or paths.relative_to(held, asked.location) != "":
            raise InvalidArgumentsError(
                f"{name} exists already, at {held}; its files cannot go to {asked.location}: leave LOCATION out"
            )
    if asked.location is not None and dump.scope is Scope.METADATA:
        raise InvalidArgumentsError("a dump of metadata has no files that could lie at a LOCATION")
    if asked.partitions is not None and not source.partition_columns:
        raise InvalidArgumentsError(f"the dump is of {source.db}.{source.name}, which is not partitioned")


def _check_kind(before: Table, source: Table, asked: Asked) -> None:
    name = f"{before.db}.{before.name}"
    ours, theirs = kind_of(before), kind_of(source)
    if ours != theirs:
        raise InvalidArgumentsError(
            f"{name} is {ours} here, the dump is of {theirs}: that is another table. Drop it here, or import under "
            "another name"
        )
    keys = [(c.name, c.type) for c in before.partition_columns]
    wanted = [(c.name, c.type) for c in source.partition_columns]
    if keys != wanted:
        raise InvalidArgumentsError(f"{name} is partitioned by {keys} here, by {wanted} in the dump: another table")


def _check_write_ids(dump: Dump, name: TableName, chosen: Collection[str], here: ValidWriteIdList) -> None:
    """Rows of a dump are seen by their write ids, which an ACID table that is there already has given to others.

    They mean the same where the dump came from: a partition can go back to its own table.
    """
    if dump.write_ids is None:
        return
    there = ValidWriteIdList.parse(dump.write_ids)
    for top in sorted({file.path.split("/")[0] for file in dump.files if file.partition in chosen}):
        found = parse_directory(top)
        if found is None:
            continue
        low = found.max_write_id if found.kind is DirectoryKind.BASE else found.min_write_id
        other = next((w for w in range(low, found.max_write_id + 1) if here.is_valid(w) != there.is_valid(w)), None)
        if other is not None:
            said = "is not committed" if there.is_valid(other) else "is committed"
            raise InvalidArgumentsError(
                f"{name} is an ACID table and exists already, and write id {other}, under which {top} of the dump was "
                f"written, {said} there: its rows would not be seen as they were. Import under another name, then "
                f"INSERT INTO {name} SELECT from that"
            )


def kind_of(table: Table) -> str:
    """What a table is, as far as imports do not mix it."""
    if table.type == VIEW:
        return "a view"
    return {
        TableKind.PLAIN: "a table without transactions",
        TableKind.INSERT_ONLY: "an insert-only ACID table",
        TableKind.FULL: "a full ACID table",
    }[table_kind(table.properties)]


def _chosen(dump: Dump, asked: Asked, name: TableName) -> tuple[WholePartition, ...]:
    if asked.partitions is None:
        return dump.partitions
    by_name = {part.name: part for part in dump.partitions}
    wanted = [_in_dump(dump, part, by_name) for part in asked.partitions]
    missing = [part for part in wanted if part not in by_name]
    if missing and dump.scope is Scope.NONE:
        raise InvalidArgumentsError(f"the dump of {name} has no partition {missing[0]}")
    return tuple(by_name[part] for part in dict.fromkeys(wanted) if part in by_name)


def _in_dump(dump: Dump, part: str, there: Collection[str]) -> str:
    """The name that a partition has in the dump; a CHAR value may have been given with other blanks."""
    values = dict(parse_partition_name(part))
    if part in there or dump.table is None or values.keys() != {c.name for c in dump.table.partition_columns}:
        return part
    return dump.table.spellings(values).choose(dump.table.qualified_name, there)


def _location(asked: Asked, before: Table | None, database: Database, source: Table, name: TableName) -> str:
    if before is not None:
        return before.storage.location or ""
    if asked.location is not None:
        return check_location(asked.location)
    external = source.type == EXTERNAL_TABLE and source.properties.get(TRANSLATED, "").lower() != "true"
    if external and asked.external_root is not None and source.storage.location:
        segments = paths.parse_location(source.storage.location).segments
        return paths.join(check_location(asked.external_root), *segments)
    return database.home_of(name.name, managed=is_transactional(source.properties))


def _held(found: Table | WholePartition | None, name: str, *, anew: bool = False) -> ObjectState:
    if anew:
        return ObjectState(found is not None)
    return ObjectState.of(None if found is None else found.properties, name)


def _state(dump: Dump) -> int:
    if dump.state_id is None:
        raise AssertionError("a dump for replication without a state id")
    return dump.state_id


def _source(dump: Dump) -> Table:
    if dump.table is None:
        raise AssertionError("a dump of nothing is not planned")
    return dump.table
