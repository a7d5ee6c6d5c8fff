"""HIVE_ACID_JOB: every attempt of a Spark job, so that it can be fenced before its txn is forgotten (R4, R5).

A row is written before the job starts and says where it stages its files; the manifest is recorded before the first
rename. Who cleans up after a dead txn looks here for what might still be running.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, exists, func, insert, or_, select, update

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    JobsAliveError,
    NoSuchObjectError,
    PublishInterruptedError,
)
from airflow_hive_acid.metastore.database.backend import Step
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.database import Repeat, chunks
from airflow_hive_acid.metastore.names.objects import TableName, info, table_name
from airflow_hive_acid.metastore.schema.hive_catalog import CATALOG, DBS, PARTITIONS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPLETED_TXN_COMPONENTS,
    HIVE_ACID_JOB,
    TXN_COMPONENTS,
    TXNS,
)
from airflow_hive_acid.metastore.txns.txns import IS_NOT_GIVEN_UP, lock_txn_step, require_open, txn_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database

_J = HIVE_ACID_JOB.c
_COLUMNS = (
    _J.HAJ_JOB_ID, _J.HAJ_TXNID, _J.HAJ_DATABASE, _J.HAJ_TABLE, _J.HAJ_WRITEID, _J.HAJ_STATEMENT, _J.HAJ_ATTEMPT,
    _J.HAJ_KIND, _J.HAJ_TABLE_LOCATION, _J.HAJ_STAGING, _J.HAJ_APPLICATION_ID, _J.HAJ_STATE, _J.HAJ_MANIFEST,
    _J.HAJ_ERROR, _J.HAJ_STARTED, _J.HAJ_UPDATED,
)  # fmt: skip
_SELECT = select(*_COLUMNS)
_BY_ID = _J.HAJ_JOB_ID == bindparam("job_id")
_INSERT = insert(HIVE_ACID_JOB).values(
    HAJ_JOB_ID=bindparam("job_id"),
    HAJ_TXNID=bindparam("txn_id"),
    HAJ_DATABASE=bindparam("db"),
    HAJ_TABLE=bindparam("tbl"),
    HAJ_WRITEID=bindparam("write_id"),
    HAJ_STATEMENT=bindparam("statement_id"),
    HAJ_ATTEMPT=bindparam("attempt"),
    HAJ_KIND=bindparam("kind"),
    HAJ_TABLE_LOCATION=bindparam("location"),
    HAJ_STAGING=bindparam("staging"),
    HAJ_APPLICATION_ID=bindparam("application_id"),
    HAJ_STATE="r",
    HAJ_STARTED=clock_ms(),
    HAJ_UPDATED=clock_ms(),
)
_ATTEMPTS = select(func.max(_J.HAJ_ATTEMPT)).where(
    _J.HAJ_TXNID == bindparam("txn_id"),
    _J.HAJ_DATABASE == bindparam("db"),
    _J.HAJ_TABLE == bindparam("tbl"),
    _J.HAJ_STATEMENT == bindparam("statement_id"),
)
_UPDATE = update(HIVE_ACID_JOB).where(_BY_ID)
_SET_APPLICATION = _UPDATE.values(HAJ_APPLICATION_ID=bindparam("application_id"), HAJ_UPDATED=clock_ms())
#: Nothing is moved for a txn that is aborted, or that was given up while its jobs are fenced (R4).
_TXN_GOES_ON = exists().where(
    TXNS.c.TXN_ID == _J.HAJ_TXNID,
    TXNS.c.TXN_STATE == "o",
    IS_NOT_GIVEN_UP,
)
_SET_MANIFEST = _UPDATE.where(_J.HAJ_STATE.in_(("r", "p")), _TXN_GOES_ON).values(
    HAJ_MANIFEST=bindparam("manifest"), HAJ_STATE="p", HAJ_UPDATED=clock_ms()
)
_MARK_FENCED = _UPDATE.where(_J.HAJ_STATE != "c").values(
    HAJ_STATE="f", HAJ_ERROR=bindparam("error"), HAJ_UPDATED=clock_ms()
)
_MARK_UNPUBLISHED_FENCED = _UPDATE.where(_J.HAJ_STATE == "r", _J.HAJ_MANIFEST.is_(None)).values(
    HAJ_STATE="f", HAJ_ERROR=bindparam("error"), HAJ_UPDATED=clock_ms()
)
#: The first note of a publishing job counts: what it waits for began then.
_NOTE_STAGING_REMOVED = _UPDATE.where(_J.HAJ_STATE == "p", _J.HAJ_ERROR.is_(None)).values(
    HAJ_ERROR=bindparam("error"), HAJ_UPDATED=clock_ms()
)
_MARK_SETTLED_FENCED = _UPDATE.where(
    _J.HAJ_STATE == "p", _J.HAJ_ERROR.is_not(None), _J.HAJ_UPDATED < clock_ms() - bindparam("age")
).values(HAJ_STATE="f", HAJ_UPDATED=clock_ms())
_TXN_ENDED = ~exists().where(TXNS.c.TXN_ID == _J.HAJ_TXNID, TXNS.c.TXN_STATE == "o")
_TXN_COMMITTED = exists().where(TXNS.c.TXN_ID == _J.HAJ_TXNID, TXNS.c.TXN_STATE == "c")
#: Our commit marks its jobs, so a job that is not marked and whose txn has no row any more was not committed (R17).
_UNFENCED = _SELECT.where(_TXN_ENDED, ~_TXN_COMMITTED, _J.HAJ_STATE.in_(("r", "p"))).order_by(_J.HAJ_TXNID)
#: After their commit there is something to remove: what a plain table's files replaced, what DDL moved out of the way.
#: Those stay until that is done (R17).
_COMMITTED_ONES = delete(HIVE_ACID_JOB).where(_J.HAJ_STATE == "c", _J.HAJ_WRITEID.is_not(None))
_TO_FINISH = _SELECT.where(_J.HAJ_STATE == "c", _J.HAJ_WRITEID.is_(None)).order_by(
    _J.HAJ_TXNID, _J.HAJ_STATEMENT.desc()
)
_FINISHED = delete(HIVE_ACID_JOB).where(_BY_ID, _J.HAJ_STATE == "c")
#: Not the fenced ones of write ids: a try in a txn of several tasks that was undone is no part of what it commits (R5).
_MARK_COMMITTED = (
    update(HIVE_ACID_JOB)
    .where(_J.HAJ_TXNID == bindparam("txn_id"), or_(_J.HAJ_STATE != "f", _J.HAJ_WRITEID.is_(None)))
    .values(HAJ_STATE="c")
)
_FENCED_AND_FORGOTTEN = delete(HIVE_ACID_JOB).where(
    _J.HAJ_STATE == "f",
    _TXN_ENDED,
    _J.HAJ_UPDATED < clock_ms() - bindparam("age"),
    ~exists().where(TXN_COMPONENTS.c.TC_TXNID == _J.HAJ_TXNID),
)


DDL_KIND = "ddl"
"""Kind of a job that moves, makes or removes directories of tables, and starts no application."""
COMPACT_KIND = "compact"
"""Kind of a job of a compaction, whose directories carry its txn and no write id of its own."""
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_OF_TXNS = _SELECT.where(_J.HAJ_TXNID.in_(_IDS)).order_by(_J.HAJ_STARTED, _J.HAJ_JOB_ID)
_PLAIN = (
    select(_J.HAJ_TXNID)
    .where(_J.HAJ_TXNID.in_(_IDS), _J.HAJ_STATE == "p", _J.HAJ_WRITEID.is_(None), _J.HAJ_MANIFEST.is_not(None))
    # A compaction has no write id either, and its directories carry its txn.
    .where(_J.HAJ_KIND != COMPACT_KIND)
    .distinct()
)
_UNFENCED_OF = _SELECT.where(
    _J.HAJ_DATABASE == bindparam("db"), _J.HAJ_TABLE == bindparam("tbl"), _J.HAJ_STATE.in_(("r", "p")), ~_TXN_COMMITTED
).order_by(_J.HAJ_STARTED, _J.HAJ_JOB_ID)
_COMMITTED_OF = _SELECT.where(
    _J.HAJ_DATABASE == bindparam("db"),
    _J.HAJ_TABLE == bindparam("tbl"),
    _J.HAJ_STATE == "c",
    _J.HAJ_WRITEID.is_not(None),
    _J.HAJ_MANIFEST.is_not(None),
).order_by(_J.HAJ_STARTED, _J.HAJ_STATEMENT)
_C = COMPLETED_TXN_COMPONENTS.c
#: A rename notes its write id at the partition, as a Hive's does: from then on other files may lie under the name.
_PARTITION_CHANGED_SINCE = exists().where(
    DBS.c.NAME == _C.CTC_DATABASE, DBS.c.CTLG_NAME == CATALOG, TBLS.c.DB_ID == DBS.c.DB_ID,
    TBLS.c.TBL_NAME == _C.CTC_TABLE, PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID,
    PARTITIONS.c.PART_NAME == _C.CTC_PARTITION, PARTITIONS.c.WRITE_ID > _C.CTC_WRITEID,
)  # fmt: skip
_WRITTEN_PARTS = select(_C.CTC_TXNID, _C.CTC_PARTITION).where(
    _C.CTC_DATABASE == bindparam("db"), _C.CTC_TABLE == bindparam("tbl"), _C.CTC_TXNID.in_(_IDS),
    ~_PARTITION_CHANGED_SINCE,
)  # fmt: skip
_UNFENCED_TABLES = select(_J.HAJ_DATABASE, _J.HAJ_TABLE).where(_J.HAJ_STATE.in_(("r", "p")), ~_TXN_COMMITTED).distinct()
_RENAME = (
    update(HIVE_ACID_JOB)
    .where(_J.HAJ_DATABASE == bindparam("db"), _J.HAJ_TABLE == bindparam("tbl"))
    .values(HAJ_DATABASE=bindparam("new_db"), HAJ_TABLE=bindparam("new_tbl"))
)


class JobState(Enum):
    """HAJ_STATE.

    RUNNING: may write files at any moment. PUBLISHING: its manifest is recorded, renames may be under way. FENCED:
    it can write nothing any more. COMMITTED: its txn is; the row goes at the next housekeeping.
    """

    RUNNING = "r"
    PUBLISHING = "p"
    FENCED = "f"
    COMMITTED = "c"


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt of a job; times are milliseconds by the database's clock.

    :param statement: first statement id of its statement; attempts of one statement share it.
    :param attempt: 1 for the first.
    :param staging: URI of the directory it writes to.
    :param manifest: what it was about to publish, None before that.
    """

    job_id: str
    txn_id: int
    table: str
    write_id: int | None
    statement: int
    attempt: int
    kind: str
    table_location: str
    staging: str | None
    application_id: str | None
    state: JobState
    manifest: Mapping[str, Any] | None
    error: str | None
    started: int
    updated: int


