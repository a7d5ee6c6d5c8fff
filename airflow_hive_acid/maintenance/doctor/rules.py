"""What ``hive-acid doctor`` finds wrong with a warehouse: pure rules, from values to findings, each with a safe repair.

A rule says nothing when nothing is wrong. None advises to delete on a guess (R17), or to forget a writer that may still
be alive (R4). The rule about tables of older Hives is the warning of Hive's own manual: what update, delete or merge
has changed since the last major compaction needs another one before the upgrade.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.format.damage import damage_of
from airflow_hive_acid.format.names import DirectoryKind, parse_bucket_file, parse_directory
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.format.row_counts import counted_files, differs, missing_files
from airflow_hive_acid.metastore.compaction import CompactionState
from airflow_hive_acid.metastore.database import TxnState, TxnType
from airflow_hive_acid.python_versions import StrEnum

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from airflow_hive_acid.format.acid_state import AcidState, FileEntry
    from airflow_hive_acid.format.row_counts import CountedRows
    from airflow_hive_acid.metastore.compaction import Compaction
    from airflow_hive_acid.metastore.locks import LockRow, TxnRow
    from airflow_hive_acid.metastore.txns import Job

#: A txn deletes what it has dropped right after its commit; that of a large table takes a while.
_FINISHING_MS = 60_000
_REAPER = "run the reaper (hive-acid maintenance reaper --once, or its DAG)"


class Check(StrEnum):
    """What was looked for."""

    GHOST_LOCK = "ghost lock"
    SILENT_LOCK = "lock without heartbeat"
    OTHER_MANAGER = "locks of another transaction manager"
    SILENT_TXN = "txn without heartbeat"
    DEAD_COMPACTION = "compaction whose txn ended"
    TIMEOUT = "time-outs differ"
    UNKNOWN_DIRECTORY = "directory no txn knows"
    EMPTY_DELETE_DELTA = "delete delta without rows"
    OLD_UPDATES = "update events of an older Hive"
    DAMAGED = "damaged table"
    MISSING = "warehouse or table not there"
    DAMAGED_FILE = "damaged file"
    ROWS = "rows differ from the catalog"
    LEFT = "left by an interrupted copy or drop"
    UNDELETED = "committed, and not deleted yet"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    :param place: the lock, txn, request, setting, or URI it is about.
    :param text: what is wrong, with the numbers.
    :param repair: what to do about it without losing anything.
    """

    check: Check
    place: str
    text: str
    repair: str


def judge_lock(lock: LockRow, open_txns: Collection[int], now_ms: int, timeout_ms: int) -> Finding | None:
    """A lock whose txn has ended, or a lock of no txn that nobody keeps alive.

    :param open_txns: ids of all open txns, from the same view of the database as the lock.
    :param now_ms: the database's clock; ``timeout_ms`` is ``hive.txn.timeout``.
    """
    where = ".".join(part for part in (lock.database, lock.table) if part)
    where += f"/{lock.partition}" if lock.partition else ""
    if lock.txn_id:
        if lock.txn_id in open_txns:
            return None
        return Finding(
            Check.GHOST_LOCK,
            f"lock {lock.id} on {where}",
            f"it belongs to txn {lock.txn_id}, which is not open; others wait for it for ever",
            f"make sure that no program works in txn {lock.txn_id} any more; then ABORT TRANSACTIONS {lock.txn_id}, "
            f"and if the txn is no longer listed, delete the rows of HIVE_LOCKS with HL_TXNID {lock.txn_id}",
        )
    silent = now_ms - lock.last_heartbeat
    if silent <= timeout_ms:
        return None
    return Finding(
        Check.SILENT_LOCK,
        f"lock {lock.id} on {where}",
        f"it has no txn, and {_silence(silent, timeout_ms)}",
        f"{_REAPER}: it removes such locks",
    )


