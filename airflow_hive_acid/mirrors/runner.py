"""One run of a mirror: a look, a reader, a Spark job, a note.

The look needs no Spark: when our record says that the target has everything, nothing is started. Otherwise a reader is
opened, what it sees is told to the job (``spark.mirrors.run``), and the job looks at the target, decides again and
makes one commit. What it reports is noted here; if we die before, the target still says it, and the next run finds out.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.statements.programs import Call
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, MirrorRefusedError
from airflow_hive_acid.format.mirrors import MirrorState, MirrorTarget, Todo, checked_key, decide
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.mirrors.reports import MirrorReport, Verification
from airflow_hive_acid.mirrors.source import is_other_log, latest_event, look
from airflow_hive_acid.python_versions import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.records import Mirror

_MODULE = "airflow_hive_acid.spark.mirrors.run"


def run_mirror(
    client: MetastoreClient,
    open_engine: Callable[[], contextlib.AbstractContextManager[Engine]],
    table: str,
    target: str,
    *,
    key: Sequence[str] | str | None = None,
    bootstrap: bool = False,
    refuse_bootstrap: bool = False,
) -> MirrorReport:
    """Bring a mirror to the newest state of its table up to which all write ids have ended.

    :param open_engine: gives an engine, as a context manager; called only when there is something to do.
    :param table: ``db.table``, an ACID table.
    :param target: ``iceberg:catalog.db.table`` or ``delta:/path``.
    :param key: columns that tell rows apart; an empty list: rows are known by their ROW__ID; None: as before, which is
        by ROW__ID the first time.
    :param bootstrap: copy it whole, whatever it holds.
    :param refuse_bootstrap: fail instead of copying it whole again when it cannot follow.
    :raises MirrorKeyError: two rows have the same key; the target was not changed.
    :raises MirrorConflictError: somebody else changed the target in the same moment; try again.
    :raises MirrorRefusedError: it cannot follow, and may not be copied again; or the target is no mirror.
    """
    name, place, wanted = str(table_name(table)), str(MirrorTarget.parse(target)), checked_key(key)
    if bootstrap and refuse_bootstrap:
        raise InvalidArgumentsError("a mirror is to be copied again, or is not: give one of the two")
    seen = look(client, name)  # before it is registered: a name that is none leaves no record
    _require_not_primary(client, place, name)
    record = client.mirrors.register(name, place, client.user)
    if record.primary is not None:
        raise MirrorRefusedError(
            f"{place} is the primary of {name}, which is read-only: there is nothing to follow. Take the table back "
            "(hive-acid mirror take-back) to go on"
        )
    try:
        state = _state(record)
        if state is not None and not bootstrap:
            decision = decide(state, seen.source, wanted)
            if decision.todo is Todo.NOTHING:
                client.mirrors.note_looked(name, place)
                return MirrorReport(
                    name, place, decision.todo.value, decision.reason, state.write_id, state.key, spark=False
                )
        with open_engine() as engine, _reader(client, engine, name) as call:
            asked = {
                "target": place, "key": None if wanted is None else list(wanted), "sequence": record.sequence,
                "again": bootstrap, "refuse": refuse_bootstrap, "event": latest_event(client),
                "known": None if state is None else state.event,
            }  # fmt: skip
            told = call("follow", asked)
            # The target has a state that is not noted here: of a run that died, or from before a restore.
            if (event := told.get("unknown")) is not None:
                told = call("follow", {**asked, "other_log": is_other_log(client, event)})
    except HiveAcidError as failure:
        _note_failure(client, name, place, failure)
        raise
    after = MirrorState.parse(told["state"])
    did = None if told["todo"] == Todo.NOTHING.value else (told["todo"], told["reason"])
    client.mirrors.note_state(name, place, after.sequence, after.write_id, told["state"], did)
    return MirrorReport(
        name, place, told["todo"], told["reason"], after.write_id, after.key, told["inserted"], told["updated"],
        told["deleted"],
    )  # fmt: skip


def verify_mirror(client: MetastoreClient, engine: Engine, table: str, target: str) -> Verification:
    """Compare a mirror with its table as it was at the mirror's state: rows and checksums of each partition.

    :raises MirrorDivergedError: when the target holds no state, or has to follow first.
    :raises HistoryGoneError: when the table cannot be read any more as it was then; run the mirror, then verify.
    """
    name, place = str(table_name(table)), str(MirrorTarget.parse(target))
    look(client, name)  # before anything is started for a name that is none
    with _reader(client, engine, name) as call:
        told = call("verify", {"target": place})
    client.mirrors.register(name, place, client.user)
    state = MirrorState.parse(told["state"])
    client.mirrors.note_verified(name, place, told["differ"], told["different"])
    source_rows, target_rows = told["rows"]
    return Verification(
        name, place, state.write_id, source_rows, target_rows, told["partitions"], told["differ"],
        tuple(told["different"]),
    )  # fmt: skip


def _require_not_primary(client: MetastoreClient, target: str, table: str) -> None:
    """What a table was handed over to is written there, and is no copy of another one."""
    for other in client.mirrors.list():
        if other.target == target and other.primary is not None and other.table != table:
            raise MirrorRefusedError(
                f"{target} is the primary of {other.table}: {table} would take the place of the rows that are written "
                "there. Nothing was changed; name another target"
            )


@contextlib.contextmanager
def _reader(client: MetastoreClient, engine: Engine, table: str) -> Iterator[Callable[[str, dict[str, Any]], Any]]:
    """A reader of the table, in which functions of the job are called, each with arguments."""
    ended = client.get_valid_txns()  # before the reader looks
    with engine.begin({table: "select"}) as reader:
        seen = look(client, table, reader.snapshot(table), ended)
        given = {
            "source": seen.source.to_document(), "cleaned": seen.cleaned, "partition_ids": seen.partition_ids,
            "altered": seen.altered,
        }  # fmt: skip

        def call(function: str, arguments: dict[str, Any]) -> Any:
            asked = Call(
                f"mirror of {table}", {table: "select"}, module=_MODULE, function=function,
                arguments={**arguments, **given},
            )  # fmt: skip
            rows = reader.call(asked).rows
            if rows is None:
                raise AssertionError("a job without an answer")
            return json.loads(rows.rows[0][0])

        yield call


def _state(record: Mirror) -> MirrorState | None:
    """The state that we know; one that a newer release has noted is asked of the target instead."""
    if record.state is None:
        return None
    try:
        return MirrorState.parse(record.state)
    except InvalidArgumentsError:
        return None


def _note_failure(client: MetastoreClient, table: str, target: str, failure: HiveAcidError) -> None:
    try:
        client.mirrors.note_failure(table, target, str(failure))
    except HiveAcidError as second:
        add_note(failure, f"that it failed could not be noted: {second}")