def committed_step(txn_id: int) -> Step:
    """The statement by which a commit marks the txn's jobs as nobody's to fence."""
    return Step(_MARK_COMMITTED, {"txn_id": txn_id})


def jobs_of_txns(connection: Connection, txn_ids: Sequence[int]) -> dict[int, list[Job]]:
    """All attempts of txns, oldest first; txns without any are left out."""
    found: dict[int, list[Job]] = {}
    for part in chunks(list(txn_ids)):
        for row in connection.execute(_OF_TXNS, {"ids": list(part)}):
            job = _job(row)
            found.setdefault(job.txn_id, []).append(job)
    return found


def with_files_in_plain_tables(connection: Connection, txn_ids: Sequence[int]) -> set[int]:
    """Txns with jobs that may have moved files into tables without transactions, which an abort does not hide."""
    return {int(i) for part in chunks(list(txn_ids)) for i in connection.execute(_PLAIN, {"ids": list(part)}).scalars()}


def unfenced_jobs(connection: Connection, table: TableName) -> list[Job]:
    """Attempts on a table that may still write."""
    return [_job(row) for row in connection.execute(_UNFENCED_OF, {"db": table.database, "tbl": table.name})]


def tables_with_unfenced_jobs(connection: Connection) -> set[TableName]:
    """Tables on which an attempt may still write, whatever its txn is."""
    return {TableName(database, name) for database, name in connection.execute(_UNFENCED_TABLES)}


