"""Notification events of txns, and the form of their messages.

Names, keys and columns are those of Hive's DbNotificationListener (ALLOC_WRITE_ID_EVENT and COMMIT_COMPACTION_EVENT
carry their suffix in the table). A message is JSON, gzipped and base64-coded under ``gzip(json-2.0)``, plain under
``json-0.2``; who reads decides by the row's own MESSAGE_FORMAT.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import time
import zlib
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

GZIP_FORMAT, PLAIN_FORMAT = "gzip(json-2.0)", "json-0.2"
FORMATS = (GZIP_FORMAT, PLAIN_FORMAT)
CATALOG = "hive"
WRITE_ID_RANGES = "writeIdRanges"
_GZIP = 16 + zlib.MAX_WBITS
MAX_MESSAGE = 256 << 20
"""Bytes of an unpacked message: no database takes larger ones of those who write them plain."""


class EventType(Enum):
    """NOTIFICATION_LOG.EVENT_TYPE."""

    OPEN_TXN = "OPEN_TXN"
    COMMIT_TXN = "COMMIT_TXN"
    ABORT_TXN = "ABORT_TXN"
    ALLOC_WRITE_ID = "ALLOC_WRITE_ID_EVENT"
    COMMIT_COMPACTION = "COMMIT_COMPACTION_EVENT"
    CREATE_DATABASE = "CREATE_DATABASE"
    ALTER_DATABASE = "ALTER_DATABASE"
    DROP_DATABASE = "DROP_DATABASE"
    CREATE_TABLE = "CREATE_TABLE"
    ALTER_TABLE = "ALTER_TABLE"
    DROP_TABLE = "DROP_TABLE"
    ADD_PARTITION = "ADD_PARTITION"
    ALTER_PARTITION = "ALTER_PARTITION"
    ALTER_PARTITIONS = "ALTER_PARTITIONS"
    DROP_PARTITION = "DROP_PARTITION"
    INSERT = "INSERT"


@dataclass(frozen=True, slots=True)
class Event:
    """An event to be written.

    :param message: its own keys; server, servicePrincipal and timestamp are added.
    :param database: and ``table``: what it is about, None for txn events.
    """

    type: EventType
    message: Mapping[str, Any] = field(default_factory=dict)
    database: str | None = None
    table: str | None = None


def open_txn(txn_ids: Sequence[int]) -> Event:
    """Txns were opened."""
    return Event(EventType.OPEN_TXN, {"txnIds": list(txn_ids), "fromTxnId": min(txn_ids), "toTxnId": max(txn_ids)})


def commit_txn(
    txn_id: int, writes: Iterable[tuple[str, int]], ranges: Mapping[str, Sequence[tuple[int, int]]] | None = None
) -> Event:
    """A txn was committed.

    :param writes: database and write id of each table written.
    :param ranges: by ``db.table``, the write ids that its commit tells of, where these are not just its own. A key of
        ours, which a Hive passes over.
    """
    listed = sorted(set(writes))
    return Event(
        EventType.COMMIT_TXN,
        {
            **({} if not ranges else {WRITE_ID_RANGES: {table: list(runs) for table, runs in ranges.items()}}),
            "txnid": txn_id,
            "writeIds": [w for _, w in listed],
            "databases": [d for d, _ in listed],
            "tables": None,
            "partitions": None,
            "tableObjs": None,
            "partitionObjs": None,
            "files": None,
        },
    )


def abort_txn(txn_id: int, writes: Iterable[tuple[str, int]]) -> Event:
    """A txn was aborted.

    :param writes: database and write id of each table it had a write id of.
    """
    listed = sorted(set(writes))
    return Event(
        EventType.ABORT_TXN,
        {"txnid": txn_id, "dbsUpdated": sorted({d for d, _ in listed}), "writeIds": [w for _, w in listed]},
    )


def alloc_write_id(database: str, table: str, allocated: Mapping[int, int]) -> Event:
    """Write ids were given to txns."""
    pairs = sorted(allocated.items())
    return Event(
        EventType.ALLOC_WRITE_ID,
        {
            "dbName": database,
            "tableName": table,
            "txnIdList": [t for t, _ in pairs],
            "writeIdList": [w for _, w in pairs],
        },
        database,
        table,
    )


def commit_compaction(
    txn_id: int, compaction_id: int, kind: str, database: str, table: str, partition: str | None
) -> Event:
    """A compaction's txn was committed."""
    return Event(
        EventType.COMMIT_COMPACTION,
        {
            "txnid": txn_id,
            "compactionId": compaction_id,
            "type": kind,
            "dbname": database,
            "tableName": table,
            "partName": partition,
        },
        database,
        table,
    )


def encode(message: Mapping[str, Any], message_format: str) -> str:
    """A message as the log holds it."""
    body = {"server": "", "servicePrincipal": "", "timestamp": int(time.time()), **message}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    if message_format == PLAIN_FORMAT:
        return text
    if message_format == GZIP_FORMAT:
        # No time in the header: the same message is the same text.
        return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")
    raise InvalidArgumentsError(f"{message_format!r} is no message format; use one of {', '.join(FORMATS)}")


def _unpacked(data: bytes) -> bytes:
    text = b""
    while data:
        # GzipFile reads in pieces, too, and takes four times as long for a message of usual size.
        unpacker = zlib.decompressobj(wbits=_GZIP)
        text += unpacker.decompress(data, MAX_MESSAGE + 1 - len(text))
        if len(text) > MAX_MESSAGE:
            raise ValueError(f"it is larger than {MAX_MESSAGE} bytes when unpacked")
        if not unpacker.eof:
            raise EOFError("it ends in the middle")
        data = unpacker.unused_data.lstrip(b"\0")
    return text


def decode(message: str, message_format: str | None) -> dict[str, Any]:
    """A message from the log.

    :raises InvalidArgumentsError: when it is not of the format its row names.
    """
    try:
        text = message
        if message_format == GZIP_FORMAT:
            text = _unpacked(base64.b64decode(message, validate=True)).decode()
        decoded = json.loads(text)
    except (binascii.Error, OSError, EOFError, zlib.error, RecursionError, ValueError) as error:
        raise InvalidArgumentsError(f"an event's message is not of its format {message_format!r}: {error}") from None
    if not isinstance(decoded, dict):
        raise InvalidArgumentsError("an event's message is no JSON object")
    return decoded
