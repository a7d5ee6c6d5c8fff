"""Tables as Airflow assets: ``hiveacid://<connection id>/<database>/<table>[/<partition>]``.

The connection id stands for the metastore: it is known where a DAG is written, and holds nothing secret. The asset of a
table has the events of all its partitions; one of a partition is for DAGs that care for nothing else.

Who tells of commits is said by ``hive.acid.commit.events``, so that no asset is told of one twice (decision 26): by
default watchers (``triggers.commits.watched_table``), which hear of every engine's commits from the notification log;
or our operators, when they succeed. Both tell the same: :func:`commits` reads either. Compactions are told of by the
Worker, and by nobody else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from airflow.sdk import Asset, AssetAlias

from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from urllib.parse import SplitResult

    from airflow_hive_acid.hooks.interface import ConnectedHook
    from airflow_hive_acid.maintenance.decisions import CompactionOutcome

SCHEME = "hiveacid"
COMPACTIONS = AssetAlias(name="hive_acid_compactions")
"""The outlet of tasks that compact: which tables they will meet is not known when the DAG is written."""
COMMITS = AssetAlias(name="hive_acid_commits")
"""The outlet of operators that tell of their commits."""
EVENTS_SETTING = "hive.acid.commit.events"
WATCHER, OPERATORS = "watcher", "operators"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def table_asset(table: str, conn_id: str = DEFAULT_CONN_ID, partition: str | None = None) -> Asset:
    """The asset of a table or partition, to schedule a DAG on what happens to it.

    :param table: ``db.table``.
    :param conn_id: the connection of type ``hive_acid``.
    :param partition: name of a partition, ``k1=v1/k2=v2``, or of the first keys of several.
    :raises InvalidArgumentsError: for a name that is none.
    """
    from airflow_hive_acid.metastore.names import (  # not needed by the API server
        canonical_partition,
        table_name,
    )

    database, name = table_name(table)
    parts = [database, name]
    if partition is not None:
        parts += canonical_partition(partition).split("/")
    shown = "/".join([f"{database}.{name}", *parts[2:]])
    return Asset(name=f"{conn_id}/{shown}", uri=_uri(conn_id, parts))


def check_uri(uri: SplitResult) -> SplitResult:
    """What Airflow asks of a URI of ours; the same object has one URI, however it was written.

    :raises ValueError: when it does not name connection, database and table, and nothing but a partition after them.
    """
    parts = [unquote(part) for part in uri.path.removeprefix("/").removesuffix("/").split("/")]
    wrong = not uri.netloc or len(parts) < 2 or not all(parts) or uri.query or uri.fragment
    if wrong or any("=" not in part for part in parts[2:]) or any(_CONTROL.search(part) for part in parts):
        raise ValueError(
            f"{SCHEME}://<connection id>/<database>/<table>[/<key>=<value>...] expected, not {uri.geturl()!r}"
        )
    keys = [f"{key.lower()}={value}" for key, _, value in (part.partition("=") for part in parts[2:])]
    return uri._replace(path=_path([parts[0].lower(), parts[1].lower(), *keys]))


def commits(triggering_asset_events: Mapping[Any, Iterable[Any]]) -> list[dict[str, Any]]:
    """The commits for which a DAG run was scheduled, each once, in the order of their time.

    What a watcher had to tell again after a crash says ``redelivered``; twice in one run it is dropped here.

    :param triggering_asset_events: from the task's context.
    :return: the data of each commit (``kind`` ``commit``), and of gaps in the log (``kind`` ``gap``).
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for events in triggering_asset_events.values():
        for event in events:
            payload = (event.extra or {}).get("payload")
            if isinstance(payload, dict) and payload.get("kind") in ("commit", "gap"):
                key = tuple(payload.get(name) for name in ("kind", "conn_id", "table"))
                which = payload.get("txn_id") or ("event", payload.get("event_id"))
                # At a replica one commit may bring several runs of write ids, each told by itself.
                begins = (payload.get("changes") or {}).get("from_write_id")
                found.setdefault((*key, which, begins), payload)
    return sorted(found.values(), key=lambda told: (told.get("time") or 0, told.get("event_id") or 0))


def tell_commits(
    task: Any, context: Mapping[str, Any], hook: ConnectedHook, document: Mapping[str, Any], *, again: bool = False
) -> int:
    """Have a task tell of its commits when it succeeds, if that is the operators' part.

    :param task: the operator; it gets the outlet :data:`COMMITS`.
    :param document: its result, whose ``statements`` name txns and write ids.
    :param again: it may have told of some of them before.
    :return: how many were told of.
    """
    txn_ids = {one["txn_id"] for one in document.get("statements", ()) if one["txn_id"] is not None}
    if not txn_ids or hook.settings.string(EVENTS_SETTING) != OPERATORS:
        return 0
    from airflow_hive_acid.metastore.database import now_ms
    from airflow_hive_acid.metastore.listing import commits_of_txns

    database, conn_id = hook.get_conn().database, hook.hive_acid_conn_id
    found = database.read(
        lambda connection: commits_of_txns(
            connection, database.features(connection), sorted(txn_ids), now_ms(connection) // 1000
        )
    )
    if found and COMMITS not in task.outlets:
        task.outlets = [*task.outlets, COMMITS]
    for commit in found:
        payload = {**commit.to_document(), "conn_id": conn_id, "redelivered": again}
        extra = {"from_trigger": False, "payload": payload}
        context["outlet_events"][COMMITS].add(table_asset(str(commit.table), conn_id), extra=extra)
    return len(found)


def announce(events: Any, conn_id: str, outcomes: Sequence[CompactionOutcome]) -> None:
    """Tell of each compaction that was committed, as an event of its table.

    :param events: ``outlet_events`` of the task's context; the task has the outlet :data:`COMPACTIONS`.
    """
    for outcome in outcomes:
        if not outcome.directories:
            continue
        extra = {
            "kind": "compaction",
            "type": outcome.type.name.lower(),
            "request_id": outcome.request_id,
            "partition": outcome.resource.partition,
            "directories": list(outcome.directories),
            "rows": outcome.rows,
            "highest_write_id": outcome.numbers.get("highest_write_id"),
            "txn_id": outcome.txn_id,
        }
        events[COMPACTIONS].add(table_asset(str(outcome.resource.table_name), conn_id), extra=extra)


def _uri(conn_id: str, parts: Sequence[str]) -> str:
    return f"{SCHEME}://{quote(conn_id, safe='')}{_path(parts)}"


def _path(parts: Sequence[str]) -> str:
    # Partition names are escaped by Hive already; their percent signs are text here.
    return "".join(f"/{quote(part, safe='=')}" for part in parts)
