"""The verbs of a replication target: what its replay of another Hive's txns calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, insert

from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.database.codes import AbortReason, TxnType
from airflow_hive_acid.metastore.database.database import Repeat
from airflow_hive_acid.metastore.names.objects import canonical_partition, table_name
from airflow_hive_acid.metastore.notifications import events
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS
from airflow_hive_acid.metastore.setup.abilities import require_hive_4
from airflow_hive_acid.metastore.txns import aborts, commits, replicas, txns
from airflow_hive_acid.metastore.txns import events as txn_events
from airflow_hive_acid.metastore.txns.opens import open_in_time
from airflow_hive_acid.metastore.txns.write_ids import max_allocated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.verbs import Verbs


_UNNAME = delete(TXN_COMPONENTS).where(
    TXN_COMPONENTS.c.TC_TXNID == bindparam("txn_id"), TXN_COMPONENTS.c.TC_OPERATION_TYPE == "c"
)


def unname_places(connection: Connection, txn_id: int) -> None:
    """Forget what :meth:`Replica.name_places` has recorded: the txn commits."""
    connection.execute(_UNNAME, {"txn_id": txn_id})


class Replica:
    """Replays txns under a policy: whatever is replayed twice is done once.

    :param policy: name of the replication policy; source txn ids are unique within it.
    """

    def __init__(self, client: Verbs, policy: str) -> None:
        self._client = client
        self._policy = policy

    def open_txns(self, source_txns: Sequence[int]) -> list[int]:
        """Open a txn here for each source txn, in order; those opened before are returned again."""
        client = self._client
        require_hive_4(client.database.layout(), "a replica", "replicate to a metastore of this package or of Hive 4")
        request = txns.OpenRequest(client.user, client.host, 1, TxnType.REPL_CREATED, f"replication {self._policy}")

        # Idempotent, unlike other opens: the mapping tells what a lost reply did.
        ours = False

        def operation(connection: Connection) -> list[int]:
            nonlocal ours
            known = replicas.mapped(connection, self._policy, source_txns)
            targets = replicas.open_replicated(
                connection,
                self._policy,
                source_txns,
                request,
                client.database.features(connection),
                client.gap_timeout_ms,
            )
            if not known:
                client.notifications.write(connection, [events.open_txn(targets)])
                ours = True
            return targets

        def undo(connection: Connection, targets: list[int]) -> None:
            if not ours:
                return  # opened earlier, so there was time to see them
            features = client.database.features(connection)
            aborted = aborts.abort_txns(connection, targets, features, AbortReason.OPENED_LATE).aborted
            for target in aborted:
                replicas.forget_mapping(connection, target)
            txn_events.aborted(connection, client.notifications, aborted)

        return open_in_time(
            client.database, client.gap_timeout_ms, lambda: client.database.run(operation, retry_duplicates=True), undo
        )

    def target_of(self, source_txn: int) -> int | None:
        """The txn here, None when it is not open (any more)."""
        return self._client.database.read(
            lambda connection: replicas.mapped(connection, self._policy, [source_txn]).get(source_txn)
        )

    def name_places(
        self,
        txn_id: int,
        places: Iterable[tuple[str, str | None, int]],
        require: Callable[[Connection], object] = lambda _connection: None,
    ) -> None:
        """Record where a txn of a sync is about to put directories that carry its id, as a compaction does.

        Before it does: whoever aborts the txn then, a Hive's reaper among them, leaves it behind as aborted until a
        Cleaner has removed them. A txn that is forgotten counts as committed, and they would be seen (R4).

        :param places: table, partition and largest write id of what goes there.
        :param require: asked first, in the same transaction, whether the sync still counts: another one that brings the
            same state has the same txn, and these places would take the place of its own (R5).
        :raises TxnAbortedError: when it is aborted; :raises NoSuchTxnError: when it has ended.
        """
        rows = [
            {
                "TC_TXNID": txn_id, "TC_DATABASE": name.database, "TC_TABLE": name.name, "TC_PARTITION": partition,
                "TC_OPERATION_TYPE": "c", "TC_WRITEID": write_id,
            }
            for name, partition, write_id in ((table_name(table), p, w) for table, p, w in places)
        ]  # fmt: skip

        def operation(connection: Connection) -> None:
            require(connection)
            step = txns.lock_txn_step(txn_id)
            txns.require_open(connection, txn_id, connection.execute(step.statement, dict(step.parameters)).all())
            unname_places(connection, txn_id)  # a repeated call, or those of a sync that was killed
            if rows:
                connection.execute(insert(TXN_COMPONENTS), rows)

        self._client.database.run(operation)

    def allocate_write_ids(self, table: str, writes: Iterable[tuple[int, int]]) -> dict[int, int]:
        """Give the txns the source's write ids.

        :param writes: pairs of source txn and its write id.
        """
        name = table_name(table)
        wanted = [replicas.SourceWrite(*w) for w in writes]

        def operation(connection: Connection) -> dict[int, int]:
            before = max_allocated(connection, name)
            pairs = replicas.allocate_replicated(connection, self._policy, name, wanted)
            if before >= max(pairs.values()):
                return pairs  # replayed before
            self._client.notifications.write(connection, [events.alloc_write_id(name.database, name.name, pairs)])
            return pairs

        return self._client.database.run(operation, retry_duplicates=True)

    def commit_txn(self, source_txn: int, writes: Iterable[tuple[str, str | None, int]] = ()) -> None:
        """Commit what the source committed; without mapping it was done before, and nothing happens.

        :param writes: what the source recorded: table, partition, write id.
        """
        log = self._client.notifications
        record = tuple((*table_name(t), None if p is None else canonical_partition(p), w) for t, p, w in writes)

        def operation(connection: Connection) -> None:
            target = replicas.mapped(connection, self._policy, [source_txn]).get(source_txn)
            if target is None:
                return
            hooks = commits.CommitHooks(events=lambda c, facts: txn_events.committed(c, log, facts))
            request = commits.CommitRequest(
                target, hooks=hooks, replayed=commits.Replayed(self._policy, source_txn, record)
            )
            commits.commit_txn(connection, request, self._client.database.features(connection))

        self._client.database.run(operation)

    def abort_txn(self, source_txn: int) -> None:
        """Abort what the source aborted; without mapping it was done before, and nothing happens."""

        def operation(connection: Connection) -> None:
            target = replicas.mapped(connection, self._policy, [source_txn]).get(source_txn)
            if target is None:
                return
            aborts.abort_txn(connection, target, self._client.database.features(connection), AbortReason.REPLICATION)
            replicas.forget_mapping(connection, target)
            txn_events.aborted(connection, self._client.notifications, [target])

        self._client.database.run(operation)

    def set_write_id_state(self, write_ids: ValidWriteIdList | str, partitions: Sequence[str] = ()) -> bool:
        """Make the write ids of a table that was just copied what they are at the source.

        Where aborted ids are among them, the copied files may hold their rows: a major compaction of the table, or of
        each partition, is asked for.

        :returns: false when the table has write ids already.
        """
        state = ValidWriteIdList.parse(write_ids) if isinstance(write_ids, str) else write_ids
        name = table_name(state.table or "")
        client = self._client
        request = txns.OpenRequest(client.user, client.host, 1, TxnType.DEFAULT, f"replication {self._policy}")

        def operation(connection: Connection) -> bool:
            return replicas.set_write_id_state(
                connection, name, state, request, client.database.features(connection), client.gap_timeout_ms
            )

        done = client.database.run(operation, Repeat.BEFORE_COMMIT, retry_duplicates=True)
        if done and state.aborted:
            for partition in partitions or (None,):
                client.compactions.enqueue(str(name), partition)
        return done
