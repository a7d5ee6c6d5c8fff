"""The rows of the settings table; see ``settings.py`` for how a value is found.

``hive_default`` is the default of Hive 4.1 where it differs from the documents, the documents' otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Type of a setting's value."""

    DURATION = "duration"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "switch"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    :param key: Hive's name, or ours where Hive has none.
    :param default: our default, as it would be written in a file.
    :param hive_default: Hive's own default, printed beside ours.
    :param unit: unit of a bare number of a duration.
    :param aliases: other spellings that mean the same.
    """

    key: str
    kind: Kind
    default: str
    hive_default: str
    description: str
    unit: str = ""
    minimum: int | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


DB_TXN_MANAGER = "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager"
DUMMY_TXN_MANAGER = "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager"
ZOOKEEPER_LOCK_MANAGER = "org.apache.hadoop.hive.ql.lockmgr.zookeeper.ZooKeeperHiveLockManager"
EMBEDDED_LOCK_MANAGER = "org.apache.hadoop.hive.ql.lockmgr.EmbeddedLockManager"
SESSION_SETTINGS = frozenset((
    "hive.acid.read.verify", "hive.acid.select.max.bytes", "hive.enforce.bucketing",
    "hive.exec.dynamic.partition.mode", "hive.lock.numretries", "hive.lock.sleep.between.retries",
    "hive.locks.max.partitions", "hive.query.exclusive.lock", "hive.txn.ext.locking.enabled",
    "hive.txn.nonacid.read.locks", "hive.txn.retrysnapshot.max.count", "hive.txn.strict.locking.mode",
    "hive.txn.xlock.ctas", "hive.txn.xlock.iow", "hive.txn.xlock.mergeinsert", "hive.txn.xlock.write",
))  # fmt: skip
"""What one script may set for itself: the others are agreements of all who work on a metastore, or of a connection."""


def _aliases(key: str, *more: str) -> tuple[str, ...]:
    """Hive's metastore accepts ``metastore.x`` for ``hive.x``."""
    return ("metastore." + key.removeprefix("hive."), *more)


def _duration(
    key: str, default: str, unit: str, text: str, hive: str | None = None, minimum: int | None = 0, alias: str = ""
) -> Setting:
    names = _aliases(key, alias) if alias else _aliases(key)
    return Setting(key, Kind.DURATION, default, hive or default, text, unit, minimum, aliases=names)


def _integer(key: str, default: int, text: str, hive: str | None = None, minimum: int | None = 0) -> Setting:
    return Setting(key, Kind.INTEGER, str(default), hive or str(default), text, minimum=minimum, aliases=_aliases(key))


def _flag(key: str, default: bool, text: str, hive: bool | None = None) -> Setting:
    shown = default if hive is None else hive
    return Setting(key, Kind.FLAG, str(default).lower(), str(shown).lower(), text, aliases=_aliases(key))


def _text(key: str, default: str, text: str, hive: str | None = None, choices: tuple[str, ...] = ()) -> Setting:
    hive_default = default if hive is None else hive
    return Setting(key, Kind.TEXT, default, hive_default, text, choices=choices, aliases=_aliases(key))


