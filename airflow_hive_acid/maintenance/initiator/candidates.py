"""Looking at candidates: what the catalog, the queue and the directories say about them, many at a time.

Everything that the metastore knows is read for a whole step in a handful of statements; directories are listed by
several threads, and of a listing only its sizes are kept. What is wrong with one candidate does not stop the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem.absence import list_or_prove
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.filesystem.threads import in_threads
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.names import DirectoryKind, parse_directory
from airflow_hive_acid.format.partitions import readings
from airflow_hive_acid.format.write_ids import RangeValidity
from airflow_hive_acid.maintenance.decisions import Decision, Kind
from airflow_hive_acid.maintenance.initiator.benefit import BENEFIT, Known, bounds, weigh
from airflow_hive_acid.maintenance.initiator.rules import CandidateFacts, Rule, decide, skip_reason
from airflow_hive_acid.maintenance.warehouse.directories import DirectorySizes, entries
from airflow_hive_acid.maintenance.warehouse.places import require_written
from airflow_hive_acid.metastore.compaction import Resource, find_open_writers
from airflow_hive_acid.metastore.names import TableName
from airflow_hive_acid.metastore.txns import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Partition, Table
    from airflow_hive_acid.metastore.compaction import Candidate, Compaction, OpenWriter
    from airflow_hive_acid.metastore.txns import Snapshot

THREADS = 16
"""Directories listed at the same time; they wait for a name node or an object store, not for a processor."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A candidate and what was decided about it.

    :param candidate: of a partition that the catalog knows under that name.
    :param stored: what was written, as the txn tables spell it.
    :param table: None when the catalog does not know it.
    :param sizes: of its directory, if that was looked at.
    :param reads: what is known about its reads, if the policy asks for that.
    """

    stored: Resource
    candidate: Candidate
    decision: Decision
    table: Table | None = None
    database_properties: Mapping[str, str] = field(default_factory=dict)
    sizes: DirectorySizes | None = None
    reads: Known | None = None

    def table_or_fail(self) -> Table:
        """The table of a candidate that is to be compacted."""
        if self.table is None:
            raise AssertionError(f"{self.candidate.resource} was decided about without a table")
        return self.table


@dataclass(slots=True)
class _Known:
    """What the metastore says about the candidates of a step."""

    tables: Mapping[str, Table]
    databases: Mapping[str, Mapping[str, str]]
    partitions: Mapping[Resource, Partition]
    active: Mapping[Resource, Compaction]
    failed: set[Resource]


@dataclass(slots=True)
class _Place:
    """A candidate whose directory is worth a look."""

    candidate: Candidate
    table: Table
    location: str
    thresholds: InitiatorThresholds


class Looks:
    """Looks at candidates of one metastore.

    :param thresholds: in force where neither table nor database says otherwise.
    :param request: properties of a request by hand; its ``compactorthreshold.*`` count most.
    :param by_hand: somebody asks for it: what only keeps the Initiator away does not count.
    """

    def __init__(
        self,
        client: MetastoreClient,
        filesystem: Filesystem,
        thresholds: InitiatorThresholds,
        *,
        request: Mapping[str, str] | None = None,
        by_hand: bool = False,
    ) -> None:
        self._client = client
        self._filesystem = filesystem
        self._thresholds = thresholds
        self._request = request or {}
        self._by_hand = by_hand

    def at(self, candidates: Sequence[Candidate]) -> list[Looked]:
        """Decide about candidates, in their order; about one twice whose name can mean two partitions."""
        known = self._known(candidates)
        asked = [(c.resource, meant) for c in candidates for meant in _meant(c, known)]
        decided: dict[Resource, Decision] = {}
        worth: list[_Place] = []
        for candidate in {meant.resource: meant for _, meant in asked}.values():
            place = self._place(candidate, known)
            if isinstance(place, Decision):
                decided[candidate.resource] = place
            else:
                worth.append(place)
        snapshot, writers = self._snapshot({TableName(place.table.db, place.table.name) for place in worth})
        found = list(zip(worth, self._measure(worth, snapshot), strict=True))
        measured = {place.candidate.resource: sizes for place, sizes in found if isinstance(sizes, DirectorySizes)}
        weighed = {place.candidate.resource for place in worth if place.thresholds.policy == BENEFIT}
        reads = self._reads(weighed, measured)
        for place, sizes in found:
            decided[place.candidate.resource] = self._decide(place, sizes, writers, reads)
        looked = []
        for stored, candidate in asked:
            table = known.tables.get(str(candidate.resource.table_name))
            properties = known.databases.get(candidate.resource.database, {})
            sizes_of = measured.get(candidate.resource)
            reads_of = reads.get(candidate.resource)
            looked.append(Looked(stored, candidate, decided[candidate.resource], table, properties, sizes_of, reads_of))
        return looked

    def _known(self, candidates: Sequence[Candidate]) -> _Known:
        catalog, queue = self._client.catalog, self._client.compactions
        tables = self._client.cache.tables(sorted({str(c.resource.table_name) for c in candidates}))
        wanted: dict[str, list[str]] = {}
        for candidate in candidates:
            name, partition = str(candidate.resource.table_name), candidate.resource.partition
            if partition is not None and name in tables and tables[name].is_partitioned:
                wanted.setdefault(name, []).extend(readings(partition))
        partitions = {name: catalog.find_partitions(name, list(dict.fromkeys(names))) for name, names in wanted.items()}
        return _Known(
            tables=tables,
            databases=catalog.database_properties({table.db for table in tables.values()}),
            partitions={
                Resource(tables[table].db, tables[table].name, name): partition
                for table, found in partitions.items()
                for name, partition in found.items()
            },
            active=queue.active_of(_spelled(candidates)),
            failed=queue.failed_resources(),
        )

    def _place(self, candidate: Candidate, known: _Known) -> _Place | Decision:
        """Where to look for a candidate, or why it is left alone."""
        resource = candidate.resource
        table = known.tables.get(str(resource.table_name))
        database = known.databases.get(resource.database, {})
        partition = known.partitions.get(resource)
        try:
            own = self._thresholds
            if table is not None:
                own = own.for_table(self._client.settings, table.properties, database, self._request)
            skip = skip_reason(
                CandidateFacts(
                    candidate=candidate,
                    table=table,
                    database_properties=database,
                    partition_exists=resource.partition is None or partition is not None,
                    active=known.active.get(resource),
                    failing=resource in known.failed
                    and self._client.compactions.is_failing(resource, own.failed_compactions, own.failed_retry_ms),
                    by_hand=self._by_hand,
                )
            )
        except HiveAcidError as error:
            return failure(resource, error)
        if skip is not None or table is None:
            if skip is None:
                raise AssertionError(f"{resource}: a table that is not known must be left alone")
            return Decision(
                resource, skip.kind, skip.reason, {}, skip.request_id, skip.rule, skip.blocked_by, skip.again
            )
        return _Place(candidate, table, table.location if partition is None else partition.location, own)

    def _snapshot(self, tables: set[TableName]) -> tuple[Snapshot, dict[TableName, tuple[OpenWriter, ...]]]:
        """The lists of these tables, and who writes to those of which a part is hidden."""

        def read(connection: Connection) -> tuple[Snapshot, dict[TableName, tuple[OpenWriter, ...]]]:
            snapshot = take_snapshot(connection, sorted(tables), 0, self._client.gap_timeout_ms)
            hiding = [table for table in tables if snapshot.write_ids[table].min_open is not None]
            return snapshot, find_open_writers(connection, hiding)

        return self._client.database.read(read)

    def _reads(self, wanted: set[Resource], measured: Mapping[Resource, DirectorySizes]) -> dict[Resource, Known]:
        """What is known about reads where the policy asks for it; nothing where the metastore counts none."""
        wanted &= measured.keys()
        if not wanted or not self._client.reads.is_there:
            return {}
        now, counts = self._client.reads.find(wanted)
        return {resource: Known.of(counts.get(resource), measured[resource], now) for resource in wanted}

    def _measure(
        self, places: Sequence[_Place], snapshot: Snapshot
    ) -> Iterable[DirectorySizes | HiveAcidError | OSError]:
        def one(place: _Place) -> DirectorySizes | HiveAcidError | OSError:
            try:
                return self._sizes(place, snapshot)
            except (HiveAcidError, OSError) as error:
                return error

        return in_threads(one, places, "initiator", THREADS)

    def _sizes(self, place: _Place, snapshot: Snapshot) -> DirectorySizes:
        # Not there: a partition that was added and never written; or nothing is mounted here, and it is not known.
        proof = partial(require_written, self._client, self._filesystem, place.table, place.location)
        listing = list_or_prove(self._filesystem, [place.location], proof, descend=enter)[place.location] or []
        writes = snapshot.write_ids[TableName(place.table.db, place.table.name)]
        compactor = writes.for_compactor()
        sizes = DirectorySizes.of(acid_state(entries(listing), compactor, snapshot.valid_txns))
        return sizes.hiding(_hidden(listing, writes, compactor.high_watermark))

    def _decide(
        self,
        place: _Place,
        sizes: DirectorySizes | HiveAcidError | OSError,
        writers: Mapping[TableName, tuple[OpenWriter, ...]],
        reads: Mapping[Resource, Known],
    ) -> Decision:
        if not isinstance(sizes, DirectorySizes):
            return failure(place.candidate.resource, sizes)
        table = TableName(place.table.db, place.table.name)
        thresholds, writing = place.thresholds, writers.get(table, ())
        if thresholds.policy != BENEFIT:
            return decide(place.candidate, sizes, thresholds, writers=writing)
        known = reads.get(place.candidate.resource)
        decision = decide(place.candidate, sizes, bounds(thresholds, known), writers=writing)
        return weigh(decision, sizes, known, thresholds)


def _spelled(candidates: Sequence[Candidate]) -> list[Resource]:
    """What candidates may mean: their partitions in each spelling."""
    found = dict.fromkeys(candidate.resource for candidate in candidates)
    for resource in list(found):
        names = () if resource.partition is None else readings(resource.partition)
        found |= dict.fromkeys(replace(resource, partition=name) for name in names)
    return list(found)


def _meant(candidate: Candidate, known: _Known) -> list[Candidate]:
    """A candidate under the catalog's name; a Hive spells a partition that needs escapes in two ways."""
    stored = candidate.resource
    names = () if stored.partition is None else readings(stored.partition)
    meant = [replace(candidate, resource=replace(stored, partition=name)) for name in names]
    return [one for one in meant if one.resource in known.partitions] or [candidate]


def _hidden(listing: Sequence[FileInfo], writes: ValidWriteIdList, mark: int) -> int:
    """Deltas that readers see and a compactor must not touch yet."""
    if mark >= writes.high_watermark:
        return 0
    found = (parse_directory(info.name) for info in listing if info.is_dir and "/" not in info.relative)
    return sum(
        writes.range_validity(d.min_write_id, d.max_write_id) is not RangeValidity.NONE
        for d in found
        if d is not None and d.kind is not DirectoryKind.BASE and d.max_write_id > mark
    )


def failure(resource: Resource, error: Exception) -> Decision:
    """What is decided about a candidate that cannot be judged, or not be asked for."""
    reason = f"{type(error).__name__}: {error}"
    return Decision(resource, Kind.ERROR, reason, {}, None, Rule.FAILURE, (type(error).__name__,), again=True)
