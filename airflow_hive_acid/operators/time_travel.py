"""Reads what was changed since, pins tables as they are, and drops pins."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import BaseOperator

from airflow_hive_acid.airflow_versions import seconds_of
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks.arguments import (
    Argument,
    Takes,
    check_parsed,
    check_rendered,
    count,
    names_of,
    optional_mapping,
    optional_place,
    optional_text,
    optional_texts,
    refused,
    seconds,
    some_text,
    texts,
)
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.lives import task_life
from airflow_hive_acid.hooks.tasks import agent_info, fail_task, require_rendered, unique_scope
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.engine.changes import ChangeRange
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook


class HiveAcidChangesOperator(HiveAcidOperator):
    """Writes what a range of write ids has changed in a table, as files or into another table.

    ``change__kind`` says ``insert``, ``delete``, ``update_before`` or ``update_after``, ``change__writeid`` by which
    write id, ``change__txnid`` by which txn. The task fails, and writes nothing, when compaction has passed the range.

    :param table: ``[db.]table``. (templated)
    :param from_write_id: the first write id; of an asset event ``changes["from_write_id"]``. (templated)
    :param to_write_id: the last one; by default as far as all have ended, which is further when it is tried again
        later, so that ``into`` needs it. (templated)
    :param event_id: of the commit's event, or of the range that was read before (``changes`` of the result): the task
        fails if the table is not the same any more, or a partition was dropped, renamed or moved since. (templated)
    :param net: leave out what the range itself made and undid.
    :param key: columns by which a deleted and an inserted row of one write id are the two halves of an update.
    :param path: path or URI of the directory to make, outside of the warehouse. (templated)
    :param into: ``[db.]table`` that gets the rows instead: its columns, then those of the changes. (templated)
    :param format: of the files; ``options`` are its own.
    :param mode: ``error`` when there is something already, or ``overwrite`` what an earlier export left there.
    """

    template_fields: Sequence[str] = (
        "table", "from_write_id", "to_write_id", "event_id", "path", "into", "format", "lease", "hive_acid_conn_id",
        "spark_conn_id", "spark_service",
    )  # fmt: skip
    lineage_literals = False
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "table": some_text("[db.]table"),
        "from_write_id": count(0),
        "to_write_id": count(0, optional=True),
        "event_id": count(0, optional=True),
        "key": optional_texts("the names of columns"),
        "path": optional_place("a path or URI"),
        "into": optional_text("[db.]table"),
        "options": optional_mapping("options of the format to their values"),
    }
    never_a_member = "a range of changes has ended before it is read; read it before the group, or after it"

    def __init__(
        self,
        *,
        table: str,
        from_write_id: int | str,
        to_write_id: int | str | None = None,
        event_id: int | str | None = None,
        net: bool = False,
        key: Sequence[str] = (),
        path: str | None = None,
        into: str | None = None,
        format: str = "parquet",
        options: Mapping[str, str] | None = None,
        mode: Literal["error", "overwrite"] = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        if (path is None) == (into is None):
            raise refused(self, f"task {self.task_id} must be given a path or a table (into), exactly one of them")
        if into is not None and to_write_id is None:
            # A retry must ask for the same rows, or it could not be told from new work (R14).
            raise refused(self, f"task {self.task_id}: into needs to_write_id, so that every try reads the same range")
        if mode not in ("error", "overwrite"):
            raise refused(self, f"mode of task {self.task_id} must be 'error' or 'overwrite', not {mode!r}")
        self.table = table
        self.from_write_id = from_write_id
        self.to_write_id = to_write_id
        self.event_id = event_id
        self.net = net
        self.key = key
        self.path = path
        self.into = into
        self.format = format
        self.options = options
        self.mode = mode
        check_parsed(self, self.takes)

    def work(self, hook: HiveAcidHook, engine: Engine, **how: Any) -> dict[str, Any]:
        """Read and write.

        :return: ``changes`` (table and range), and what the export or the INSERT did; ``empty`` when nothing is new.
        """
        found = self._range(hook)
        if found.is_empty:
            self.log.info("nothing new in %s from write id %d on", found.table, found.first)
            return {"changes": found.to_document(), "empty": True, "statements": []}
        done: dict[str, Any]
        if self.into is not None:
            done = super().work(hook, engine, **how)
        else:
            from airflow_hive_acid.engine.statements.exports import Destination
            from airflow_hive_acid.operators.changes import checked_format

            destination = Destination(
                str(self.path), checked_format(self.format), {str(k): str(v) for k, v in (self.options or {}).items()},
                overwrite=self.mode == "overwrite",
            )  # fmt: skip
            query = found.query(net=self.net, key=names_of(self.key))
            done = engine.export(query, destination, once=how.get("once")).to_document()
        self.log.info("read the changes of %s from write id %d to %d", found.table, found.first, found.last)
        return {**done, "changes": found.to_document(), "empty": False}

    def _range(self, hook: HiveAcidHook) -> ChangeRange:
        from airflow_hive_acid.engine.changes import change_range
        from airflow_hive_acid.errors import InvalidArgumentsError

        if self.into is not None and self.to_write_id in (None, "", "None"):
            raise InvalidArgumentsError(
                f"to_write_id: it was rendered as {self.to_write_id!r}, and into needs one, so that every try reads "
                "the same range"
            )
        return change_range(hook.get_conn(), str(self.table), self.from_write_id, self.to_write_id, self.event_id)

    def script(self, hook: HiveAcidHook, engine: Engine) -> str:
        """The INSERT into the other table."""
        from airflow_hive_acid.sql.parsing.builders import insert_statement

        return insert_statement(str(self.into), self._range(hook).query(net=self.net, key=names_of(self.key)))

    def lineage_script(self) -> str:
        """What it reads, as far as it is known before it runs."""
        from airflow_hive_acid.sql.parsing.builders import insert_statement, quoted_table

        query = f"SELECT * FROM {quoted_table(str(self.table))}"  # noqa: S608 - checked and quoted
        return query if self.into is None else insert_statement(str(self.into), query)


class HiveAcidPinOperator(BaseOperator):
    """Pins tables as they are now, all at one moment; a retry finds the pin of the earlier try.

    A task that is cleared, and one whose tables were changed, pins anew in the place of its own pin.

    :param name: of the pin. (templated)
    :param tables: ``[db.]table`` of each. (templated)
    :param expires: seconds, or a ``timedelta``, after which it is dropped.
    :param max_bytes: it is dropped when it holds back more bytes than that from cleaning.
    :param comment: what it is for. (templated)
    :param replace: drop a pin of that name first that another run has made.
    """

    template_fields: Sequence[str] = ("name", "tables", "comment", "hive_acid_conn_id")
    takes: ClassVar[Takes] = {
        "name": some_text("a name"),
        "tables": texts("[db.]table of each table"),
        "expires": seconds(1),
        "max_bytes": count(1, optional=True),
        # Rendered as native objects it may be a number, of a ticket for example.
        "comment": Argument("a text, or None", lambda value: isinstance(value, str | int | float), (None,)),
    }

    def __init__(
        self,
        *,
        name: str,
        tables: Sequence[str],
        expires: float | timedelta,
        max_bytes: int | None = None,
        comment: str | None = None,
        replace: bool = False,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.tables = tables
        self.expires = seconds_of(expires)
        self.max_bytes = max_bytes
        self.comment = comment
        self.replace = replace
        self.hive_acid_conn_id = hive_acid_conn_id
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> dict[str, Any]:
        """Pin.

        :return: the pin as a document: name, tables, expires, ….
        """
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.metastore.names import table_name
        from airflow_hive_acid.metastore.txns import overdue

        require_rendered(self, self.takes)
        instance = context["ti"]
        run = f"{instance.dag_id} {instance.run_id} {instance.task_id} {instance.map_index}"
        # Names do not tell a run from one that was deleted, nor a retry from a clear (decision 18).
        task = f"~{hashlib.sha256(repr(unique_scope(context)).encode()).hexdigest()[:8]}."
        signed = f"{run} {task}{task_life(context)}"
        comment = f"{self.comment} ({signed})" if self.comment else f"({signed})"
        tables = [self.tables] if isinstance(self.tables, str) else list(self.tables)
        with HiveAcidHook(self.hive_acid_conn_id) as hook:
            try:
                there = next((pin for pin in hook.pins.show() if pin.name == self.name), None)
                if there is not None and overdue(there) is not None:
                    there = None  # it has ended, and only its name is left: a new one takes its place
                if there is not None:
                    of = there.comment or ""
                    if of.endswith(f"({signed})") and set(there.tables) == {str(table_name(each)) for each in tables}:
                        return there.to_document()  # an earlier try of this task has made it
                    if self.replace or task in of:
                        hook.pins.unpin(self.name, f"replaced by {run}")
                pin = hook.pins.pin(
                    self.name, tables, expires=self.expires, max_bytes=self.max_bytes, comment=comment,
                    agent_info=agent_info(context),
                )  # fmt: skip
            except HiveAcidError as error:
                fail_task(error)
        self.log.info("%s on %s until %s", pin, ", ".join(pin.tables), pin.until)
        return pin.to_document()


class HiveAcidUnpinOperator(BaseOperator):
    """Drops a pin; what was kept for it alone goes with the next clean-up.

    :param name: of the pin. (templated)
    :param missing_ok: succeed when there is none of that name any more.
    """

    template_fields: Sequence[str] = ("name", "hive_acid_conn_id")
    takes: ClassVar[Takes] = {"name": some_text("a name")}

    def __init__(
        self, *, name: str, missing_ok: bool = True, hive_acid_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.missing_ok = missing_ok
        self.hive_acid_conn_id = hive_acid_conn_id
        check_parsed(self, self.takes)

    def execute(self, context: Context) -> bool:
        """Drop it; whether there was one."""
        from airflow_hive_acid.errors import NoSuchPinError
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

        with HiveAcidHook(self.hive_acid_conn_id) as hook:
            try:
                check_rendered(self, self.takes)
                hook.pins.unpin(self.name, f"dropped by {agent_info(context)}")
            except NoSuchPinError as error:
                if not self.missing_ok:
                    fail_task(error)
                self.log.info("%s", error)
                return False
            except HiveAcidError as error:
                fail_task(error)
        return True
