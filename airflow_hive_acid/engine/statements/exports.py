"""Queries whose rows become files outside of the warehouse, all of them at once.

The files are written beside the destination and get its name when all are there; so a reader sees the old files, the
new ones, or on an object store, which cannot rename, a directory without ``_SUCCESS``. That file holds who made the
export: it is what a retry recognises its own work by (R14), and what tells an export, which may be replaced, from
somebody's data, which may not.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.queries.query import run_query
from airflow_hive_acid.engine.statements.plans import plan_of
from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, UnsafePathError
from airflow_hive_acid.filesystem.syncing import sync
from airflow_hive_acid.format import paths
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.plans import ExportTemplate, SelectTemplate
from airflow_hive_acid.sql.model.statements import Select
from airflow_hive_acid.sql.planning.named_tables import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.transactions.claims import Once
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import InsertDirectory

SUCCESS = "_SUCCESS"
_MAKER = "airflow-hive-acid"
_LARGEST_MARK = 1 << 20
_REPLACED = "_replaced"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an export goes.

    :param uri: path or URI of a directory outside of the warehouse.
    :param format: Spark's name of the format; ``options`` are its own.
    :param partition_by: columns that become directories.
    :param overwrite: replace what an earlier export left there.
    :param replace_anything: replace whatever is there, too.
    """

    uri: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    overwrite: bool = False
    replace_anything: bool = False


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export has left.

    :param files: data files; ``bytes`` is their size.
    :param seconds: wall time, of the try that did it.
    """

    uri: str
    rows: int
    files: int
    bytes: int
    txn_id: int | None
    seconds: float

    def to_document(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "uri": self.uri,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "txn_id": self.txn_id,
            "seconds": self.seconds,
        }


def run_export(
    context: Context,
    sql: str,
    destination: Destination,
    once: Once | None = None,
    default_database: str = "default",
    patience: Patience | None = None,
) -> Exported:
    """Export the rows of a query.

    :param once: what several tries have in common; one that finds the work done returns its result.
    :param default_database: of names without a database.
    :param patience: how long to wait for locks here; by default as long as the settings say.
    :raises InvalidArgumentsError: when the text is anything but one query.
    :raises UnsafePathError: for a destination inside of the warehouse or a table, or around one.
    :raises AlreadyExistsError: when there is something that is not to be replaced; nothing was written.
    """
    started = time.monotonic()
    statements = parse_script(sql, default_database)
    if len(statements) != 1 or not isinstance(statements[0], Select):
        raise InvalidArgumentsError(f"an export takes one SELECT, not {sql.strip()[:80]!r}")
    plan = plan_of(context, statements[0])
    place = _Place(context, destination, _digests(once, identity(statements[0]), destination))
    return _exported(context, plan, place, destination, once, started, patience)


def insert_directory(
    context: Context, statement: InsertDirectory, once: Once | None, number: int, patience: Patience | None = None
) -> StatementResult:
    """Run INSERT OVERWRITE DIRECTORY.

    What an export has left there is replaced, and nothing else is: a Hive would remove whatever lies there.

    :param once: what several tries of the script have in common.
    :param number: of the statement in its script.
    :param patience: how long to wait for locks here; by default as long as the settings say.
    :raises UnsafePathError: for a directory inside of the warehouse or a table, or around one.
    :raises AlreadyExistsError: when something lies there that no export has left; nothing was written.
    """
    started = time.monotonic()
    select = Select(statement.query, **statement.origin)
    plan = plan_of(context, select)
    destination = Destination(statement.uri, statement.format, statement.options, overwrite=True)
    digests = _digests(once, f"{number} {identity(select)}", destination)
    place = _Place(context, destination, digests)
    catalog = context.client.catalog
    owner = catalog.owner_of_location(statement.uri)
    if owner is not None:
        raise UnsafePathError(f"{statement.uri} and files of {owner} lie within each other; choose another directory")
    place.check_outside([root for name in catalog.list_databases() for root in catalog.roots(name)])
    exported = _exported(context, plan, place, destination, once, started, patience)
    return StatementResult(
        statement.text, statement.kind_text, inserted=exported.rows, txn_id=exported.txn_id,
        directories=(exported.uri,),
    )  # fmt: skip


def _exported(
    context: Context,
    plan: Plan,
    place: _Place,
    destination: Destination,
    once: Once | None,
    started: float,
    patience: Patience | None,
) -> Exported:
    if not isinstance(plan.template, SelectTemplate):
        raise AssertionError("a select without its template")
    place.check_outside([context.table(read.table).location for read in plan.reads])
    done = place.done_before(skip=once is not None and once.on_rerun.value == "skip")
    if once is not None:
        place.sweep(replaced=done is not None)
    if done is not None:
        return done
    template = ExportTemplate(
        plan.template.query, place.written, destination.format, dict(destination.options), destination.partition_by
    )
    context.filesystem.make_directory(place.parent)
    try:
        result = run_query(context, replace(plan, template=template), patience=patience)
        if result.rows is None:
            raise AssertionError("an export without an answer")
        exported = place.publish(int(result.rows.rows[0][0]), result.txn_id, started)
        if once is not None:
            place.sweep(replaced=True)
        return exported
    finally:
        context.filesystem.delete(place.written, inside=place.parent)


class _Place:
    """A destination, and where its files are until they are complete.

    :param digests: of what all tries, and of what the tries up to the next deliberate re-run have in common.
    """

    def __init__(self, context: Context, destination: Destination, digests: tuple[str, str]) -> None:
        self._context = context
        self._destination = destination
        self._digests = digests
        self.uri = destination.uri.rstrip("/")
        self.parent, _, name = self.uri.rpartition("/")
        if len(paths.parse_location(self.uri).segments) < 2:
            raise UnsafePathError(f"{destination.uri!r} is no directory below another one; nothing was written")
        # By its beginning a try knows what earlier ones of its run have left.
        self._beginning = f"_{name}_{digests[0][:16]}_"
        self._own = f"{self._beginning}{uuid.uuid4()}"
        self.written = f"{self.parent}/{self._own}"
        self._replaced = f"{self.written}{_REPLACED}"

    def check_outside(self, locations: list[str]) -> None:
        """Refuse a destination that has to do with tables."""
        warehouse = self._context.warehouse
        for table in [*([warehouse] if warehouse else []), *locations]:
            if paths.relative_to(table, self.uri) is not None or paths.relative_to(self.uri, table) is not None:
                raise UnsafePathError(
                    f"{self.uri} and {table}, which holds tables, lie within each other; choose another"
                )

    def done_before(self, *, skip: bool) -> Exported | None:
        """What an earlier try has left.

        :raises AlreadyExistsError: when there is something else that is not to be replaced.
        """
        if not self._context.filesystem.exists(self.uri):
            return None
        mark = self._mark()
        if mark is not None and mark.get("run") == self._digests[0] and (skip or mark.get("life") == self._digests[1]):
            return Exported(**{name: mark["result"][name] for name in Exported.__slots__})
        self._require_replaceable(mark)
        return None

    def sweep(self, *, replaced: bool) -> None:
        """Remove what earlier tries of this run have left beside the destination; one that still sleeps fails then.

        :param replaced: also what they had moved out of the way; only where there is something in its place.
        """
        try:
            entries = self._context.filesystem.list_files(self.parent)
        except FileNotFoundError:
            return
        for entry in entries:
            left = entry.is_dir and entry.name.startswith(self._beginning) and not entry.name.startswith(self._own)
            if left and (replaced or not entry.name.endswith(_REPLACED)):
                self._context.filesystem.delete(f"{self.parent}/{entry.name}", inside=self.parent)

    def publish(self, rows: int, txn_id: int | None, started: float) -> Exported:
        """Give the files their name."""
        filesystem = self._context.filesystem
        files = [f for f in filesystem.list_files(self.written, recursive=True) if _is_data(f.relative, f.is_dir)]
        seconds = round(time.monotonic() - started, 3)
        exported = Exported(self.uri, rows, len(files), sum(f.size for f in files), txn_id, seconds)
        mark = {"made_by": _MAKER, "run": self._digests[0], "life": self._digests[1], "result": exported.to_document()}
        renames = filesystem.can_fence(self.uri)
        if renames:
            filesystem.write_text(f"{self.written}/{SUCCESS}", json.dumps(mark))
            sync(self._context.client.settings, [self.written], self.parent)
        replaced = filesystem.exists(self.uri)
        if replaced:
            # Looked at again: it may have come while the query ran, from a later try, too.
            found = self._mark()
            if found is not None and (found.get("run"), found.get("life")) == self._digests:
                return Exported(**{name: found["result"][name] for name in Exported.__slots__})
            self._require_replaceable(found)
            filesystem.rename(self.uri, self._replaced)
        try:
            filesystem.rename_directory(self.written, self.uri)
        except BaseException as failure:
            if replaced and not filesystem.exists(self.uri):
                filesystem.rename(self._replaced, self.uri)
            if isinstance(failure, FileExistsError):
                raise AlreadyExistsError(f"{self.uri} was made by somebody else meanwhile; try again") from failure
            raise
        if not renames:
            filesystem.write_text(f"{self.uri}/{SUCCESS}", json.dumps(mark))
        if replaced:
            filesystem.delete(self._replaced, inside=self.parent)
        return exported

    def _require_replaceable(self, mark: Mapping[str, Any] | None) -> None:
        if self._destination.replace_anything:
            return
        if not self._destination.overwrite:
            raise AlreadyExistsError(f"{self.uri} exists already; choose another place, or mode='overwrite'")
        if mark is None:
            raise AlreadyExistsError(
                f"{self.uri} holds something that no export has left there; choose another place, empty it, or "
                "say that anything may be replaced (replace_anything=True of the export operator)"
            )

    def _mark(self) -> dict[str, Any] | None:
        """What ``_SUCCESS`` says, None if it is missing or somebody else's."""
        uri = f"{self.uri}/{SUCCESS}"
        try:
            mark = json.loads(self._context.filesystem.read_range(uri, 0, _LARGEST_MARK))
        except (OSError, ValueError, RecursionError):
            return None
        ours = isinstance(mark, dict) and mark.get("made_by") == _MAKER and isinstance(mark.get("result"), dict)
        return mark if ours and set(Exported.__slots__) <= set(mark["result"]) else None


def _is_data(relative: str, is_directory: bool) -> bool:
    return not is_directory and not relative.rsplit("/", 1)[-1].startswith(("_", "."))


def _digests(once: Once | None, query: str, destination: Destination) -> tuple[str, str]:
    """Different for every run, query and destination; what the options say may be secret, and does not go in."""
    scope = [str(uuid.uuid4())] if once is None else list(once.scope)
    what = json.dumps([scope, query, destination.uri, destination.format, sorted(destination.options)])
    life = "" if once is None else once.life
    return hashlib.sha256(what.encode()).hexdigest(), life
