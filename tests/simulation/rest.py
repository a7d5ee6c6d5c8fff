"""What must be true when everything has come to rest: maintenance has left nothing but what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.format.names import parse_directory

from .model import Violated

if TYPE_CHECKING:
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

    from .rows import Place
    from .world import World

_DATABASE = ("sim", "warehouse", "s.db")
_TRASH = ("sim", "trash")
_COUNTS = {
    "open txns": "SELECT COUNT(*) FROM TXNS WHERE TXN_STATE = 'o'",
    "aborted txns": "SELECT COUNT(*) FROM TXNS WHERE TXN_STATE = 'a' AND TXN_ID < (SELECT MAX(TXN_ID) FROM TXNS)",
    "locks": "SELECT COUNT(*) FROM HIVE_LOCKS",
    "components": "SELECT COUNT(*) FROM TXN_COMPONENTS",
    "compactions under way": "SELECT COUNT(*) FROM COMPACTION_QUEUE",
}


def require_rest(world: World) -> None:
    """Nothing is under way, and nothing lies about.

    :raises Violated: says what was left behind.
    """
    left = {what: world.metastore.raw.execute(query).fetchone()[0] for what, query in _COUNTS.items()}
    if any(left.values()):
        raise Violated(f"left behind after maintenance: {', '.join(f'{n} {w}' for w, n in left.items() if n)}")
    for place in filter(world.model.is_there, world.places):
        _require_only_what_is_read(world, place)
    known = {location.rpartition("/")[2] for location in world.model.locations()}
    unknown = sorted(set(world.fs.node(_DATABASE) or ()) - known)
    if unknown:
        raise Violated(f"left behind by tables that are gone: {', '.join(unknown)}")
    # Of each table an empty directory stays.
    trash = world.fs.node(_TRASH)
    batches = sorted(
        name for home in (trash.values() if isinstance(trash, dict) else ()) if isinstance(home, dict) for name in home
    )
    if batches:
        raise Violated(f"left behind in the trash: {', '.join(batches)}")


def _require_only_what_is_read(world: World, place: Place) -> None:
    node = world.fs.node(place.parts)
    write_ids, txns = world.model.lists(place)
    # What a file stands for is a fence; it goes with the record of its job.
    names = [n for n, child in (node.items() if isinstance(node, dict) else ()) if isinstance(child, dict)]
    staging = [name for name in names if name.startswith("_tmp_")]
    written = [name for name in names if name.startswith(("base_", "delta_", "delete_delta_"))]
    garbage = [name for name in written if _is_garbage(name, write_ids, txns)]
    if staging or garbage:
        raise Violated(f"left behind in {place}: {', '.join(staging + garbage)}")


def _is_garbage(name: str, write_ids: ValidWriteIdList, txns: ValidTxnList) -> bool:
    directory = parse_directory(name)
    if directory is None:
        return True
    if directory.visibility_txn_id:
        return not txns.is_valid(directory.visibility_txn_id)
    return bool(write_ids.is_range_aborted(directory.min_write_id, directory.max_write_id))
