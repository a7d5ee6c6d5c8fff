"""One tree of errors; names follow Hive's exceptions and the documents that define the system.

A class exists where a caller can do something of its own about the problem. ``retryable`` says whether doing the
same thing again, later and unchanged, can succeed; operators turn it into a retry or a final failure.
"""

from __future__ import annotations


class HiveAcidError(Exception):
    """Root of every error this package raises on purpose."""

    retryable = False


class InvalidArgumentsError(HiveAcidError, ValueError):
    """An argument is unusable; the message names the field and the remedy. Nothing was changed."""


class ConfigurationError(HiveAcidError):
    """Something the machine or a connection must offer is missing: Java, spark-submit, a driver, a setting."""


class MetastoreUnavailableError(HiveAcidError):
    """The metastore database cannot be reached or refuses us; names the database and the remedy."""

    retryable = True


class StorageUnavailableError(HiveAcidError, OSError):
    """A storage did not answer a question, or not so that it can be believed: nothing follows from it (R17).

    Only a storage that says "there is no such file" says so. A standby name node, a closed port, a refused login or a
    bucket that is not there are this error, whatever was asked.
    """

    retryable = True


class WarehouseMissingError(StorageUnavailableError):
    """A warehouse or a table's directory is not there, or is another one: not mounted, moved, or a wrong disk (R17).

    Names what is missing. Nothing was concluded from its absence, and nothing was changed.
    """


class SchemaVersionError(HiveAcidError):
    """The database is no metastore of a Hive 3.1 or 4.0 to 4.2, lacks our tables, or cannot hold what was asked for."""


class NoSuchObjectError(HiveAcidError):
    """A database, table or partition does not exist in the catalog."""


class AlreadyExistsError(HiveAcidError):
    """A database, table or partition of that name exists already."""


class NoSuchTxnError(HiveAcidError):
    """The txn was never opened, or is committed (then the text says so)."""


class TxnAbortedError(HiveAcidError):
    """The txn is aborted; the text gives the reason it was aborted for."""

    retryable = True


class TxnOpenError(HiveAcidError):
    """A lock of an open txn cannot be released alone: commit or abort the txn."""


class TooManyOpenTxnsError(HiveAcidError):
    """``hive.max.open.txns`` is reached; opens are accepted again below 90 % of it."""

    retryable = True


class NoSuchLockError(HiveAcidError):
    """The lock does not exist (any more): never taken, released, or timed out."""


class LockTimeoutError(HiveAcidError):
    """The lock was not granted within ``hive.lock.numretries``; the request has been withdrawn."""

    retryable = True


class LocksPendingError(HiveAcidError):
    """Locks are not granted yet, and the caller wanted to wait elsewhere: the request stays in the queue.

    :ivar document: with it another process waits on, and then goes on (plain JSON values).
    """

    def __init__(self, message: str, document: dict[str, object]) -> None:
        super().__init__(message)
        self.document = document


class LocksDeniedForNowError(HiveAcidError):
    """S or X locks of the Hive Concurrency Model are not free, and the caller tries again later: nothing is held.

    :ivar tried: how often they were asked for again, of ``hive.lock.numretries``.
    :ivar pause: seconds until the next try.
    :ivar of: tells the request from others of the same script, whose tries are counted apart.
    """

    retryable = True

    def __init__(self, message: str, tried: int = 0, pause: float = 0.0, of: str = "") -> None:
        super().__init__(message)
        self.tried = tried
        self.pause = pause
        self.of = of


class LockDeniedError(HiveAcidError):
    """The lock manager answered NOT_ACQUIRED: a zero-wait read or an exclusive CTAS met a conflicting lock."""

    retryable = True


class DeadlockError(HiveAcidError):
    """This txn was chosen as the victim of a cycle of waiting txns."""

    retryable = True


class WriteConflictError(TxnAbortedError):
    """Another txn committed a change of the same table or partition first; names it."""

    retryable = True


class LeaseAlreadyExistsError(HiveAcidError):
    """A conflicting lease is held; names the holder, its type and its end."""

    retryable = True


class LeaseEndedError(HiveAcidError):
    """The lease is not held with this secret (any more): it ended, was dropped, taken, or never granted."""


class ExceedsMaxLeaseTimeError(HiveAcidError):
    """A lease cannot be extended past the configured maximum."""


class CommitStateUnknownError(HiveAcidError):
    """A commit was sent and its answer lost. Look the txn up before anything else; never clean up on it (R17)."""

    retryable = True


class CorruptTableError(HiveAcidError):
    """Files of a table are missing, unreadable or contradict their names; reading on would give wrong rows."""


class SnapshotTooOldError(CorruptTableError):
    """The snapshot needs directories that compaction and Cleaner have replaced: its txn was not kept open."""


class FilesGoneError(CorruptTableError):
    """Files of a table hold other rows than its commits have counted, or lack what a commit has published.

    What is compared, ``hive.acid.read.verify`` says.
    """


class UnsafePathError(HiveAcidError):
    """A path lies outside the table it is said to belong to; nothing was touched."""


class SqlSyntaxError(HiveAcidError):
    """The statement does not parse; the message underlines the place."""


class UnsupportedStatementError(HiveAcidError):
    """The statement parses, and this version does not run it; the message names the nearest that it does."""


