"""Keeps a copy of an ACID table in Iceberg or Delta in step with it, and makes it the primary."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_hive_acid.airflow_versions import seconds_of
from airflow_hive_acid.hooks.arguments import Takes, check_parsed, optional_texts, refused, seconds, some_text
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

_PLACES = {
    "table": some_text("[db.]table"),
    "target": some_text("iceberg:catalog.database.table, or delta:/path"),
}


class HiveAcidMirrorOperator(HiveAcidOperator):
    """Brings a mirror to the newest state of its table, in one commit of the target.

    The first time the table is copied whole; from then on what was changed since, whoever changed it. The target says
    which write ids it holds, so that a retry, a task that wakes up late and a second DAG apply nothing twice. Without
    news Spark is not started. What cannot be followed, because the Cleaner has removed what it needs, is copied whole
    again. Iceberg's or Delta's jars and catalogs are given to Spark by its settings.

    :param table: ``[db.]table``, an ACID table. (templated)
    :param target: ``iceberg:catalog.database.table``, or ``delta:/path`` or URI. (templated)
    :param key: columns that tell rows apart; an empty list: rows are known by their ROW__ID, which the target keeps in
        columns of its own; None: as before, which is by ROW__ID the first time. (templated)
    :param bootstrap: copy it whole, whatever it holds.
    :param refuse_bootstrap: fail instead of copying it whole again when it cannot follow.
    :param verify: compare both sides afterwards, by rows and checksums of each partition, and fail when they differ.
    """

    template_fields: Sequence[str] = (
        "table", "target", "key", "lease", "hive_acid_conn_id", "spark_conn_id", "spark_service",
    )  # fmt: skip
    lineage_literals = False
    takes: ClassVar[Takes] = {**HiveAcidOperator.takes, **_PLACES, "key": optional_texts("the names of columns")}
    never_a_member = (
        "what it has written to its target would stay if the transaction is given up; mirror after the group"
    )

    def __init__(
        self,
        *,
        table: str,
        target: str,
        key: Sequence[str] | str | None = None,
        bootstrap: bool = False,
        refuse_bootstrap: bool = False,
        verify: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        if bootstrap and refuse_bootstrap:
            raise refused(self, f"task {self.task_id}: bootstrap and refuse_bootstrap exclude each other")
        self.table = table
        self.target = target
        self.key = key
        self.bootstrap = bootstrap
        self.refuse_bootstrap = refuse_bootstrap
        self.verify = verify
        check_parsed(self, self.takes)

    def work(self, hook: HiveAcidHook, engine: Engine, **how: Any) -> dict[str, Any]:
        """Follow, and compare if wanted.

        :return: ``table``, ``target``, ``todo`` (``nothing``, ``follow`` or ``bootstrap``), ``reason``, ``write_id``,
            ``key``, ``inserted``, ``updated``, ``deleted``, and whether ``spark`` was needed; with ``verify`` also
            ``verified``, what was compared.
        :raises MirrorDivergedError: when both sides differ; names the first partitions that do.
        """
        from airflow_hive_acid.errors import MirrorDivergedError
        from airflow_hive_acid.mirrors.runner import run_mirror, verify_mirror
        from airflow_hive_acid.sql.parsing.builders import table_name

        client, name = hook.get_conn(), str(table_name(str(self.table)))
        report = run_mirror(
            client,
            lambda: contextlib.nullcontext(engine),
            name,
            str(self.target),
            key=self.key,
            bootstrap=self.bootstrap,
            refuse_bootstrap=self.refuse_bootstrap,
        )
        self.log.info("%s has %s up to write id %d: %s", report.target, name, report.write_id, report.told)
        document = report.to_document()
        if not self.verify:
            return document
        found = verify_mirror(client, engine, name, report.target)
        if not found.is_equal:
            first = ", ".join(one["partition"] or "the table" for one in found.different[:5])
            raise MirrorDivergedError(
                f"{report.target} differs from {name} at write id {found.write_id} in {found.differ} of "
                f"{found.partitions} partitions: {first}. Copy it again: bootstrap=True"
            )
        return {**document, "verified": found.to_document()}

    def lineage_script(self) -> str:
        """What is read."""
        from airflow_hive_acid.sql.parsing.builders import quoted_table

        return f"SELECT * FROM {quoted_table(str(self.table))}"  # noqa: S608 - checked and quoted


class HiveAcidMirrorCutOverOperator(HiveAcidOperator):
    """Makes a mirror the primary of its table, takes that back, or drops the table.

    A task that is tried again does nothing twice: what it finds done already is its success. Cutting over keeps
    writers off by a lease of its own; it waits for those who write in the worker slot.

    :param table: ``[db.]table``, which has a mirror. (templated)
    :param target: the mirror: ``iceberg:catalog.database.table``, or ``delta:/path`` or URI. (templated)
    :param action: ``cut-over``: the last changes go over, both sides are compared, and the table is read-only from
        then on, for a real Hive, too. ``take-back``: the table is written again, and the mirror follows it.
        ``retire``: the table is dropped and its mirror forgotten; the target stays. A table that is not there any more,
        and of which no mirror is known, counts as retired.
    :param wait: seconds, or a ``timedelta``, to wait for those who write now; for ``retire``, who hold a lock.
    :param discard: with ``take-back``: also when the target was written since; the mirror's next run copies the table
        over that.
    """

    template_fields: Sequence[str] = ("table", "target", "hive_acid_conn_id", "spark_conn_id", "spark_service")
    lineage_literals = False
    takes: ClassVar[Takes] = {**HiveAcidOperator.takes, **_PLACES, "wait": seconds()}
    never_a_member = "it changes who may write the table, for everybody and at once; do it before or after the group"

    def __init__(
        self,
        *,
        table: str,
        target: str,
        action: Literal["cut-over", "take-back", "retire"] = "cut-over",
        wait: float | timedelta = 300.0,
        discard: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        if action not in ("cut-over", "take-back", "retire"):
            raise refused(
                self, f"action of task {self.task_id} must be 'cut-over', 'take-back' or 'retire', not {action!r}"
            )
        if discard and action != "take-back":
            raise refused(
                self, f"task {self.task_id}: discard belongs to action='take-back'; with {action} leave it out"
            )
        if kwargs.get("lease") is not None:
            raise refused(
                self,
                f"task {self.task_id}: {action} takes a lease of its own, and would wait for this one: leave lease "
                "out, and drop it before",
            )
        self.table = table
        self.target = target
        self.action = action
        self.wait = seconds_of(wait)
        self.discard = discard
        check_parsed(self, self.takes)

    def work(self, hook: HiveAcidHook, engine: Engine, **how: Any) -> dict[str, Any]:
        """Do it, if it is not done yet.

        :return: ``table``, ``target``, ``action``, whether this try has ``done`` it; after a cut-over also
            ``verified``, what was compared last.
        :raises MirrorDivergedError: when both sides differ, or the target was written since; nothing was changed.
        """
        from airflow_hive_acid.format.mirrors import MirrorTarget
        from airflow_hive_acid.mirrors import cut_over as room
        from airflow_hive_acid.sql.parsing.builders import table_name

        client, name, place = hook.get_conn(), str(table_name(str(self.table))), str(MirrorTarget.parse(self.target))
        document: dict[str, Any] = {"table": name, "target": place, "action": self.action, "done": False}
        if not room.is_left(client, self.action, name, place):
            self.log.info("%s of %s and %s was done already", self.action, name, place)
            return document

        def opened() -> contextlib.AbstractContextManager[Engine]:
            return contextlib.nullcontext(engine)

        if self.action == room.TAKE_BACK:
            room.take_back(client, opened, name, place, discard=self.discard)
        elif self.action == room.RETIRE:
            room.retire(client, opened, name, place, wait=self.wait)
        else:
            found = room.cut_over(client, opened, name, place, wait=self.wait)
            document["verified"] = found.to_document()
        self.log.info("%s of %s and %s is done", self.action, name, place)
        return {**document, "done": True}

    def lineage_script(self) -> str:
        """No rows of ours are written."""
        return ""