def judge_legacy_locks(
    locks: Sequence[LockRow], open_txns: Collection[int], now_ms: int, timeout_ms: int, *, configured: bool
) -> list[Finding]:
    """S and X locks of the Hive Concurrency Model: those that nobody keeps alive, and those that nobody here sees.

    :param locks: in the order of their requests; of ZooKeeper without heartbeats, because they end with their sessions.
    :param configured: whether DummyTxnManager is the transaction manager here.
    """
    if locks and not configured:
        first = locks[0]
        return [
            Finding(
                Check.OTHER_MANAGER,
                first.describe(),
                f"somebody takes locks with DummyTxnManager ({len(locks)} of them, the first is {first.user}@"
                f"{first.host}'s), and hive.txn.manager is DbTxnManager here: neither sees the locks of the other",
                "give all sides the same hive.txn.manager",
            )
        ]
    found = []
    for lock in locks:
        silent = now_ms - lock.last_heartbeat
        if not lock.last_heartbeat or silent <= timeout_ms or lock.txn_id in open_txns:
            continue
        found.append(
            Finding(
                Check.SILENT_LOCK,
                f"legacy lock {lock.id} on {lock.describe()}",
                f"{_silence(silent, timeout_ms)}; it is {lock.agent_info or f'{lock.user}@{lock.host}'}'s",
                "nothing: whoever asks for a lock next removes it",
            )
        )
    return found


def is_overdue(job: Job, now_ms: int) -> bool:
    """Whether a committed txn should have deleted by now what it dropped or replaced; one just committed is at it."""
    return now_ms - job.updated > _FINISHING_MS


def judge_unfinished(job: Job, what: str, place: str, now_ms: int, *, seen: bool | None) -> Finding:
    """What a committed txn dropped or replaced and has not deleted.

    :param what: the table or database, as people say it.
    :param place: a directory in which it lies.
    :param seen: whether it was seen there; None when nobody looked, or no answer came.
    """
    age = f"up to {(now_ms - job.updated) / 1000:.0f} s"
    said = f"is not deleted after {age}" if seen else f"may not be deleted after {age} (nobody could look)"
    return Finding(
        Check.UNDELETED,
        place,
        f"txn {job.txn_id} on {what} has committed, and what it dropped or replaced {said}; nobody reads it any more",
        "hive-acid doctor --finish deletes it and says what keeps it from that, as every pass of the reaper does",
    )


def judge_cleaning(request: Compaction) -> Finding | None:
    """A request whose files the Cleaner has tried to delete in vain; nothing is wrong with those it waits for."""
    if request.state is not CompactionState.READY_FOR_CLEANING or not request.error:
        return None
    dropped = request.soft_deleted_location
    what = "what was dropped" if dropped else "what its compaction replaced"
    return Finding(
        Check.UNDELETED,
        dropped or f"compaction {request.id} of {request.resource}",
        f"the Cleaner could not delete {what} of {request.resource} (request {request.id}): {request.error}; nobody "
        "reads it any more",
        "make it possible, as the error says; the Cleaner tries again by itself, after a pause that it doubles up to "
        "some hours (hive-acid cleaning explain says when)",
    )


def _silence(silent_ms: int, timeout_ms: int) -> str:
    return f"its last heartbeat was {silent_ms / 1000:.0f} s ago (hive.txn.timeout {timeout_ms / 1000:g} s)"


def judge_txn(txn: TxnRow, now_ms: int, timeout_ms: int) -> Finding | None:
    """An open txn whose owner is gone; txns that replication opened live by other rules."""
    silent = now_ms - txn.last_heartbeat
    if txn.state is not TxnState.OPEN or txn.type is TxnType.REPL_CREATED or silent <= timeout_ms:
        return None
    who = txn.agent_info or f"{txn.user}@{txn.host}"
    return Finding(
        Check.SILENT_TXN,
        f"txn {txn.txn_id}",
        f"it is open, and {_silence(silent, timeout_ms)}; it is {who}'s",
        f"{_REAPER}: it fences the txn's jobs and then aborts it. If it runs already, see why it does not come to this",
    )


