"""EXPLAIN and EXPLAIN LOCKS: what a statement would do, found out without a txn, a lock or a job.

What is printed is true of this moment: files are those that a snapshot taken now would read, or those of the pin that
the query names, and nothing keeps the Cleaner from removing them meanwhile (R16 holds for reading, and here nothing is
read).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.requests import Definition, NewTable, ReplacedTable, Statements
from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.engine.tables.viewpoints import as_of
from airflow_hive_acid.errors import SnapshotTooOldError
from airflow_hive_acid.filesystem.listing import enter, list_many
from airflow_hive_acid.filesystem.s3_uploads import SETTING
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import Column, PartitionRef
from airflow_hive_acid.format.table_kinds import is_transactional
from airflow_hive_acid.maintenance.warehouse.directories import entries
from airflow_hive_acid.maintenance.warehouse.uploads import naming
from airflow_hive_acid.sql.model import alterations as alter
from airflow_hive_acid.sql.model.plans import (
    DeleteTemplate,
    InsertTemplate,
    MergeTemplate,
    SelectTemplate,
    UpdateTemplate,
)
from airflow_hive_acid.sql.model.statements import (
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    Delete,
    DropDatabase,
    DropTable,
    Insert,
    Merge,
    MultiInsert,
    Select,
    Truncate,
    Update,
)
from airflow_hive_acid.sql.model.statistics import Analyze

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.locking.requests import Explained
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.model.plans import Plan, StepTemplate
    from airflow_hive_acid.sql.model.pruning import PartitionFilter
    from airflow_hive_acid.sql.model.statements import PlainStatement

MOST_LISTED = 100
"""Directories of so many partitions of a table are looked at; EXPLAIN should answer at once."""
_SHOWN = 10
_SPLIT_BYTES = 128 * 1024 * 1024
"""Spark's default for ``spark.sql.files.maxPartitionBytes``."""
_DDL = (
    CreateDatabase, AlterDatabase, DropDatabase, CreateTable, DropTable, Truncate, Analyze, alter.Alteration,
)  # fmt: skip
_DATA = (Insert, MultiInsert, Update, Delete, Merge, Select)


def explain_locks(context: Context, statement: PlainStatement, plans: Sequence[Plan]) -> Rows:
    """One line per lock as Hive prints it, and beside it the rule that gave it.

    :param plans: of a statement on data, or of the query of CREATE TABLE … AS.
    """
    locks = _locks(context, statement, plans)
    rows: list[list[object]] = [["LOCK INFORMATION:", None]]
    rows += [[str(lock), lock.rule] for lock in locks]
    if not locks:
        rows.append(["no locks", _why_none(context, statement)])
    return Rows((Column("Explain", "string"), Column("Rule", "string")), rows)


def explain(context: Context, statement: PlainStatement, plans: Sequence[Plan]) -> Rows:
    """The plan, partitions, files, locks and the job, as lines of text."""
    lines = ["PLAN:", *_plan_lines(statement, plans)]
    looked = [_look(context, *place) for place in _places(context, plans)]
    if looked:
        lines += ["PARTITIONS AND FILES:", *(line for found in looked for line in found.lines())]
    locks = _locks(context, statement, plans)
    width = max((len(str(lock)) for lock in locks), default=0)
    lines += ["LOCKS:", *(f"  {lock!s:<{width}}  ({lock.rule})" for lock in locks)]
    if not locks:
        lines.append(f"  none ({_why_none(context, statement)})")
    if plans:
        lines += ["JOB:", *_job_lines(plans, looked)]
    naming = list(_naming_lines(context, statement, plans))
    if naming:
        lines += ["NAMES OF FILES:", *naming]
    return Rows((Column("Explain", "string"),), [[line] for line in lines])


def _locks(context: Context, statement: PlainStatement, plans: Sequence[Plan]) -> Sequence[Explained]:
    if isinstance(statement, CreateTable) and statement.replace:
        there = context.client.catalog.find_tables([str(statement.table)]).get(str(statement.table))
        if there is not None:
            return context.locking.plan(
                ReplacedTable(statement.table, statement.text, plans, there.is_partitioned)
            ).explained
    if isinstance(statement, CreateTable) and plans:
        transactional = is_transactional(statement.properties, unsaid=True)
        return context.locking.plan(NewTable(statement.table, plans[0], transactional)).explained
    if isinstance(statement, _DATA) or plans:
        return context.locking.plan(Statements(plans)).explained
    if isinstance(statement, _DDL):
        return context.locking.plan(Definition(statement)).explained
    return ()


