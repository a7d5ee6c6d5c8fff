"""What the metastore knows of txns that have committed: read for many of them at once, for ``commit_events``.

Hive has no index on the txn ids of these tables, but one on the table's name. So what a txn has written is looked for
by table where its tables are known (from ALLOC_WRITE_ID events), and only otherwise by a scan of TXN_TO_WRITE_ID, which
is kept short by housekeeping.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, exists, or_, select

from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.listing.commit_events import CommitFacts, Component, Volume, Written, commit_of
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.names.partitions import catalog_names
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    HIVE_ACID_JOB,
    TXN_TO_WRITE_ID,
    TXNS,
    WRITE_SET,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features
    from airflow_hive_acid.metastore.listing.commit_events import TableCommit

_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_DB, _TBL = bindparam("db", type_=sa.String), bindparam("tbl", type_=sa.String)
_T, _C, _W, _J = TXN_TO_WRITE_ID.c, COMPLETED_TXN_COMPONENTS.c, WRITE_SET.c, HIVE_ACID_JOB.c
_WRITE_IDS = select(_T.T2W_TXNID, _T.T2W_DATABASE, _T.T2W_TABLE, _T.T2W_WRITEID).where(_T.T2W_TXNID.in_(_IDS))
_COMPONENTS = select(_C.CTC_TXNID, _C.CTC_PARTITION, _C.CTC_UPDATE_DELETE).where(
    _C.CTC_DATABASE == _DB, _C.CTC_TABLE == _TBL, _C.CTC_TXNID.in_(_IDS)
)
_WRITE_IDS_OF_COMPONENTS = (
    select(_C.CTC_TXNID, _C.CTC_DATABASE, _C.CTC_TABLE, _C.CTC_WRITEID)
    .where(_C.CTC_TXNID.in_(_IDS), _C.CTC_WRITEID.is_not(None))
    .distinct()
)
_CHANGES = (
    select(_W.WS_TXNID, _W.WS_PARTITION, _W.WS_OPERATION_TYPE)
    .where(_W.WS_DATABASE == _DB, _W.WS_TABLE == _TBL, _W.WS_TXNID.in_(_IDS))
    .distinct()
)
_CHANGING = ("u", "d")
_OWNERS = select(TXNS.c.TXN_ID, TXNS.c.TXN_USER, TXNS.c.TXN_AGENT_INFO).where(TXNS.c.TXN_ID.in_(_IDS))
#: In the order of attempts: of each statement the last one counts (R5).
_JOBS = (
    select(_J.HAJ_TXNID, _J.HAJ_DATABASE, _J.HAJ_TABLE, _J.HAJ_STATEMENT, _J.HAJ_MANIFEST)
    .where(_J.HAJ_TXNID.in_(_IDS), _J.HAJ_STATE == "c", _J.HAJ_MANIFEST.is_not(None))
    .order_by(_J.HAJ_ATTEMPT)
)
_Q, _D = COMPACTION_QUEUE.c, COMPLETED_COMPACTIONS.c
#: A later commit lets a Hive drop older components; a compaction drops those up to its highest write id.
_TIDIED = select(
    or_(
        exists().where(_C.CTC_DATABASE == _DB, _C.CTC_TABLE == _TBL, _C.CTC_TXNID > bindparam("txn_id")),
        exists().where(
            _Q.CQ_DATABASE == _DB, _Q.CQ_TABLE == _TBL, _Q.CQ_HIGHEST_WRITE_ID >= bindparam("write_id")
        ),
        exists().where(
            _D.CC_DATABASE == _DB, _D.CC_TABLE == _TBL, _D.CC_HIGHEST_WRITE_ID >= bindparam("write_id")
        ),
    )
)  # fmt: skip

_MAYBE = sa.union(
    select(_C.CTC_PARTITION).where(_C.CTC_DATABASE == _DB, _C.CTC_TABLE == _TBL, _C.CTC_TXNID > bindparam("txn_id")),
    select(_Q.CQ_PARTITION).where(
        _Q.CQ_DATABASE == _DB, _Q.CQ_TABLE == _TBL, _Q.CQ_HIGHEST_WRITE_ID >= bindparam("write_id")
    ),
    select(_D.CC_PARTITION).where(
        _D.CC_DATABASE == _DB, _D.CC_TABLE == _TBL, _D.CC_HIGHEST_WRITE_ID >= bindparam("write_id")
    ),
)


def read_facts(
    connection: Connection,
    features: Features,
    txn_ids: Sequence[int],
    allocated: Mapping[Written, int],
    *,
    late: bool = False,
) -> CommitFacts:
    """What is known of txns that have committed.

    :param allocated: write ids of those txns that events told of; the others are looked up.
    :param late: minutes have passed since, so that housekeeping may have tidied up some of it.
    """
    write_ids = dict(allocated)
    for statement in (_WRITE_IDS, *((_WRITE_IDS_OF_COMPONENTS,) if late else ())):
        told = {txn_id for txn_id, _ in write_ids}
        write_ids |= _write_ids(connection, statement, [txn_id for txn_id in txn_ids if txn_id not in told])
    components: dict[Written, list[Component]] = defaultdict(list)
    changes: dict[Written, list[str]] = defaultdict(list)
    for table, ids in _by_table(write_ids).items():
        named = {"db": table.database, "tbl": table.name}
        for part in chunks(ids):
            completed = connection.execute(_COMPONENTS, {**named, "ids": part}).all()
            changed_rows = connection.execute(_CHANGES, {**named, "ids": part}).all()
            written = (partition for _, partition, *_ in (*completed, *changed_rows))
            names = catalog_names(connection, table, [partition for partition in written if partition])
            for txn_id, partition, changed in completed:
                components[txn_id, table].append(Component(names.get(partition, ""), changed == "Y"))
            # A write set of ours holds a name that needs escapes under both of its spellings.
            for txn_id, partition, letter in sorted({(t, names.get(p, ""), letter) for t, p, letter in changed_rows}):
                if letter in _CHANGING:
                    changes[txn_id, table].append(partition)
    volumes = _volumes(connection, txn_ids) if features.extensions else {}
    # Of ours it is known when they wrote nothing.
    unwritten = {
        key: write_id
        for key, write_id in write_ids.items()
        if key not in components and (key not in volumes or volumes[key].files)
    }
    return CommitFacts(
        write_ids=write_ids,
        components=components,
        changes=changes,
        maybe={
            key: _maybe(connection, key, write_id) for key, write_id in write_ids.items() if late and key in components
        },
        volumes=volumes,
        tidied=frozenset(key for key, write_id in unwritten.items() if _is_tidied(connection, key, write_id)),
        owners=_owners(connection, {txn_id for txn_id, _ in write_ids}),
    )


def commits_of_txns(connection: Connection, features: Features, txn_ids: Sequence[int], time: int) -> list[TableCommit]:
    """What txns have committed, as the log tells it, without the log.

    :param time: when, seconds since 1970.
    """
    facts = read_facts(connection, features, txn_ids, {})
    found = (commit_of(txn_id, table, facts, time) for txn_id, table in sorted(facts.write_ids))
    return [commit for commit in found if commit is not None]


def _write_ids(connection: Connection, statement: sa.Select[Any], txn_ids: Sequence[int]) -> dict[Written, int]:
    return {
        (txn_id, TableName(database, name)): write_id
        for part in chunks(txn_ids)
        for txn_id, database, name, write_id in connection.execute(statement, {"ids": part})
    }


def _by_table(keys: Iterable[Written]) -> dict[TableName, list[int]]:
    found: dict[TableName, list[int]] = defaultdict(list)
    for txn_id, table in keys:
        found[table].append(txn_id)
    return found


def _is_tidied(connection: Connection, key: Written, write_id: int) -> bool:
    txn_id, table = key
    values = {"db": table.database, "tbl": table.name, "txn_id": txn_id, "write_id": write_id}
    return bool(connection.execute(_TIDIED, values).scalar())


def _maybe(connection: Connection, key: Written, write_id: int) -> frozenset[str]:
    txn_id, table = key
    values = {"db": table.database, "tbl": table.name, "txn_id": txn_id, "write_id": write_id}
    stored = [name for name in connection.execute(_MAYBE, values).scalars() if name]
    return frozenset(catalog_names(connection, table, stored).values())


def _owners(connection: Connection, txn_ids: Iterable[int]) -> dict[int, tuple[str, str | None]]:
    return {
        txn_id: (user, agent)
        for part in chunks(sorted(txn_ids))
        for txn_id, user, agent in connection.execute(_OWNERS, {"ids": part})
    }


def _volumes(connection: Connection, txn_ids: Sequence[int]) -> dict[Written, Volume]:
    last = {
        (txn_id, TableName(database, name), statement): manifest
        for part in chunks(txn_ids)
        for txn_id, database, name, statement, manifest in connection.execute(_JOBS, {"ids": part})
    }
    found: dict[Written, Volume] = {}
    for (txn_id, table, _), manifest in last.items():
        key, volume = (txn_id, table), _volume(json.loads(manifest))
        found[key] = found[key] + volume if key in found else volume
    return found


def _volume(manifest: Mapping[str, Any]) -> Volume:
    # Of a partition that was dropped a manifest names the directory alone.
    directories = [d for d in manifest.get("directories", ()) if not isinstance(d, str)]
    sizes = [int(size) for directory in directories for _, size in directory["files"]]
    rows = manifest.get("rows") or {}
    return Volume(rows.get("inserted"), rows.get("updated"), rows.get("deleted"), len(sizes), sum(sizes))