def require_fenced(
    connection: Connection, table: TableName, besides: int | None = None, among: Sequence[Job] | None = None
) -> None:
    """Refuse to forget what jobs of a table wrote while one of them may still write (R4).

    :param besides: the txn that asks; its own jobs do not count.
    :param among: the jobs that count; None: all that may still write.
    :raises JobsAliveError: naming the first of them.
    """
    found = unfenced_jobs(connection, table) if among is None else among
    jobs = [job for job in found if job.txn_id != besides]
    if jobs:
        first = jobs[0]
        raise JobsAliveError(
            f"{len(jobs)} jobs may still write into {table}, the first is {first.job_id} of txn {first.txn_id} "
            f"(application {first.application_id or 'not known'}); what they publish would become rows of the next "
            "table there. Run 'hive-acid maintenance reaper --once', which fences those of dead txns, and try again"
        )


def rename_jobs(connection: Connection, table: TableName, new: TableName) -> None:
    """Let the records of a table's jobs follow its name."""
    connection.execute(_RENAME, {"db": table.database, "tbl": table.name, "new_db": new.database, "new_tbl": new.name})


class Jobs:
    """Records jobs of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def start(
        self,
        *,
        job_id: str,
        txn_id: int,
        table: str,
        write_id: int | None,
        statement: int,
        kind: str,
        table_location: str,
        staging: str | None,
        application_id: str | None = None,
    ) -> Job:
        """Record an attempt, before it is started.

        :raises NoSuchTxnError: or TxnAbortedError when its txn is not open (any more).
        :raises AlreadyExistsError: when a job of that id is recorded.
        """
        name = table_name(table)

        def operation(connection: Connection) -> Job:
            lock = lock_txn_step(txn_id)
            require_open(connection, txn_id, connection.execute(lock.statement, dict(lock.parameters)).all())
            if connection.execute(_SELECT.where(_BY_ID), {"job_id": job_id}).first() is not None:
                raise AlreadyExistsError(f"job {job_id} is recorded already; every attempt needs an id of its own")
            of_statement = {"txn_id": txn_id, "db": name.database, "tbl": name.name, "statement_id": statement}
            attempt = int(connection.execute(_ATTEMPTS, of_statement).scalar() or 0) + 1
            connection.execute(
                _INSERT,
                {
                    **of_statement,
                    "job_id": job_id,
                    "write_id": write_id,
                    "attempt": attempt,
                    "kind": kind,
                    "location": table_location,
                    "staging": staging,
                    "application_id": application_id,
                },
            )
            return _job(connection.execute(_SELECT.where(_BY_ID), {"job_id": job_id}).one())

        return self._database.run(operation, Repeat.BEFORE_COMMIT)

    def record_application(self, job_id: str, application_id: str) -> None:
        """Note which Spark application runs it."""
        self._update(job_id, _SET_APPLICATION, {"application_id": info(application_id, 256)})

    def record_manifest(self, job_id: str, manifest: Mapping[str, Any], rows: Mapping[str, int] | None = None) -> None:
        """Note what will be published, before the first rename (R5).

        :param rows: ``inserted``, ``updated`` and ``deleted``, for whoever is told of the commit.
        :raises PublishInterruptedError: when the job was fenced: it must not publish any more (R4), even where the
            fence itself has gone with a dropped table's directory.
        :raises TxnAbortedError: when its txn was given up or aborted.
        """
        document = dict(manifest) if rows is None else {**manifest, "rows": dict(rows)}
        values = {"job_id": job_id, "manifest": json.dumps(document, ensure_ascii=False)}

        def operation(connection: Connection) -> None:
            if connection.execute(_SET_MANIFEST, values).rowcount:
                return
            found = connection.execute(_SELECT.where(_BY_ID), {"job_id": job_id}).first()
            if found is None:
                raise _missing(job_id)
            job = _job(found)
            if job.state in (JobState.RUNNING, JobState.PUBLISHING):
                raise txn_problem(connection, job.txn_id)
            raise PublishInterruptedError(
                f"job {job_id} of txn {job.txn_id} on {job.table} publishes nothing: it is {job.state.name.lower()}"
                + (f" ({job.error})" if job.error else "")
                + "; run the statement again in a new txn"
            )

        self._database.run(operation)

    def mark_fenced(self, job_id: str, error: str | None = None) -> None:
        """It can write nothing any more, and what it published is removed (R4).

        :raises InvalidArgumentsError: when its txn is committed.
        """

        def operation(connection: Connection) -> None:
            if not connection.execute(_MARK_FENCED, {"job_id": job_id, "error": error}).rowcount:
                found = connection.execute(_SELECT.where(_BY_ID), {"job_id": job_id}).first()
                if found is None:
                    raise _missing(job_id)
                raise InvalidArgumentsError(f"job {job_id} is committed with its txn; there is nothing to fence")

        self._database.run(operation)

    def mark_fenced_unless_publishing(self, job_id: str, error: str) -> bool:
        """Fence by this record alone: a job without a manifest gets none any more, so it never publishes (R4).

        :return: False when its manifest is recorded.
        """
        values = {"job_id": job_id, "error": error}
        if self._database.run(lambda connection: connection.execute(_MARK_UNPUBLISHED_FENCED, values).rowcount):
            return True
        job = self.get(job_id)
        return job.state is JobState.FENCED and job.manifest is None

    def note_staging_removed(self, job_id: str, note: str, settled_ms: int) -> bool:
        """A publishing job has lost its staging, so that copies which have not begun cannot begin any more.

        :param settled_ms: after how long those that had begun have ended.
        :return: whether that is over since the first note; the job is marked as fenced then.
        """

        def operation(connection: Connection) -> bool:
            connection.execute(_NOTE_STAGING_REMOVED, {"job_id": job_id, "error": note})
            return connection.execute(_MARK_SETTLED_FENCED, {"job_id": job_id, "age": settled_ms}).rowcount == 1

        return self._database.run(operation)

    def get(self, job_id: str) -> Job:
        """One attempt."""
        row = self._database.read(
            lambda connection: connection.execute(_SELECT.where(_BY_ID), {"job_id": job_id}).first()
        )
        if row is None:
            raise _missing(job_id)
        return _job(row)

    def of_txn(self, txn_id: int) -> list[Job]:
        """All attempts of a txn, oldest first."""
        statement = _SELECT.where(_J.HAJ_TXNID == txn_id).order_by(_J.HAJ_STARTED, _J.HAJ_JOB_ID)
        return self._database.read(lambda connection: [_job(r) for r in connection.execute(statement)])

    def committed_of(self, table: str) -> list[Job]:
        """Attempts on a table that wrote under write ids, have committed and are not forgotten yet, oldest first."""
        name = table_name(table)
        return self._database.read(
            lambda connection: [
                _job(row) for row in connection.execute(_COMMITTED_OF, {"db": name.database, "tbl": name.name})
            ]
        )

    def written_parts(self, table: str, txn_ids: Sequence[int]) -> set[tuple[int, str]]:
        """Which of these txns wrote to a table, with the partitions: as long as these are there and not compacted away.

        :return: txn and partition name, empty without partitions. What was dropped has none, nor has what is made anew
            under its name, nor what may have been another partition then: one that was altered since.
        """
        name = table_name(table)

        def look(connection: Connection) -> set[tuple[int, str]]:
            return {
                (txn, part or "")
                for some in chunks(txn_ids)
                for txn, part in connection.execute(
                    _WRITTEN_PARTS, {"db": name.database, "tbl": name.name, "ids": list(some)}
                )
            }

        return self._database.read(look)

    def unfenced_of(self, table: str) -> list[Job]:
        """Attempts on a table which may still write, whatever their txn is."""
        name = table_name(table)
        return self._database.read(lambda connection: unfenced_jobs(connection, name))

    def to_fence(self) -> list[Job]:
        """Attempts whose txn is aborted or gone, and which may still write (R4)."""
        return self._database.read(lambda connection: [_job(r) for r in connection.execute(_UNFENCED)])

    def to_finish(self) -> list[Job]:
        """Attempts of committed txns which may have left something to remove outside of write ids."""
        return self._database.read(lambda connection: [_job(r) for r in connection.execute(_TO_FINISH)])

    def finished(self, job_id: str) -> None:
        """Nothing is left to remove of a committed attempt: its row goes."""
        self._database.run(lambda connection: connection.execute(_FINISHED, {"job_id": job_id}))

    def forget(self, age_ms: int = 0) -> int:
        """Drop rows of committed txns, and fenced ones whose txn nobody has to clean up after any more.

        Those of txns that may have left something outside of write ids stay until they are finished.
        """

        def operation(connection: Connection) -> int:
            committed = connection.execute(_COMMITTED_ONES).rowcount
            return committed + connection.execute(_FENCED_AND_FORGOTTEN, {"age": age_ms}).rowcount

        return self._database.run(operation)

    def _update(self, job_id: str, statement: Any, values: Mapping[str, Any]) -> None:
        def operation(connection: Connection) -> None:
            if connection.execute(statement, {"job_id": job_id, **values}).rowcount == 0:
                raise _missing(job_id)

        self._database.run(operation)


def _job(row: Any) -> Job:
    (
        job_id,
        txn_id,
        database,
        table,
        write_id,
        statement,
        attempt,
        kind,
        location,
        staging,
        application,
        state,
        manifest,
        error,
        started,
        updated,
    ) = row
    return Job(
        job_id,
        txn_id,
        f"{database}.{table}",
        write_id,
        statement,
        attempt,
        kind,
        location,
        staging,
        application,
        JobState(state),
        None if manifest is None else json.loads(manifest),
        error,
        started,
        updated,
    )


def _missing(job_id: str) -> NoSuchObjectError:
    return NoSuchObjectError(f"no job {job_id} is recorded; it was never started, or was forgotten with its txn")