def judge_compaction(request: Compaction, open_txns: Collection[int]) -> Finding | None:
    """A request that a worker is said to be at, though the txn of its work has ended."""
    if request.state is not CompactionState.WORKING or not request.txn_id or request.txn_id in open_txns:
        return None
    return Finding(
        Check.DEAD_COMPACTION,
        f"compaction {request.id} of {request.resource}",
        f"worker {request.worker_id or 'unknown'} is at it, but its txn {request.txn_id} is not open any more",
        "look whether that worker lives; an Initiator (hive-acid maintenance initiator --once) queues the request "
        "again: of a Worker of this package when it has been silent for hive.txn.timeout, of a Hive's after "
        "hive.compactor.worker.timeout. Nothing is to be changed by hand",
    )


def judge_timeout(ours_ms: int, hive_ms: int | None, *, shared: bool) -> Finding | None:
    """Ours and Hive's ``hive.txn.timeout``: who waits less aborts the txns of who beats less often.

    :param hive_ms: from ``hive-site.xml``, None when that was not given.
    :param shared: a Hive may use the same metastore.
    """
    if hive_ms == ours_ms or (hive_ms is None and not shared):
        return None
    if hive_ms is None:
        return Finding(
            Check.TIMEOUT,
            "hive.txn.timeout",
            f"{ours_ms / 1000:g} s here; what a Hive on the same metastore has is not known",
            "give --hive-site with Hive's hive-site.xml; if no Hive uses this metastore, nothing is to be done",
        )
    return Finding(
        Check.TIMEOUT,
        "hive.txn.timeout",
        f"{ours_ms / 1000:g} s here, {hive_ms / 1000:g} s in hive-site.xml",
        "take Hive's value: leave out --set hive.txn.timeout, and the setting in airflow.cfg and the connection",
    )


def judge_directories(
    place: str, entries: Iterable[FileEntry], max_write_id: int, max_txn_id: int, empty: Collection[str] = ()
) -> list[Finding]:
    """Directories that nobody can have been allowed to write, and delete deltas that delete nothing.

    :param place: URI of the table or partition; ``entries`` are relative to it, listed before the ids were read.
    :param max_write_id: the largest write id the table has given; ``max_txn_id`` the largest txn id there is.
    :param empty: files whose footers count no events.
    """
    files: dict[str, list[FileEntry]] = {}
    for entry in entries:
        directory, _, rest = entry.path.partition("/")
        if parse_directory(directory) is not None:
            files.setdefault(directory, [])
            if rest:
                files[directory].append(entry)
    findings = []
    for name, held in sorted(files.items()):
        parsed = parse_directory(name)
        if parsed is None:
            continue
        if parsed.max_write_id > max_write_id or parsed.visibility_txn_id > max_txn_id:
            beyond = (
                f"write id {parsed.max_write_id} was never given, the largest is {max_write_id}"
                if parsed.max_write_id > max_write_id
                else f"txn {parsed.visibility_txn_id} was never opened, the largest is {max_txn_id}"
            )
            findings.append(
                Finding(
                    Check.UNKNOWN_DIRECTORY,
                    f"{place}/{name}",
                    f"{beyond}; its rows will appear when that id is given to somebody",
                    "find out who wrote it (a copy of files, a restored metastore); when nothing writes to the table, "
                    "move the directory out of it. Do not delete it before its rows are accounted for",
                )
            )
        elif parsed.kind is DirectoryKind.DELETE_DELTA and not _has_rows(held, empty):
            findings.append(
                Finding(
                    Check.EMPTY_DELETE_DELTA,
                    f"{place}/{name}",
                    "no bucket file in it holds a row: its txn deleted nothing, or what it deleted is still there",
                    "compare with a backup or replica of the directory; if the txn deleted nothing, a major compaction "
                    "(ALTER TABLE … COMPACT 'major') takes the directory away",
                )
            )
    return findings


def _has_rows(files: Sequence[FileEntry], empty: Collection[str]) -> bool:
    return any(entry.size and entry.path not in empty and is_bucket_file(entry) for entry in files)


def judge_damage(
    place: str, state: AcidState, tails: Callable[[Sequence[FileEntry]], Sequence[str | None]]
) -> list[Finding]:
    """Directories and files of a full ACID table that no writer leaves as they are; queries refuse them.

    :param tails: what the ends of these files show to be wrong with them.
    """
    findings = []
    for directory in (*state.inserts, *state.deletes):
        damage = damage_of(directory)
        if damage is not None:
            findings.append(_damaged(f"{place}/{damage.path}", damage.text))
    files = counted_files(state)
    for entry, text in zip(files, tails(files), strict=True):
        if text is not None:
            findings.append(_damaged(f"{place}/{entry.path}", text))
    return findings


