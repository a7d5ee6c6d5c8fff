"""How the locks of the Hive Concurrency Model look in ZooKeeper: paths, names of nodes, their data, and who is first.

``/<namespace>/<db>/<table>/<k=v>/…/read-<number>`` is an S lock of an object, ``write-<number>`` an X lock; ZooKeeper
appends the number, which only grows. A persistent ``txn-<id>`` beside them says that the owner of an X lock works in
that txn (R4). The data begins with the fields of Hive's HiveLockObjectData, in its order; Hive ignores what follows.

Any text can be the name of an object: what ZooKeeper or this layout would read as something else is escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self

    from airflow_hive_acid.metastore.locks.legacy.concurrency_model import Object

#: Prefix of a lock's node, by mode.
PREFIXES: Mapping[str, str] = {"s": "read-", "x": "write-"}
TXN_PREFIX = "txn-"
_MODES = {prefix: mode for mode, prefix in PREFIXES.items()}
_LOCK = re.compile(r"(read-|write-)(-?[0-9]{9,10})")
_TXN = re.compile(r"txn-([0-9]+)")
_CALLS_FOR_ESCAPES = re.compile(r"\.{1,2}|(read|write|txn)-.*")
_NUMBERS = 1 << 32


@dataclass(frozen=True, slots=True)
class LockNode:
    """The node of a lock, wanted or held.

    :param name: ``read-0000000007``, for example.
    :param mode: ``s`` or ``x``.
    :param number: what ZooKeeper appended, a counter of 32 bits that overflows.
    """

    name: str
    mode: str
    number: int

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The node of that name; None when it is no lock's."""
        found = _LOCK.fullmatch(name)
        return None if found is None else cls(name, _MODES[found[1]], int(found[2]))

    def is_before(self, other: LockNode) -> bool:
        """Whether this one was made first. More than half the counter's range apart means that it has overflowed."""
        return (self.number - other.number) % _NUMBERS > _NUMBERS // 2


@dataclass(frozen=True, slots=True)
class LockData:
    """The data of a lock's node: what Hive writes, and what else SHOW LOCKS tells.

    :param lock_time: milliseconds by the clock of whoever asked.
    :param host: Hive's clientIp.
    :param lock_id: of the request; 0 in its first node, whose creation (czxid) is the id.
    :param number: which of the request's nodes it is.
    """

    query_id: str | None
    lock_time: int
    query: str | None
    host: str
    lock_id: int
    number: int
    user: str
    agent_info: str | None
    txn_id: int = 0

    def encode(self) -> bytes:
        """``queryId:lockTime:lockMode:queryStr:clientIp``, then our fields; a colon in a field is escaped."""
        hive = (self.query_id or "", self.lock_time, "IMPLICIT", self.query or "", self.host)
        ours = (self.lock_id, self.number, self.user, self.agent_info or "", self.txn_id)
        return ":".join(_field(str(value)) for value in (*hive, *ours)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read data of ours, or of anybody who writes Hive's fields; what cannot be read is left empty."""
        fields = [unquote(field) for field in data.decode(errors="replace").split(":")]
        query_id, lock_time, _, query, host, lock_id, number, user, agent, txn_id = (fields + [""] * 10)[:10]
        return cls(
            query_id or None, _number(lock_time), query or None, host, _number(lock_id), _number(number), user,
            agent or None, _number(txn_id),
        )  # fmt: skip


def first_in_the_way(mine: LockNode, siblings: Iterable[str]) -> LockNode | None:
    """The recipe's check: a lock made earlier that this one cannot be held beside.

    :param siblings: names of all nodes below the object.
    """
    nodes = (node for node in map(LockNode.parse, siblings) if node is not None)
    earlier = [node for node in nodes if node.is_before(mine) and "x" in (node.mode, mine.mode)]
    for node in earlier:
        if not any(other.is_before(node) for other in earlier):
            return node
    return None


def txns_among(names: Iterable[str]) -> list[int]:
    """The txns whose nodes are among the names below an object."""
    return sorted(int(found[1]) for found in map(_TXN.fullmatch, names) if found is not None)


def is_object(name: str) -> bool:
    """Whether a node is an object, and not a lock of its parent."""
    return LockNode.parse(name) is None and _TXN.fullmatch(name) is None


def path_of(root: str, place: Object) -> str:
    """The path of an object.

    :param root: the namespace's path.
    """
    database, table, partition = place
    parts = [database, *filter(None, [table]), *(partition.split("/") if partition else ())]
    return "/".join([root, *map(escape, parts)])


def object_at(root: str, path: str) -> Object:
    """The object that a path names."""
    parts = [unquote(part) for part in path[len(root) + 1 :].split("/")]
    return parts[0], parts[1] if len(parts) > 1 else "", "/".join(parts[2:])


def escape(name: str) -> str:
    """A name as one component of a path: no slash, no control character, not ``.``, nor the name of a lock's node."""
    escaped = quote(name, safe="=")
    if _CALLS_FOR_ESCAPES.fullmatch(escaped):
        return escaped.replace(".", "%2E").replace("-", "%2D", 1)
    return escaped


def _field(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A")


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else 0