class CardinalityViolationError(HiveAcidError):
    """Several source rows of a MERGE match one target row, so the result would depend on chance."""


class BadRecordError(HiveAcidError):
    """A source record does not fit its declared schema; names file, row and column. Nothing is committed."""


class JobFailedError(HiveAcidError):
    """A Spark job ended without a result; carries the end of its log. Its txn is aborted, its files stay invisible."""

    retryable = True


class CompactionCancelledError(HiveAcidError):
    """Somebody cancelled the compaction request while it ran; nothing of it becomes visible."""


class TransactionEndedError(HiveAcidError):
    """The transaction across tasks in which this one works was given up or committed; says by whom and why."""


class TransactionLimitError(TransactionEndedError):
    """It was given up because it was too old, held back too much from cleaning, or had no keeper any more (R9)."""


class TurnPendingError(HiveAcidError):
    """Another member of the transaction across tasks is at work; members work one after the other."""

    retryable = True


class ClaimLostError(HiveAcidError):
    """Another try of the same task has taken over what this one was about to apply (R14)."""


class JobsAliveError(HiveAcidError):
    """Jobs of dead txns may still write into a table that is to be dropped or renamed; nothing was changed (R4)."""

    retryable = True


class PublishError(HiveAcidError):
    """What lies in the directories of a write id differs from what the job reported; the txn is not committed."""


class PublishInterruptedError(PublishError):
    """Somebody came between: fenced the job, published the same, or moved the partition. Nothing of it is visible."""

    retryable = True


class ActionRefusedError(HiveAcidError):
    """What somebody asks for cannot be done as things stand; says why, and what can. Nothing was changed."""


class ReplicationGapError(HiveAcidError):
    """Events between the position and the log were purged, or the log is another one: a bootstrap is proposed."""


class StreamBusyError(HiveAcidError):
    """Another process runs the stream; says which, and when it gave its last sign of life (R14)."""

    retryable = True


class StreamSchemaError(HiveAcidError):
    """The columns of a stream and those of its table do not go together; names the column and the setting."""


class BackPressureError(HiveAcidError):
    """A stream or another writer is held back because compaction does not keep up with deltas; nothing is lost."""

    retryable = True


class ReplicationBusyError(HiveAcidError):
    """Another cycle of the same policy is at work, or has taken over from this one; one at a time."""

    retryable = True


class CorruptDumpError(HiveAcidError):
    """A dump is truncated, was changed, or its files are not those of its list; nothing was imported."""


class ChangesNoLongerAvailableError(HiveAcidError):
    """Compaction has passed a range of write ids, so its changes cannot be told any more; names what still can be."""


class HistoryGoneError(HiveAcidError):
    """A table cannot be read as it was then: something of that state may be gone; says what is still there."""


class ChangesNotCompleteError(HiveAcidError):
    """Write ids of the range are still open, or not given yet; says up to where changes can be read now."""

    retryable = True


class NoSuchPinError(HiveAcidError):
    """No pin of that name may be read: it was never made, or has ended; says why."""


class PinExistsError(HiveAcidError):
    """A pin of that name is there; names its tables and its end. Nothing was changed."""


class TablePinnedError(HiveAcidError):
    """A pin needs the table as it is; names the pin, its end and how to drop it. Nothing was changed."""


class CopyFailedError(HiveAcidError):
    """A file changed, vanished or did not arrive as it was sent while it was copied; what was copied is kept."""

    retryable = True


class ReplicaDivergedError(HiveAcidError):
    """A table of the replica is not what replication left there, or cannot follow any more; proposes a bootstrap.

    :ivar tables: by ``db.table`` of the replica, why.
    """

    def __init__(self, message: str, tables: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.tables = tables or {}


class ReadOnlyReplicaError(HiveAcidError):
    """The database is the target of a replication and read-only for others; names the policy and the remedy."""


class CorruptEventStoreError(HiveAcidError):
    """A segment of an event store is broken where no crash can have broken it; nothing was skipped."""


class HandedOverError(HiveAcidError):
    """A table is read-only because a mirror of it has become the primary; names the mirror and the way back."""


class MirrorKeyError(HiveAcidError):
    """Two rows of a mirror's source have the same key; names the key and the remedy. The target was not changed."""


class MirrorNullKeyError(HiveAcidError):
    """A changed row has NULL in a column of a mirror's key, where a cheaper MERGE bears none: another one is run."""


class ImportDiffersError(HiveAcidError):
    """An imported table and its source are not the same."""


class MirrorDivergedError(HiveAcidError):
    """The target of a mirror is not what the mirror has left there; it has to be copied again."""


class MirrorConflictError(HiveAcidError):
    """Somebody else changed the target of a mirror in the same moment; nothing was changed by us."""

    retryable = True


class MirrorRefusedError(HiveAcidError):
    """A mirror would have to be copied again, or replace what is no mirror, and may not; nothing was changed."""


def unreadable(file: str, error: Exception) -> InvalidArgumentsError:
    """What is raised when a file that a user has named cannot be read.

    :param file: its name, and what it is for.
    :param error: the system's, which says why without the name, or that of its content.
    """
    reason = (error.strerror if isinstance(error, OSError) else None) or error
    return InvalidArgumentsError(f"{file} cannot be read: {reason}")