def _why_none(context: Context, statement: PlainStatement) -> str:
    if context.locking.off is not None:
        return context.locking.off
    if isinstance(statement, _DATA):
        return "no table is read or written, or the settings have it that such tables are not locked"
    return "such statements take no lock"


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a snapshot taken now finds of a table.

    :param partitions: how many were kept, and how many there are (0 for a table without).
    :param directories: names of those to read, below their partition.
    """

    table: str
    condition: str
    kept: int
    total: int
    listed: int
    directories: tuple[str, ...]
    files: int
    size: int
    problem: str | None = None

    def lines(self) -> Iterable[str]:
        yield f"  {self.table}"
        if self.total:
            pruned = f"{self.total - self.kept} pruned by {self.condition}" if self.kept < self.total else "none pruned"
            yield f"    partitions: {self.kept} of {self.total} ({pruned})"
        if self.problem is not None:
            yield f"    files: {self.problem}"
            return
        more = f", looking at the first {self.listed} partitions" if self.listed < self.kept else ""
        yield f"    files: {self.files} in {len(self.directories)} directories, {self.size:,} bytes{more}"
        yield from (f"      {name}" for name in self.directories[:_SHOWN])
        if len(self.directories) > _SHOWN:
            yield f"      … and {len(self.directories) - _SHOWN} more"


_When = tuple[str | None, int | str | None]
"""A pin and a moment of the past."""


def _places(context: Context, plans: Sequence[Plan]) -> list[tuple[Table, PartitionFilter, _When]]:
    """The tables that are looked at, the target of an UPDATE, DELETE or MERGE among them; each moment apart."""
    found: dict[tuple[str, _When], PartitionFilter] = {}
    for plan in plans:
        if plan.write is not None and plan.kind in ("update", "delete", "merge"):
            found[plan.write.table, (None, None)] = plan.write.partitions
        for read in plan.reads:
            when = (read.pin, read.as_of)
            known = found.get((read.table, when))
            found[read.table, when] = read.partitions if known is None else known.either(read.partitions)
    return [(context.table(table), keep, when) for (table, when), keep in found.items()]


def _look(context: Context, table: Table, keep: PartitionFilter, when: _When) -> _Looked:
    """List the directories of the partitions that are kept, and no others.

    :raises NoSuchPinError: when there is no such pin.
    """
    name, (pin, moment) = table.qualified_name, when
    pinned = None if pin is None else context.client.pins.look(pin, name)
    total, chosen = 0, [PartitionRef("", table.location)]
    if table.is_partitioned and pinned is not None:
        there = pinned.partitions or ()
        chosen, total = [ref for ref in there if keep.keeps(ref.values)], len(there)
    elif table.is_partitioned:
        chosen = KnownPartitions(context.client.catalog, table).matching(keep)
        total = context.client.catalog.count_partitions(name) if keep.alternatives else len(chosen)
    listed = chosen[:MOST_LISTED]
    shown = f"{name} as of {f'pin {pin!r}' if pin is not None else moment}" if when != (None, None) else name
    base = (shown, str(keep), len(chosen), total, len(listed))
    write_ids: ValidWriteIdList | None
    if pinned is not None:
        write_ids, txns = pinned.write_ids, pinned.txns
    else:
        write_ids = context.client.get_valid_write_ids(name)[name] if table.is_transactional else None
        txns = context.client.get_valid_txns()
        if moment is not None and write_ids is not None:
            write_ids = as_of(context.client, table, moment, write_ids)[0]
    directories: list[str] = []
    files = size = 0
    listings = list_many(context.filesystem, [ref.location for ref in listed], descend=enter)
    for ref in listed:
        listing = listings[ref.location]
        prefix = f"{ref.name}/" if ref.name else ""
        try:
            for directory, sizes in _readable(entries(listing or ()), write_ids, txns):
                directories.append(prefix + directory)
                files += len(sizes)
                size += sum(sizes)
        except SnapshotTooOldError as error:
            return _Looked(*base, (), 0, 0, str(error))
    return _Looked(*base, tuple(directories), files, size)


def _readable(
    listing: Iterable[tuple[str, int]], write_ids: ValidWriteIdList | None, txns: ValidTxnList
) -> Iterable[tuple[str, list[int]]]:
    """Directories that a snapshot reads, and the sizes of their data files."""
    found = [(path, size) for path, size in listing if not path.endswith("/")]
    if write_ids is None:
        plain = [size for path, size in found if not path.rsplit("/", 1)[-1].startswith(("_", "."))]
        return [("files in place", plain)] if plain else []
    state = acid_state([FileEntry(path, size) for path, size in found], write_ids, txns)
    chosen = [d for d in (state.base, *state.deltas) if d is not None]
    sizes = [
        (d.name, [f.size for f in d.files if not f.path.rsplit("/", 1)[-1].startswith(("_", "."))]) for d in chosen
    ]
    return ([("original files", [f.size for f in state.originals])] if state.originals else []) + sizes


def _plan_lines(statement: PlainStatement, plans: Sequence[Plan]) -> Iterable[str]:
    if isinstance(statement, CreateTable):
        yield f"  create table {statement.table}" + (", then fill it in a transaction of its own" if plans else "")
    elif not plans:
        yield f"  {_words(type(statement).__name__)}: the metastore alone, no job"
    for plan in plans:
        write = plan.write
        if write is not None:
            yield f"  {plan.kind} → {write.table} ({'transactional' if write.transactional else 'plain'})"
            if write.static_partition:
                yield f"    into {', '.join(f'{name}={value}' for name, value in write.static_partition)}"
            if write.partitioned and write.dynamic_partition:
                yield f"    partitions by the rows: {', '.join(write.dynamic_partition)}"
            if write.transactional:
                number = plan.statement_id_count
                yield f"    one write id, allocated after the locks; {number} statement id{'s' * (number > 1)}"
        else:
            yield f"  {plan.kind}"
        for read in plan.reads:
            what = "snapshot of" if read.transactional else "files of"
            yield f"    {read.view}: {what} {read.table}{' with ROW__ID' if read.pseudo_columns else ''}"
        for source in plan.sources:
            yield f"    {source.name}: {source.format} files of {source.options.get('path', '?')}"
        yield from (f"    {line}" for line in _texts(plan.template))


def _texts(template: StepTemplate) -> Iterable[str]:
    """What Spark is given, in one line each."""
    if isinstance(template, SelectTemplate | InsertTemplate):
        yield f"query: {_one_line(template.query)}"
    elif isinstance(template, MergeTemplate):
        yield f"source {template.source_alias}: {_one_line(template.source)}"
        yield f"on: {_one_line(template.on)}"
        for clause in template.clauses:
            when = "matched" if clause.matched else "not matched"
            condition = f" and {_one_line(clause.condition)}" if clause.condition else ""
            yield f"when {when}{condition}: {clause.action}"
    elif isinstance(template, UpdateTemplate | DeleteTemplate):
        yield f"where: {_one_line(template.where) if template.where else 'all rows'}"


def _job_lines(plans: Sequence[Plan], looked: Sequence[_Looked]) -> Iterable[str]:
    files, size = sum(found.files for found in looked), sum(found.size for found in looked)
    some = any(found.listed < found.kept for found in looked)
    tasks = max(files, -(-size // _SPLIT_BYTES)) if looked else 1
    yield (
        f"  {len(plans)} Spark job{'s' * (len(plans) > 1)}, one after the other" if len(plans) > 1 else "  1 Spark job"
    )
    least = "at least " if some else ""
    yield f"  reads {least}{files} files, {size:,} bytes, in about {least}{max(1, tasks)} tasks"
    for plan in plans:
        if plan.write is not None:
            yield f"  writes {_WRITTEN[plan.kind if plan.write.operation != 'overwrite' else 'overwrite']}"


def _naming_lines(context: Context, statement: PlainStatement, plans: Sequence[Plan]) -> Iterable[str]:
    """How files get their final names on an object store: a copy costs as much as the file (decision 74)."""
    jobs = [(plan.write.table, plan.kind) for plan in plans if plan.write is not None]
    if isinstance(statement, alter.Compact):
        jobs.append((str(statement.table), statement.type.lower()))
    tables = context.client.catalog.find_tables([name for name, _ in jobs]) if jobs else {}
    for name, kind in jobs:
        found = naming(tables[name], kind, context.settings.string(SETTING)) if name in tables else None
        if found is not None:
            way = "uploaded under their names" if found.uploads else "copied"
            yield f"  files of {name} are {way} ({found.reason})"


_WRITTEN = {
    "insert": "a delta for each partition that gets rows (or plain files)",
    "overwrite": "a base for each partition that is overwritten (or plain files)",
    "update": "a delete_delta and a delta for each partition with rows that match",
    "delete": "a delete_delta for each partition with rows that match",
    "merge": "a delete_delta and deltas for each partition with rows that change",
}


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 400 else line[:399] + "…"


def _words(name: str) -> str:
    return "".join(f" {c}" if c.isupper() else c.upper() for c in name).strip()
