"""Runs a program on an engine, and looks at the table after each step as a user can."""

# ruff: noqa: S608 - statements put together from words of the tests

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    ChangesNoLongerAvailableError,
    HistoryGoneError,
    HiveAcidError,
    InvalidArgumentsError,
    TablePinnedError,
)
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind as Outcome

from .steps import IDS, Batch, Clean, Compact, Pin, Sql, Step
from .tables import Row, create

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

    from .tables import State

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
REFUSALS = (
    (TablePinnedError, "is pinned by"),
    # The Cleaner has not removed what was dropped; a Hive refuses a directory that is there as well.
    (AlreadyExistsError, "where there are files already"),
    (AlreadyExistsError, "that was dropped, until the Cleaner has removed them"),
    # SET LOCATION: they come with streaming batches, and with txns that are rolled back.
    (InvalidArgumentsError, "holds rows of aborted transactions among others"),
)
"""What may be refused, and why; of anything else a refusal is a fault."""
SECONDS = 60
"""So long the Cleaner may take."""


class Run:
    """A program at work on a table of its own.

    :param table: as the model has it, without rows.
    :param seed: throws what is looked at.
    """

    def __init__(self, engine: Engine, client: MetastoreClient, table: State, seed: int) -> None:
        self.table = table
        self._engine, self._client = engine, client
        self._dice = random.Random(seed)
        self._versions: dict[int, tuple[Row, ...]] = {}
        self._pins: dict[str, tuple[Row, ...]] = {}
        self._texts = [create(table)]
        engine.run(f"CREATE DATABASE {table.name.partition('.')[0]}")
        engine.run(self._texts[0])

    def text(self) -> str:
        """What was done so far, for the person who reads a failure."""
        return "\n".join(self._texts)

    def do(self, step: Step) -> None:
        """Do a step. One that is refused has changed nothing."""
        self._texts.append(step.text())
        if step.alone:
            self.unpin()
        try:
            self._act(step)
        except HiveAcidError as refused:
            if not any(isinstance(refused, kind) and why in str(refused) for kind, why in REFUSALS):
                raise
            self._texts[-1] += f"   -- refused, {type(refused).__name__}: {refused}"
        else:
            if (step.after.name, step.after.kind) != (self.table.name, self.table.kind):
                self._versions = {}
            self.table = step.after
        self.table = self._with_its_partitions()

    def unpin(self) -> None:
        """Drop the pins."""
        for name in self._pins:
            self._client.pins.unpin(name)
        self._pins = {}

    def _act(self, step: Step) -> None:
        match step:
            case Sql():
                self._engine.run(step.sql)
            case Compact():
                self._compact(step.sql)
            case Clean():
                self._clean()
            case Pin():
                name = f"p{len(self._texts)}"
                self._client.pins.pin(name, [self.table.name], expires=3600)
                self._pins[name] = self.table.rows
            case Batch():
                with self._engine.batch(self.table.name, transactions=len(step.commits)) as batch:
                    for records in step.commits:
                        batch.write(records)
                        batch.commit()
            case _:
                raise AssertionError(step)

    def _compact(self, statement: str) -> None:
        # IMPORT, for one, has asked for compactions itself.
        self._work_off()
        (answer,) = self._engine.run(statement)[-1].rows.to_dicts()
        if not answer["accepted"]:
            # A second one before the Cleaner has been there is refused, as in Hive; a pin holds the Cleaner back.
            assert answer["state"] == "ready for cleaning", answer
            self._clean()
            (answer,) = self._engine.run(statement)[-1].rows.to_dicts()
            assert answer["accepted"] or self._pins, answer
        self._work_off()

    def _work_off(self) -> None:
        outcomes = self._engine.run_compactions("programs")
        assert all(outcome.kind is not Outcome.FAILED for outcome in outcomes), outcomes

    def _clean(self) -> None:
        """Let the Cleaner look until nothing waits but for a pin: right after a commit a txn may still appear."""
        deadline = time.monotonic() + SECONDS
        while True:
            outcomes = run_cleaner(self._client, AnyFilesystem())
            assert not [outcome for outcome in outcomes if outcome.kind in (Outcome.ERROR, Outcome.FAILED)], outcomes
            if self._pins or all(outcome.kind is not Outcome.WAITING for outcome in outcomes):
                return
            assert time.monotonic() < deadline, outcomes
            time.sleep(0.1)

    def _with_its_partitions(self) -> State:
        """The table with the partitions that the catalog has: an INSERT of no rows makes none, for example."""
        table = self.table
        if not table.keys:
            return table
        found = set()
        for partition in self._client.catalog.list_partitions(table.name):
            values = [None if value == DEFAULT_PARTITION else value for value in partition.values]
            found.add(
                tuple(
                    int(value) if key == "n" and value is not None else value
                    for key, value in zip(table.keys, values, strict=True)
                )
            )
        assert {place for _, place in table.rows} <= found <= table.partitions, (table, found)
        return replace(table, partitions=frozenset(found))

    # --- what is shown ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Whether the table shows what the model says: as a whole, by conditions, counted, and as it was before."""
        table = self.table
        shown = table.shown(table.rows)
        first, second = table.columns[0].name, table.columns[1].name
        assert self._rows() == shown
        number = self._dice.randrange(IDS)
        some = [row for row in shown if int(row[0] or 0) < number]
        assert self._rows(f"WHERE {first} < {number}") == some
        assert self._query(f"SELECT count(*) FROM {table.name}") == [(len(table.rows),)]
        for at, column in ((1, second), *((len(table.columns), key) for key in table.keys[:1])):
            counts = self._query(f"SELECT {column}, count(*) FROM {table.name} GROUP BY 1")
            assert dict(counts) == Counter(row[at] for row in shown), column
        if table.kind.has_versions:
            self._check_history()

    def _check_history(self) -> None:
        for name, rows in self._pins.items():
            assert self._rows(f"VERSION AS OF '{name}'") == self.table.shown(rows), name
        high = self._client.get_valid_write_ids(self.table.name)[self.table.name].high_watermark
        if not high:
            return
        self._versions[high] = self.table.rows
        if self._dice.random() < 0.6:
            self._check_version(self._dice.choice(sorted(self._versions)))
        before = [version for version in sorted(self._versions) if version < high]
        if before and self._dice.random() < 0.6:
            self._check_changes(self._dice.choice(before), high)

    def _check_version(self, version: int) -> None:
        try:
            found = self._rows(f"VERSION AS OF {version}")
        except HistoryGoneError:
            return
        assert found == self.table.shown(self._versions[version]), version

    def _check_changes(self, since: int, high: int) -> None:
        """The rows of then and the changes are the rows of now."""
        net = "NET " if self.table.kind.has_row_ids and self._dice.random() < 0.5 else ""
        columns = ", ".join(("change__kind", *self.table.names))
        try:
            changes = self._query(
                f"SELECT {columns} FROM {self.table.name} {net}CHANGES BETWEEN {since + 1} AND {high}"
            )
        except (ChangesNoLongerAvailableError, HistoryGoneError):
            return
        rows = Counter(self.table.shown(self._versions[since]))
        for kind, *values in changes:
            rows[tuple(values)] += 1 if kind == "insert" else -1
        # Counters that are compared take a count of 0 for none.
        assert rows == Counter(self.table.shown(self.table.rows)), (f"{net}changes since {since}", changes)

    def _rows(self, rest: str = "") -> list[tuple[Any, ...]]:
        """Rows of the table, sorted.

        :param rest: what comes behind its name.
        """
        return self._query(f"SELECT {', '.join(self.table.names)} FROM {self.table.name} {rest}")

    def _query(self, query: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in self._engine.query(query).rows), key=repr)