def judge_published(place: str, state: AcidState, published: Iterable[tuple[str, Collection[str]]]) -> list[Finding]:
    """What was published there by txns that have committed, and is gone without anything that replaces it.

    :param published: names of directories and of the files in each, by the manifests that are still recorded.
    """
    gone = "was published by a txn that has committed, and is gone"
    return [_damaged(f"{place}/{missing.path}", gone) for missing in missing_files(state, published)]


def judge_rows(place: str, counted: CountedRows | None, live: int | None) -> Finding | None:
    """What is there, beside what the catalog has counted commit by commit: it knows of files that are gone.

    :param counted: the catalog's number; None where it has none.
    :param live: :func:`~airflow_hive_acid.format.row_counts.count_live`.
    """
    text = differs(counted, live)
    if text is None:
        return None
    return Finding(
        Check.ROWS,
        place,
        text,
        "compare the directories with a backup or a replica before the table is compacted; restore what is missing. If "
        "nothing is, let a Hive count: ANALYZE TABLE … COMPUTE STATISTICS",
    )


def _damaged(place: str, text: str) -> Finding:
    return Finding(
        Check.DAMAGED_FILE,
        place,
        text,
        "restore it from a backup or a replica; keep the metastore as it is, and do not compact the table before that",
    )


def is_bucket_file(entry: FileEntry) -> bool:
    """Whether rows may be in it."""
    return parse_bucket_file(entry.path.rsplit("/", 1)[-1]) is not None


def judge_old_files(
    table: str, partition: str | None, place: str, changing: str | None, unknown: Sequence[str]
) -> Finding | None:
    """Files of a Hive before 3 that update or delete rows in place, which later Hives do not read (operation 1).

    :param changing: a file whose footer counts such events, relative to ``place``; None when none does.
    :param unknown: files whose footers do not say; they may.
    """
    if changing is None and not unknown:
        return None
    values = parse_partition_name(partition) if partition else ()
    spec = f" PARTITION ({', '.join(f'{key}={value!r}' for key, value in values)})" if values else ""
    if changing is not None:
        text = f"{changing} of {table} holds update or delete events among its inserts, as Hives before 3 wrote them"
    else:
        text = (
            f"whether {len(unknown)} files of {table} ({unknown[0]}, …) hold update or delete events among their "
            "inserts, as Hives before 3 wrote them, is unknown: no version is noted, and their ends do not tell or "
            "cannot be read"
        )
    return Finding(
        Check.OLD_UPDATES,
        place,
        f"{text}. Hive 3 and later do not read such events",
        f"before the upgrade to Hive 3 or 4: ALTER TABLE {table}{spec} COMPACT 'major', and no update, delete or merge "
        "on it between that and the upgrade",
    )


def judge_import(place: str, txn_id: int) -> Finding:
    """Files that an import has copied which nobody has tried again.

    :param place: URI of the directory; ``txn_id`` is the import's, which has ended.
    """
    return Finding(
        Check.LEFT,
        place,
        f"an import that was interrupted has copied files there; its txn {txn_id} has ended, and no reader sees them",
        "run the import again: it goes on with them. If nobody will, delete the directory",
    )


def judge_dropped(place: str) -> Finding:
    """A directory whose table or partition replication has dropped, and that was not deleted."""
    return Finding(
        Check.LEFT,
        place,
        "its table was dropped by replication, which was interrupted before it deleted the files, or is at it now; no "
        "table of the catalog lies there",
        "run the replication again: it goes on with it. If nobody will, and none is running, delete the directory",
    )


def judge_export(place: str) -> Finding:
    """What an export has copied that has not ended."""
    return Finding(
        Check.LEFT,
        place,
        "an export is writing its dump there, or was interrupted; it is no dump yet",
        "run the export again, to the same directory: it goes on with it. If nobody will, and none is running, delete "
        "the directory",
    )