_ROWS = (
    # Concurrency and locks (Hive Concurrency Model; Transaction/Lock Manager)
    _flag("hive.support.concurrency", True, "Take locks at all.", hive=False),
    _text(
        "hive.txn.manager", DB_TXN_MANAGER, "DummyTxnManager: legacy locks only, access to ACID tables is refused.",
        hive=DUMMY_TXN_MANAGER, choices=(DB_TXN_MANAGER, DUMMY_TXN_MANAGER),
    ),
    _text(
        "hive.lock.manager", EMBEDDED_LOCK_MANAGER, "Lock manager used with DummyTxnManager.",
        hive=ZOOKEEPER_LOCK_MANAGER, choices=(EMBEDDED_LOCK_MANAGER, ZOOKEEPER_LOCK_MANAGER),
    ),
    _integer("hive.lock.numretries", 100, "How often a lock request is tried again before it is given up."),
    _integer("hive.unlock.numretries", 10, "How often a release is tried again."),
    _duration(
        "hive.lock.sleep.between.retries", "60s", "s",
        "Longest pause between two tries; the first is 100 ms, doubling. Less than 15 s count as 15 s, as in Hive; who "
        "is woken by a release asks at once. With DummyTxnManager: every pause, as it is.",
    ),
    _text("hive.zookeeper.quorum", "", "ZooKeeper's servers, host[:port], comma separated; for its lock manager."),
    _integer("hive.zookeeper.client.port", 2181, "Port of servers that name none.", minimum=1),
    _text("hive.zookeeper.namespace", "hive_zookeeper_namespace",
          "Node below which all locks lie; every metastore needs its own."),
    _duration("hive.zookeeper.session.timeout", "120000ms", "ms",
              "Locks of a process that ZooKeeper has not heard of for this long are gone; the server may allow less.",
              minimum=1000),
    _duration("hive.zookeeper.connection.timeout", "15s", "s", "How long to wait for an answer of ZooKeeper.",
              minimum=1),
    _flag("hive.zookeeper.ssl.client.enable", False, "Speak TLS with ZooKeeper; its certificate must be of its host."),
    _text("hive.acid.zookeeper.ssl.ca", "",
          "Ours: file (PEM) of the certificates that sign ZooKeeper's; empty: those of the system."),
    _text("hive.acid.zookeeper.ssl.certificate", "", "Ours: file (PEM) of a certificate that is shown to ZooKeeper."),
    _text("hive.acid.zookeeper.ssl.key", "", "Ours: file (PEM) of that certificate's key."),
    _text("hive.acid.zookeeper.ssl.key.password.file", "",
          "Ours: file whose first line is the password of that key; empty: it has none."),
    _text("hive.acid.zookeeper.user", "",
          "Ours: as whom to log in to ZooKeeper; nodes belong to that user then. Empty: nobody logs in."),
    _text("hive.acid.zookeeper.password.file", "", "Ours: file whose first line is that user's password."),
    _text("hive.acid.zookeeper.auth", "digest",
          "Ours: how; digest: a user that ZooKeeper need not know; sasl: DIGEST-MD5, a user of its JAAS file.",
          choices=("digest", "sasl")),
    _flag("hive.zookeeper.clean.extra.nodes", False,
          "A release removes the nodes of objects that nobody locks any more."),
    _flag("hive.acid.deadlock.detection", True,
          "Ours: txns that wait in a circle are found, and the one that did the least gives way.", hive=False),
    _duration("hive.acid.handover.grace", "300s", "s",
              "Ours: how long nobody needs to send heartbeats while a txn is handed from a task to a trigger or back."),
    _duration("hive.acid.lock.defer.after", "5s", "s",
              "Ours: how long an operator waits for locks itself; then a trigger waits, without a worker slot."),
    _duration("hive.acid.claim.retention", "30d", "d",
              "Ours: how long it is remembered what tasks have applied, so that a retry does not apply it again."),
    _duration("hive.acid.shared.txn.max.age", "24h", "s",
              "Ours: a transaction across tasks that is open for longer is aborted.", minimum=1),
    _integer("hive.acid.shared.txn.max.held.bytes", 0,
             "Ours: such a transaction is aborted when it holds back more bytes from being cleaned; 0: no limit."),
    _duration("hive.acid.shared.txn.keeper.timeout", "120s", "s",
              "Ours: when the keeper of a transaction across tasks is silent for this long, its tasks give it up.",
              minimum=1),
    _duration("hive.acid.stream.owner.timeout", "30s", "s",
              "Ours: a process that runs a stream and is silent for this long counts as dead; another may go on.",
              minimum=1),
    _integer("hive.acid.stream.deltas.compact", 50,
             "Ours: with this many deltas in a table or partition, a stream asks for its compaction; 0: never."),
    _integer("hive.acid.stream.deltas.warn", 200,
             "Ours: with this many, a stream warns with each micro-batch; 0: never."),
    _integer("hive.acid.stream.deltas.slow", 500,
             "Ours: with this many, a stream pauses before each micro-batch, longer with more deltas; 0: never."),
    _integer("hive.acid.stream.deltas.stop", 1000,
             "Ours: with this many, a stream waits until a compaction has made them fewer; 0: never."),
    _duration("hive.acid.stream.slow.pause", "5s", "s",
              "Ours: the longest pause before a micro-batch between .slow and .stop."),
    _duration("hive.acid.stream.stop.wait", "10m", "s",
              "Ours: how long a stream at .stop waits for a compaction; then it ends with an error."),
    _integer("hive.acid.writer.max.deltas", 0,
             "Ours: with this many live deltas in a table or partition, statements and transaction batches that would "
             "add one are held back; 0: never. A table property of this name overrides it."),
    _text("hive.acid.writer.max.deltas.action", "wait",
          "Ours: how. wait: for a compaction, which is asked for; refuse: at once, for a later try; warn: not at all, "
          "it is only said.", choices=("wait", "refuse", "warn")),
    _duration("hive.acid.writer.max.deltas.wait", "10m", "s",
              "Ours: how long a writer waits; then it ends with an error that may be tried again."),
    _integer("hive.acid.batch.transactions", 100,
             "Ours: txns that a transaction batch opens at once, at most hive.txn.max.open.batch less one.",
             minimum=1),
    _integer("hive.acid.rows.max.bytes", 67108864,
             "Ours: limit for the records that a program hands over in one txn, in bytes of JSON.", minimum=1),
    _integer("hive.acid.select.max.bytes", 67108864,
             "Ours: limit for the rows of one SELECT that come into a worker's memory, in bytes of JSON.",
             minimum=1),
    _text("hive.acid.lease.mirror", "on",
          "Ours: leases stand in Hive's lock table too, so that writers without one wait, ours and Hive's. auto: the "
          "same as on.", hive="off", choices=("auto", "on", "off")),
    _duration("hive.acid.lease.max.time", "24h", "s",
              "Ours: the longest that a lease may last from its start, extensions included.", minimum=1),
    _integer("hive.locks.max.partitions", 1000, "More partitions than this are locked as the table; -1: no limit.",
             hive="-1", minimum=-1),
    _text("hive.query.exclusive.lock", "", "Names of advisory locks a statement takes exclusively, comma separated."),
    _flag("hive.enforce.bucketing", True, "Accepted; bucketing is always enforced, as in Hive since 2.0.", hive=False),
    _text("hive.exec.dynamic.partition.mode", "nonstrict", "strict demands one static partition in an INSERT.",
          choices=("strict", "nonstrict")),
    # Transactions
    _flag("hive.txn.strict.locking.mode", True, "INSERT into a non-transactional table locks it exclusively."),
    _flag("hive.txn.nonacid.read.locks", True, "Reads of non-transactional tables take locks."),
    _flag("hive.txn.ext.locking.enabled", True,
          "External tables are locked too; writing one could not be undone without.", hive=False),
    _flag("hive.txn.read.locks", True, "Reads of transactional tables take shared locks."),
    _flag("hive.acid.lockless.reads.enabled", False, "Reads of transactional tables take no locks at all."),
    _flag("hive.txn.xlock.write", False,
          "UPDATE and DELETE take exclusive write locks, and INSERT one that waits for no lease (Hive 4.0 does, 4.1 "
          "does not)."),
    _flag("hive.txn.xlock.iow", True, "INSERT OVERWRITE locks exclusively when hive.txn.xlock.write is on too."),
    _flag("hive.txn.xlock.mergeinsert", True, "The insert branch of MERGE takes part in conflict detection.",
          hive=False),
    _flag("hive.txn.xlock.ctas", True, "Two CREATE TABLE AS SELECT of one name fail fast."),
    _duration("hive.txn.timeout", "300s", "s",
              "A txn without heartbeat for this long is aborted. On a shared metastore it must equal Hive's.",
              minimum=1000),
    _duration("hive.repl.txn.timeout", "11d", "d", "The same for txns opened by replication.", minimum=1000),
    _duration("hive.txn.opentxn.timeout", "1000ms", "ms",
              "An open that takes longer is undone and repeated. Not less than that of the Hives on this metastore.",
              minimum=1),
    _integer("hive.txn.heartbeat.threadpool.size", 5, "Threads that send heartbeats.", minimum=1),
    _duration("hive.timedout.txn.reaper.start", "100s", "ms",
              "Delay of the first look for timed-out txns after the service hive-acid maintenance reaper has begun. "
              "--once and the DAG look at once."),
    _duration("hive.timedout.txn.reaper.interval", "180s", "ms",
              "Time between two looks for timed-out txns; a DAG needs at least 10 s.",
              alias="metastore.acid.housekeeper.interval", minimum=1000),
    _integer("hive.txn.max.open.batch", 1000, "Most txns opened in one call.", minimum=1),
    _integer("hive.max.open.txns", 100_000, "Most open txns; opens are refused until fewer than 90 % are open.",
             minimum=1),
    _duration("hive.count.open.txns.interval", "1s", "s", "Age at which the count of open txns is taken again."),
    _text("hive.txn.retryable.sqlex.regex", "",
          "Further database errors that are worth a retry: patterns, separated by commas without a space behind them. "
          "Each is looked for in the SQL state, in the error code, in the message, and in Hive's "
          "'<message> (SQLState=<state>, ErrorCode=<code>)'."),
    _integer("hive.txn.retrysnapshot.max.count", 5, "How often a statement starts over on an outdated snapshot."),
    # Compaction
    _flag("hive.compactor.initiator.on", True, "The Initiator looks for tables to compact.", hive=False),
    _flag("hive.compactor.cleaner.on", True, "The Cleaner removes what compaction has replaced.", hive=False),
    _integer("hive.compactor.worker.threads", 2,
             "Compactions at a time; 0: neither the DAG nor hive-acid maintenance worker runs any.", hive="0",
             minimum=0),
    _duration("hive.compactor.worker.timeout", "86400s", "s", "A compaction that works longer is queued again.",
              minimum=1000),
    _duration("hive.compactor.worker.pool.timeout", "12h", "h",
              "After this long any worker may take a request of a named pool."),
    _duration("hive.compactor.cleaner.run.interval", "5000ms", "ms",
              "Time between two looks of the Cleaner; at least 1 s."),
    _duration("hive.compactor.check.interval", "300s", "s",
              "Time between two looks of the Initiator; a DAG needs at least 10 s.", minimum=1000),
    _integer("hive.compactor.delta.num.threshold", 10, "More delta directories than this ask for a minor compaction."),
    Setting("hive.compactor.delta.pct.threshold", Kind.NUMBER, "0.1", "0.1",
            "Deltas larger than this fraction of the base ask for a major compaction.", minimum=0,
            aliases=_aliases("hive.compactor.delta.pct.threshold")),
    _text("hive.acid.initiator.policy", "thresholds",
          "Ours: what asks for a compaction: Hive's thresholds, or benefit: reads save more than it costs.",
          choices=("thresholds", "benefit")),
    _duration("hive.acid.initiator.benefit.horizon", "7d", "d",
              "Ours, for benefit: reads are expected for as long as since the last compaction, and for this at most.",
              minimum=1000),
    Setting("hive.acid.initiator.benefit.other.reads", Kind.NUMBER, "24", "24",
            "Ours, for benefit: reads a day of each table that nobody counts, for example by Hive.", minimum=0,
            aliases=_aliases("hive.acid.initiator.benefit.other.reads")),
    Setting("hive.acid.initiator.benefit.job", Kind.NUMBER, "10", "10",
            "Ours, for benefit: CPU seconds of a compaction of nothing: its share of a Spark application.",
            minimum=0, aliases=_aliases("hive.acid.initiator.benefit.job")),
    Setting("hive.acid.initiator.benefit.bound", Kind.NUMBER, "5", "5",
            "Ours, for benefit: the last bound is so many times the two thresholds for deltas.", minimum=1,
            aliases=_aliases("hive.acid.initiator.benefit.bound")),
    _integer("hive.compactor.abortedtxn.threshold", 1000, "Aborted txns of one table or partition before clean-up."),
    _duration("hive.compactor.aborted.txn.time.threshold", "12h", "h",
              "Age of the oldest aborted txn before clean-up; negative: never by age.", minimum=None),
    _integer("hive.compactor.max.num.delta", 500, "More deltas than this are compacted in several steps.", minimum=2),
    _text("hive.compactor.job.queue", "", "Queue of the cluster that compaction jobs are sent to."),
    _text("hive.compactor.run.as.user", "", "User for whom compactions are done; empty: the owner of the table."),
    _flag("hive.acid.compactor.proxy.user", False,
          "Ours: compaction jobs are submitted on behalf of that user (spark-submit --proxy-user)."),
    _integer("hive.compactor.fetch.size", 1000, "Candidates read and looked at together.", minimum=1),
    _flag("hive.compactor.clean.aborts.using.cleaner", True,
          "The Cleaner removes what aborted txns left; otherwise the Initiator asks for compactions that do."),
    _integer("hive.compactor.initiator.failed.compacts.threshold", 2,
             "This many failures in a row stop automatic compaction of a table or partition.", minimum=1),
    _duration("hive.compactor.initiator.failed.retry.time", "7d", "d", "After this long it is tried again anyway."),
    _integer("hive.compactor.history.retention.succeeded", 3, "Successful compactions kept in history, each."),
    _integer("hive.compactor.history.retention.failed", 3, "Failed compactions kept in history, each."),
    Setting("hive.compactor.history.retention.attempted", Kind.INTEGER, "2", "2",
            "Compactions that did not start, kept in history, each.", minimum=0,
            aliases=("hive.compactor.history.retention.did.not.initiate",
                     "metastore.compactor.history.retention.did.not.initiate")),
    _integer("hive.compactor.history.retention.refused", 3, "Refused compactions kept in history, each."),
    _duration("hive.compactor.history.retention.timeout", "7d", "d",
              "Older failures are purged when a newer compaction succeeded."),
    _duration("hive.compactor.history.reaper.interval", "2m", "m",
              "Time between two purges of the history; a DAG needs at least 10 s.", minimum=1000),
    _flag("hive.compactor.delayed.cleanup.enabled", False, "The Cleaner waits for the retention time as well."),
    _duration("hive.compactor.cleaner.retention.time.seconds", "300s", "s", "That retention time.",
              alias="metastore.compactor.cleaner.retention.time"),
    _integer("hive.compactor.cleaner.retry.maxattempts", 5, "Failures of a clean-up before it is marked failed."),
    _duration("hive.compactor.cleaner.retry.retention.time", "300s", "s", "Pause after the first of them; doubling."),
    # Metrics: from which value on one is a warning or an error (Hive's AcidMetricLogger)
    _duration("hive.compactor.oldest.open.txn.threshold.warning", "24h", "h", "Age of an open txn."),
    _duration("hive.compactor.oldest.open.txn.threshold.error", "72h", "h", "The same, as an error."),
    _duration("hive.compactor.oldest.replication.open.txn.threshold.warning", "14d", "d", "Of replication's txns."),
    _duration("hive.compactor.oldest.replication.open.txn.threshold.error", "21d", "d", "The same, as an error."),
    _duration("hive.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning", "24h", "h",
              "Age of an aborted txn that is not cleaned up."),
    _duration("hive.compactor.oldest.uncleaned.aborted.txn.time.threshold.error", "48h", "h",
              "The same, as an error."),
    _duration("hive.compactor.oldest.initiated.compaction.time.threshold.warning", "1h", "h",
              "How long a request has waited for a worker."),
    _duration("hive.compactor.oldest.initiated.compaction.time.threshold.error", "12h", "h",
              "The same, as an error."),
    _duration("hive.compactor.oldest.uncleaned.compaction.time.threshold", "24h", "h",
              "How long a finished compaction has waited for the Cleaner."),
    Setting("hive.compactor.failed.compaction.ratio.threshold", Kind.NUMBER, "0.01", "0.01",
            "Part of the last compactions that failed or did not begin.", minimum=0,
            aliases=_aliases("hive.compactor.failed.compaction.ratio.threshold")),
    _integer("hive.compactor.tables.with.aborted.txn.threshold", 1, "Tables with many aborted txns."),
    _integer("hive.metastore.acidmetrics.table.aborted.txns.threshold", 1500,
             "A table with more aborted txns than this has many."),
    _integer("hive.compactor.number.of.disabled.compaction.tables.threshold", 1,
             "Writes to tables that are not compacted automatically."),
    _integer("hive.compactor.completed.txn.components.record.threshold.warning", 500_000,
             "Rows of COMPLETED_TXN_COMPONENTS."),
    _integer("hive.compactor.completed.txn.components.record.threshold.error", 1_000_000, "The same, as an error."),
    _integer("hive.compactor.txn.to.writeid.record.threshold.warning", 500_000, "Rows of TXN_TO_WRITE_ID."),
    _integer("hive.compactor.txn.to.writeid.record.threshold.error", 1_000_000, "The same, as an error."),
    Setting("hive.txn.acid.metrics.delta.num.threshold", Kind.INTEGER, "100", "100",
            "From this number on a table or partition has many deltas.", minimum=1,
            aliases=("metastore.deltametrics.delta.num.threshold",)),
    Setting("hive.txn.acid.metrics.max.cache.size", Kind.INTEGER, "100", "100",
            "At most this many tables and partitions with many deltas are reported.", minimum=0,
            aliases=("metastore.deltametrics.max.cache.size",)),
    _duration("hive.acid.oldest.waiting.threshold.warning", "1h", "s",
              "Ours: age of a txn that waits for locks, and how long somebody has waited for a lease."),
    _duration("hive.acid.oldest.waiting.threshold.error", "6h", "s", "The same, as an error."),
    Setting("hive.exec.copyfile.maxsize", Kind.INTEGER, "10737418240", "33554432",
            "Copies of more bytes than this, of several files, run as a Spark job where a replication has one; bytes.",
            minimum=0),
    _integer("hive.exec.copyfile.maxnumfiles", 1,
             "Copies of this many files or fewer never run as a Spark job.", minimum=0),
    Setting("hive.repl.parallel.copy.tasks", Kind.INTEGER, "8", "1000",
            "Files that a process copies at the same time when it copies them itself.", minimum=1),
    _duration("hive.acid.repl.interval", "5m", "s",
              "Ours: pause between the runs of hive_acid_replication; a run waits for events in between."),
    _duration("hive.acid.repl.lag.threshold.warning", "1h", "s", "Ours: how far a replica is behind its primary."),
    _duration("hive.acid.repl.lag.threshold.error", "1d", "s", "The same, as an error."),
    _duration("hive.acid.repl.event.store.timetolive", "7d", "s",
              "Ours: age at which events leave an event store, once everybody who reads there has read them."),
    _text("hive.acid.cleaner.trash.dir", "",
          "Ours: what compaction replaced is moved to this directory instead of being deleted. Empty: deleted."),
    _duration("hive.acid.cleaner.trash.retention", "1d", "s", "Ours: age at which it is deleted there."),
    # Lineage
    _text("hive.metastore.uris", "",
          "Addresses of Hive's metastore service. Nothing is asked there; the first one names the tables in lineage, "
          "as other engines name them. Empty: host and port of its database."),
    # Files
    _flag("hive.acid.sync.files", True,
          "Ours: files on a local disk, and their directories, are synced before the commit that makes them visible. "
          "Off: a loss of power may take committed rows.", hive=False),
    _text("hive.acid.read.verify", "files",
          "Ours: what reads and compactions compare with what is there, and refuse if it differs. files: the files of "
          "our commits of the last minutes. rows: also the numbers of rows that commits have counted, with the ends of "
          "all files; a stale number of a writer that does not count then fails reads. off: nothing.",
          hive="off", choices=("files", "rows", "off")),
    _text("hive.acid.create.orc.compress", "ZLIB",
          "Ours: the codec (orc.compress) of ORC tables that name none when they are made. ZLIB is Hive's default, and "
          "then nothing is written down. ZSTD takes less CPU for files of about the same size; a Hive 3.1 does not "
          "read it.", choices=("ZLIB", "ZSTD", "SNAPPY", "NONE")),
    # Spark jobs
    _text("hive.acid.spark.accelerator", "auto",
          "Ours: the jar that makes jobs cheaper. auto: used if it was built; off; or the path of a jar.", hive=""),
    _text("hive.acid.spark.s3.uploads", "parts",
          "Ours: how files come to S3 (s3a). parts: each file is uploaded under its final name, and publishing puts "
          "the parts together; this needs the jar above, and rights to list and end uploads. copy: files are written "
          "to staging, and publishing copies them; without the jar, and on other stores, this is the only way.",
          hive="copy", choices=("parts", "copy")),
    _integer("hive.acid.spark.range.bytes", 16 << 20,
             "Ours: a bucket with more bytes of files than this is shared by several tasks of a compaction, and one "
             "with more than four times of it by those of an UPDATE or DELETE, as long as cores would have nothing "
             "to do otherwise. 0: one task for each bucket.", hive="0"),
    _text("hive.acid.spark.service", "",
          "Ours: name or URI of a Spark service that runs statements (hive-acid spark serve); empty: each task starts "
          "a Spark of its own.", hive=""),
    _text("hive.acid.job.environment", "",
          "Ours: variables of the environment that Spark jobs get beside those of "
          "docs/explanation/security.md, comma separated; AWS_* means all that begin so.", hive=""),
    # Notification log
    _flag("hive.metastore.event.db.listener.on", True,
          "Write the events that Hive's DbNotificationListener would write.", hive=False),
    _flag("hive.metastore.dml.events", False, "Write events with the files of each write (ACID_WRITE, INSERT)."),
    _duration("hive.metastore.event.db.listener.timetolive", "1d", "s", "Age at which events are removed."),
    _duration("hive.metastore.event.db.listener.clean.interval", "7200s", "s", "Time between two such removals."),
    _integer("hive.metastore.event.db.clean.maxevents", 10_000, "Events removed in one database transaction.",
             minimum=1),
    _text("hive.metastore.event.message.factory", "gzip(json-2.0)", "Form of event messages.",
          choices=("gzip(json-2.0)", "json-0.2")),
    _text("hive.acid.commit.events", "watcher",
          "Ours: who tells Airflow's assets of commits. watcher: those that watch a table, of every engine's commits; "
          "operators: our operators, of their own, when they succeed, and watchers tell nothing.",
          choices=("watcher", "operators")),
    _flag("hive.acid.unverified.metastores", False,
          "Ours: write also where a vendor's Hive (CDP) counts the txns, whose own protocol was never run beside this "
          "package; off: there, only read."),
    _flag("hive.acid.shared.locations", False,
          "Ours: directories of tables may be the same or lie in one another. Two such tables read, and may delete, "
          "each other's files; DROP then leaves the files where they are.", hive=True),
    # The metastore cache
    _flag("hive.acid.cache.enabled", True,
          "Ours: services that run for long keep tables and partitions in memory, as fresh as their write ids. Off: "
          "they ask the database each time.", hive=False),
    _integer("hive.acid.cache.max.bytes", 268_435_456,
             "Ours: bytes of memory; entries that were not read for the longest time are dropped first.",
             minimum=1_048_576),
    _duration("hive.acid.cache.poll.interval", "1s", "s", "Ours: time between two looks at the notification log.",
              minimum=10),
    _duration("hive.acid.cache.max.lag", "30s", "s",
              "Ours: without a look for longer than this, everything is read from the database."),
)  # fmt: skip

#: All settings by key.
SETTINGS: dict[str, Setting] = {row.key: row for row in _ROWS}
