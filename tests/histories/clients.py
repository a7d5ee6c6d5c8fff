"""A client of the history checker: a process that begins, reads, writes files and commits, until it is killed.

It uses the product's client for the protocol and the product's rules for what a snapshot sees of a directory; the files
are empty, since their names say who wrote them. What happened goes line by line to a file that outlives the process.

``broken`` leaves a step of the protocol out, to show that the checker finds what would happen without it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import HiveAcidError, MetastoreUnavailableError
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.names import delta_name
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.protocol import begin as beginning
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

TABLES, EPOCH = 3, 12
"""So many tables are in use at a time; after so many txns of a client it goes on with others."""
BROKEN = ("conflicts", "snapshots", "visibility", "order")


def settings() -> Settings:
    """Short time-outs, so that stalls and dead clients matter within seconds."""
    return Settings({Source.CONNECTION: {"hive.txn.timeout": "5s", "hive.txn.opentxn.timeout": "250ms"}})


def listing(directory: Path) -> list[FileEntry]:
    """All files below a table's directory."""
    if not directory.is_dir():
        return []
    return [
        FileEntry(f"{delta.name}/{file.name}", 1) for delta in os.scandir(directory) for file in os.scandir(delta.path)
    ]


def visible(directory: Path, write_ids: ValidWriteIdList, txns: ValidTxnList) -> list[tuple[int, int]]:
    """What a snapshot sees of a table: write id and statement of each file."""
    state = acid_state(listing(directory), write_ids, txns)
    return sorted((d.directory.max_write_id, d.directory.statement_id or 0) for d in state.deltas)


class Worker:
    """Runs transactions and writes down what it saw and did."""

    def __init__(self, asked: Asked) -> None:
        self.client = MetastoreClient(asked.url, settings(), user="slow" if asked.number % 4 == 0 else "quick")
        self.root = asked.root
        self.number = asked.number
        self.dice = random.Random(asked.seed)
        self.broken = asked.broken
        self.log = (asked.root / f"client_{asked.number}.jsonl").open("a")

    def tell(self, **record: Any) -> None:
        self.log.write(json.dumps({"client": self.number, **record}) + "\n")
        self.log.flush()

    def run(self, count: int, offset: int) -> None:
        for number in range(offset, count):
            epoch = number // EPOCH
            try:
                self.one([f"h.t{epoch}_{k}" for k in range(TABLES)])
            except MetastoreUnavailableError:
                time.sleep(0.2)  # the server is being restarted
            except HiveAcidError as error:
                self.tell(refused=type(error).__name__)

    def one(self, tables: list[str]) -> None:
        """One transaction: reads all, and updates or inserts into none, one or two."""
        written = self.dice.sample(tables, self.dice.choice((0, 1, 1, 1, 2)))
        uses = dict.fromkeys(tables, "select") | {t: self.dice.choice(("update", "insert")) for t in written}
        if self.broken == "order":
            self.out_of_order(uses)
            return
        txn = self.client.begin(uses)
        lists = {t: txn.snapshot[t] for t in tables}
        writes = {t: txn.write_ids[t] for t in written}
        self.tell(begun=txn.txn_id, writes=writes, updates=[t for t in written if uses[t] == "update"])
        self.read(txn.txn_id, "reads", lists, txn.valid_txns)
        for statement in range(2):
            self.write(writes, statement)
            self.pause()
        self.read(txn.txn_id, "again", lists, txn.valid_txns)
        if self.dice.random() < 0.1:
            txn.abort()
            self.tell(ended=txn.txn_id, outcome="aborted")
            return
        try:
            if self.broken == "conflicts":
                self.client.commit_txn(txn.txn_id, check_conflicts=False)
                self.client.heartbeats.remove(txn.txn_id)
            else:
                txn.commit()
        except MetastoreUnavailableError:
            raise  # the outcome is unknown, and stays so here
        except HiveAcidError as error:
            self.tell(ended=txn.txn_id, outcome="aborted" if "unknown" not in str(error) else "unknown")
            return
        self.tell(ended=txn.txn_id, outcome="committed")

    def read(self, txn_id: int, name: str, lists: dict[str, ValidWriteIdList], txns: ValidTxnList) -> None:
        found: dict[str, list[tuple[int, int]]] = {}
        for table, write_ids in lists.items():
            seen = write_ids
            if self.broken == "snapshots":  # R10, R11: one snapshot for everything
                self.pause()
                seen = self.client.get_valid_write_ids(table)[table]
            elif self.broken == "visibility":
                seen = dataclasses.replace(write_ids, high_watermark=2**40, open=frozenset(), aborted=frozenset())
            found[table] = visible(self.root / table, seen, txns)
        self.tell(**{name: found}, of=txn_id)

    def write(self, writes: dict[str, int], statement: int) -> None:
        for table, write_id in writes.items():
            directory = self.root / table / delta_name(write_id, write_id, statement)
            directory.mkdir(parents=True)
            (directory / "bucket_00000").touch()

    def out_of_order(self, uses: dict[str, str]) -> None:
        """Write ids one by one in any order, and no look for conflicts (R1, R2)."""
        client = self.client
        txn_id = client.open_txn()
        client.heartbeats.add(txn_id)
        written = self.dice.sample(sorted(uses), 2)
        lists = client.get_valid_write_ids(sorted(uses))
        writes: dict[str, int] = {}
        for table in written:
            writes[table] = client.allocate_write_ids(table, txn_id)[txn_id]
            self.pause()
        self.tell(begun=txn_id, writes=writes, updates=written)
        self.read(txn_id, "reads", lists, client.get_valid_txns(txn_id))
        for statement in range(2):
            self.write(writes, statement)
        client.commit_txn(txn_id, check_conflicts=False)
        client.heartbeats.remove(txn_id)
        self.tell(ended=txn_id, outcome="committed")

    def pause(self) -> None:
        if self.dice.random() < 0.5:
            time.sleep(self.dice.random() * 0.01)


@dataclass(frozen=True)
class Asked:
    """What a client is to do.

    :param count: txns of all its lives, of which ``offset`` were begun in earlier ones.
    """

    url: str
    root: Path
    number: int
    count: int
    offset: int
    seed: int
    broken: str | None = None


def work(asked: Asked) -> None:
    """A client's life; what ends it too early goes to ``errors.txt``."""
    try:
        if asked.broken == "conflicts":
            beginning.early_conflict = lambda *_: None  # type: ignore[attr-defined, assignment]
        Worker(asked).run(asked.count, asked.offset)
    except BaseException:
        with (asked.root / "errors.txt").open("a") as errors:
            traceback.print_exc(file=errors)
        raise
