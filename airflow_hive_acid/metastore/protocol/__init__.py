"""How a txn lives: begin, wait for locks, hand over, commit; the transactions of DDL and of batches; pins.

Several verbs in the order that the protocol demands. What a verb does stands in the rooms below. Imports
``metastore.verbs`` and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.protocol.back_off import total_ms
    from airflow_hive_acid.metastore.protocol.begin import Locks, PendingTransaction, prepare
    from airflow_hive_acid.metastore.protocol.ddl import (
        DdlTransaction,
        database_lock,
        ddl_transaction,
        partition_lock,
        table_lock,
    )
    from airflow_hive_acid.metastore.protocol.handover import Patience, hand_over, patiently, withdraw
    from airflow_hive_acid.metastore.protocol.hive_batches import (
        BatchHeartbeat,
        OpenedBatch,
        Position,
        add_written,
        name_partitions,
        open_batch,
        read_position,
        record_component,
        require_anchor,
    )
    from airflow_hive_acid.metastore.protocol.lock_wait import wait_until_granted
    from airflow_hive_acid.metastore.protocol.lock_watch import GivenUp, Granted, LockWatch, Watched
    from airflow_hive_acid.metastore.protocol.pin_rows import pins_on
    from airflow_hive_acid.metastore.protocol.pins import Pins
    from airflow_hive_acid.metastore.protocol.table_uses import TableUse
    from airflow_hive_acid.metastore.protocol.transaction import ReaderSnapshot, Transaction, read_document
else:
    __getattr__ = lazily(
        __name__,
        {
            "BatchHeartbeat": "hive_batches",
            "DdlTransaction": "ddl",
            "GivenUp": "lock_watch",
            "Granted": "lock_watch",
            "LockWatch": "lock_watch",
            "Locks": "begin",
            "OpenedBatch": "hive_batches",
            "Patience": "handover",
            "PendingTransaction": "begin",
            "Pins": "pins",
            "Position": "hive_batches",
            "ReaderSnapshot": "transaction",
            "TableUse": "table_uses",
            "Transaction": "transaction",
            "Watched": "lock_watch",
            "add_written": "hive_batches",
            "database_lock": "ddl",
            "ddl_transaction": "ddl",
            "hand_over": "handover",
            "name_partitions": "hive_batches",
            "open_batch": "hive_batches",
            "partition_lock": "ddl",
            "patiently": "handover",
            "pins_on": "pin_rows",
            "prepare": "begin",
            "read_document": "transaction",
            "read_position": "hive_batches",
            "record_component": "hive_batches",
            "require_anchor": "hive_batches",
            "table_lock": "ddl",
            "total_ms": "back_off",
            "wait_until_granted": "lock_wait",
            "withdraw": "handover",
        },
    )

__all__ = [
    "BatchHeartbeat",
    "DdlTransaction",
    "GivenUp",
    "Granted",
    "LockWatch",
    "Locks",
    "OpenedBatch",
    "Patience",
    "PendingTransaction",
    "Pins",
    "Position",
    "ReaderSnapshot",
    "TableUse",
    "Transaction",
    "Watched",
    "add_written",
    "database_lock",
    "ddl_transaction",
    "hand_over",
    "name_partitions",
    "open_batch",
    "partition_lock",
    "patiently",
    "pins_on",
    "prepare",
    "read_document",
    "read_position",
    "record_component",
    "require_anchor",
    "table_lock",
    "total_ms",
    "wait_until_granted",
    "withdraw",
]
