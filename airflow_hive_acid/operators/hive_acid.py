"""Runs SQL statements on transactional tables.

The engine does the work: it parses, opens the txn, locks, takes the snapshot, runs a Spark job, publishes and commits.
R14: however often Airflow tries the task, each statement is applied once.
A statement that has to wait for locks waits in the triggerer, without a worker slot (R9).
All statements of a task share one Spark application. A task that is killed stops its Spark job and aborts its txn; one
that cannot do even that leaves an open txn without heartbeat, which the reaper aborts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from airflow.sdk import BaseOperator

from airflow_hive_acid.airflow_versions import AirflowSkipException
from airflow_hive_acid.errors import (
    HiveAcidError,
    LocksDeniedForNowError,
    LocksPendingError,
    TurnPendingError,
    UnsupportedStatementError,
)
from airflow_hive_acid.hooks.arguments import (
    Takes,
    check_parsed,
    count,
    optional_mapping,
    optional_text,
    optional_texts,
    refused,
)
from airflow_hive_acid.hooks.assets import tell_commits
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.hooks.links import LINKS, linked_to
from airflow_hive_acid.hooks.tasks import (
    TRIED,
    TRIED_OF,
    Running,
    agent_info,
    error_of_event,
    fail_task,
    longest_wait,
    once_of,
    patience,
    require_rendered,
    stop_on_kill,
)
from airflow_hive_acid.operators.lineage import TellsLineage
from airflow_hive_acid.triggers.granted import LocksGrantedTrigger, LocksTriedAgainTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_hive_acid.engine import Engine, StatementResult
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.text.variables import Variables


#: An empty text is what classes without a script give; as a script it is refused when it is parsed.
_SQL = optional_texts("a statement, a list of statements, or the name of a .sql file", none=False)


class HiveAcidOperator(TellsLineage, BaseOperator):
    """Runs one or several SQL statements: INSERT, UPDATE, DELETE, MERGE, SELECT, CREATE and DROP.

    The result, also the task's XCom, says what each statement did and holds the rows of the last SELECT; decimals are
    text in it, so that no digit is lost.

    :param sql: a statement, several with semicolons between them, a list, or the name of a ``.sql`` file. (templated)
    :param one_transaction: commit all statements together or none of them; otherwise each commits by itself.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    :param spark_conn_id: Spark connection instead of the one that the connection names. (templated)
    :param spark_conf: Spark settings for this task; they win over the connection's. Not templated and not shown in the
        rendered template, so that it may hold secrets.
    :param spark_service: Spark service that runs the statements instead of the one that the connection names; an empty
        text: a Spark of the task's own. (templated)
    :param variables: what ``${hivevar:name}`` stands for in the statements, by name: text, exchanged as Hive does it
        (docs/reference/sql.md). (templated)
    :param settings: Hive settings of these statements by key, as SET in front of them. (templated)
    :param database: database of names without one, as USE in front of them; by default the connection's. (templated)
    :param xcom_rows: so many rows of the last SELECT go into the result; more are left out, and the result says so.
    :param on_rerun: what a task does that had succeeded and is run anew on purpose, because it was cleared: ``apply``
        its statements again, or ``skip`` those that were applied. A retry never applies twice, whatever this says.
    :param lease: the output of a HiveAcidGrabLeaseOperator. The statements do not wait for it (R6), commit only while
        it is held (R8), and extend it while they run; so they wait for locks in the worker slot. Of a grab that was
        skipped, failed or marked by hand there is none, and the task fails. (templated)
    :param transaction: the output of the task that begins a transaction across tasks: the statements run in it. Inside
        ``with hive_acid_transaction(…)`` every task gets it; ``False`` keeps one out of it. Of a begin that was skipped
        or failed there is none, and the task is skipped. (templated)
    :param openlineage_inject_parent_job_info: give the Spark application this task as its parent, for a Spark that has
        OpenLineage's listener (in the Spark settings); by default as ``[openlineage] spark_inject_parent_job_info``
        says. ``openlineage_inject_transport_info`` gives it Airflow's transport as well.
    :param deferrable: wait for locks in the triggerer when they are not granted within ``hive.acid.lock.defer.after``;
        without, and where no triggerer runs, the task waits itself.
    """

    template_fields: Sequence[str] = (
        "sql", "variables", "settings", "database", "lease", "transaction", "hive_acid_conn_id", "spark_conn_id",
        "spark_service",
    )  # fmt: skip
    template_ext: Sequence[str] = (".sql", ".hql")
    template_fields_renderers = {"sql": "sql"}  # noqa: RUF012 - Airflow reads it from the class
    ui_color = "#fdd88a"
    operator_extra_links = LINKS
    linked: dict[str, Any] | None = None
    #: Why it cannot be part of a transaction across tasks, and what to do instead.
    never_a_member: ClassVar[str | None] = None
    #: What its fields may be.
    takes: ClassVar[Takes] = {
        "spark_conf": optional_mapping("Spark's settings to their values"),
        "spark_service": optional_text("the name of a Spark service"),
        "variables": optional_mapping("names of variables to their values"),
        "settings": optional_mapping("Hive settings to their values"),
        "database": optional_text("the name of a database"),
        "xcom_rows": count(0),
    }

    def __init__(
        self,
        *,
        sql: str | Sequence[str],
        one_transaction: bool = False,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        spark_conn_id: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        spark_service: str | None = None,
        variables: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        database: str | None = None,
        xcom_rows: int = 100,
        on_rerun: Literal["apply", "skip"] = "apply",
        lease: Any = None,
        transaction: Any = None,
        openlineage_inject_parent_job_info: bool | None = None,
        openlineage_inject_transport_info: bool | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if on_rerun not in ("apply", "skip"):
            raise refused(self, f"on_rerun of task {self.task_id} must be 'apply' or 'skip', not {on_rerun!r}")
        session = {"variables": variables, "settings": settings, "database": database}
        given = [name for name, value in session.items() if value is not None]
        if given and not self._has_script:
            raise refused(
                self,
                f"task {self.task_id} has typed arguments and no script of yours: {given[0]} would change nothing; "
                "leave it out, or use HiveAcidOperator",
            )
        self.sql = sql
        self.one_transaction = one_transaction
        self.hive_acid_conn_id = hive_acid_conn_id
        self.spark_conn_id = spark_conn_id
        self.spark_conf = spark_conf
        self.spark_service = spark_service
        self.variables = variables
        self.settings = settings
        self.database = database
        self.xcom_rows = xcom_rows
        self.on_rerun = on_rerun
        self.lease = lease
        self._is_given_a_lease = lease is not None
        self.transaction = transaction
        self._is_given_a_transaction = not (transaction is None or transaction is False)
        self.openlineage_inject_parent_job_info = openlineage_inject_parent_job_info
        self.openlineage_inject_transport_info = openlineage_inject_transport_info
        self.deferrable = deferrable
        self._running: Running | None = None
        check_parsed(self, self._fields())

    def _do_render_template_fields(self, parent: Any, *arguments: Any, **named: Any) -> None:
        """Render, and tell Airflow's masker what is secret in the fields: logs and rendered fields show ``***``.

        Of a mapped task Airflow calls this, and not :meth:`render_template_fields`.
        """
        super()._do_render_template_fields(parent, *arguments, **named)
        from airflow_hive_acid.hooks.secrets import mask_secrets  # not needed to parse a DAG file

        if parent is self:
            mask_secrets([getattr(self, name, None) for name in (*self.template_fields, "options")])

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the statements.

        :return: ``statements`` (one document each), sums of ``inserted``, ``updated`` and ``deleted``, and ``rows`` of
            the last SELECT; after ``COMPACT`` also ``compactions``, the ids of the requests, for a
            ``HiveAcidCompactionSensor``.
        """
        return self._run(context)

    def resume(self, context: Context, event: dict[str, Any], waiting: dict[str, Any] | None = None) -> dict[str, Any]:
        """Go on with the statement that has waited for its locks.

        :param waiting: document of what was waited for; the event has it as well, as dag.test() passes nothing else.
        """
        if event["status"] != "success":
            fail_task(error_of_event(event))
        return self._run(context, waiting or event.get("handed_back"))

    def _run(self, context: Context, waiting: dict[str, Any] | None = None) -> dict[str, Any]:
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook  # not needed to parse a DAG file
        from airflow_hive_acid.hooks.leases import kept_lease
        from airflow_hive_acid.hooks.transactions import EMPTY

        require_rendered(self, self._fields())
        spark_conf = self.lineage_conf(context, self.spark_conf or {})
        hook = HiveAcidHook(
            self.hive_acid_conn_id,
            spark_conn_id=self.spark_conn_id,
            spark_conf=spark_conf,
            spark_service=self.spark_service,
        )
        if self.transaction not in EMPTY:
            return self._run_as_member(context, hook)
        self._require_none_missing()
        agent, once = agent_info(context), once_of(context, self.on_rerun)
        try:
            self.gather_lineage(hook)
            with (
                hook,
                kept_lease(hook, self.lease, is_given=self._is_given_a_lease) as held,
                hook.get_engine(agent_info=agent) as engine,
            ):
                self._running = _running(hook, engine, agent)
                if held is not None:
                    held.on_lost = engine.cancel  # its commit would be refused
                waits, may_defer = patience(self._settings(hook), waiting), self.deferrable and held is None
                if not may_defer:
                    _withdraw(hook, waits)  # the DAG file was changed meanwhile
                try:
                    document = self.work(
                        hook,
                        engine,
                        once=once,
                        patience=waits if may_defer else None,
                        lease=None if held is None else held.lease,
                    )
                finally:
                    _withdraw(hook, waits)  # what it does not ask for any more, or has failed in front of
                hook.acknowledge(once)
                self._lineage_result = document
                # Cleared, and told to skip what was applied: that was told of, too.
                again = self.on_rerun == "skip" and once.life != str(self.retries)
                tell_commits(self, context, hook, document, again=again)
        except LocksPendingError as pending:
            self._wait_elsewhere(pending, self._settings(hook))
        except LocksDeniedForNowError as denied:
            self._try_again_later(denied)
        except HiveAcidError as error:
            fail_task(error)
        finally:
            self._running = None
        self.linked = linked_to(document)
        return document

    def _require_none_missing(self) -> None:
        """Leave out the work of a transaction that was not begun: alone it would be applied, and stay (R14).

        :raises AirflowSkipException: when its begin was skipped, as of a try that is not needed, or has failed.
        """
        if self.transaction in ("None", "null") or (self.transaction is None and self._is_given_a_transaction):
            raise AirflowSkipException(
                "the transaction that it was to work in was not begun, so nothing is applied; its trigger rule lets it "
                "run after a begin that was skipped or failed"
            )

    def _run_as_member(self, context: Context, hook: HiveAcidHook) -> dict[str, Any]:
        """Work in a transaction across tasks when this task's turn has come."""
        from airflow_hive_acid.hooks.transactions import member_key, member_of, read_transaction
        from airflow_hive_acid.triggers.shared_transactions import TurnTrigger

        agent, longest = agent_info(context), longest_wait(self._settings(hook))
        waits = hook.settings.seconds("hive.acid.lock.defer.after") if self.deferrable else longest
        try:
            if self.never_a_member is not None:
                raise UnsupportedStatementError(f"{self.task_id} cannot work in a transaction: {self.never_a_member}")
            self.gather_lineage(hook)
            with (
                hook,
                hook.get_engine(agent_info=agent) as engine,
                member_of(engine, context, self.transaction, waits),
            ):
                self._running = _running(hook, engine, agent)
                document = self._lineage_result = self.work(hook, engine)
            self.linked = linked_to(document)
            return document
        except TurnPendingError as pending:
            if not self.deferrable:
                fail_task(pending)
            self.log.info("%s", pending)
        except HiveAcidError as error:
            fail_task(error)
        finally:
            self._running = None
        trigger = TurnTrigger(
            txn_id=read_transaction(self.transaction),
            member=member_key(context),
            until=time.time() + longest,
            hive_acid_conn_id=self.hive_acid_conn_id,
        )
        self.defer(trigger=trigger, method_name="resume", kwargs={"waiting": {}})

    def _wait_elsewhere(self, pending: LocksPendingError, settings: Settings) -> NoReturn:
        """Let the triggerer wait."""
        self.log.info("%s", pending)
        request: Any = pending.document
        trigger = LocksGrantedTrigger(
            txn_id=request["txn_id"],
            lock_id=request["lock_id"],
            until=time.time() + longest_wait(settings),
            hive_acid_conn_id=self.hive_acid_conn_id,
            handed_back=request,
        )
        self.defer(trigger=trigger, method_name="resume", kwargs={"waiting": request})

    def _try_again_later(self, denied: LocksDeniedForNowError) -> NoReturn:
        """Let the pause pass in the triggerer; the tries are counted on."""
        self.log.info("%s", denied)
        waiting = {TRIED: denied.tried, TRIED_OF: denied.of}
        trigger = LocksTriedAgainTrigger(
            until=time.time() + denied.pause, hive_acid_conn_id=self.hive_acid_conn_id, handed_back=waiting
        )
        self.defer(trigger=trigger, method_name="resume", kwargs={"waiting": waiting})

    def work(self, hook: HiveAcidHook, engine: Engine, **how: Any) -> dict[str, Any]:
        """Do the task's work.

        :param how: ``once``, ``patience`` and ``lease``, as of ``Engine.run``.
        :return: the result document.
        """
        results = engine.run(
            self.script(hook, engine),
            one_transaction=self.one_transaction,
            # Values of typed arguments are no text to look for variables in.
            variables=(self.variables or {}) if self._has_script else None,
            settings=self.settings,
            database=self.database,
            **how,
        )
        return result_document(results, self.xcom_rows)

    def _settings(self, hook: HiveAcidHook) -> Settings:
        """The settings in force when the statements begin; how long they wait for locks is among them."""
        from airflow_hive_acid.settings import setting_of

        given = {key: str(value) for key, value in (self.settings or {}).items() if setting_of(key) is not None}
        return hook.settings.in_session(given)

    def _fields(self) -> Takes:
        """What its fields may be; the script is one where it is the author's."""
        return {"sql": _SQL, **self.takes} if self._has_script else self.takes

    @property
    def _has_script(self) -> bool:
        """Whether the statements are the author's text, and not made of typed arguments."""
        own = type(self)
        return all(
            getattr(own, name) is getattr(HiveAcidOperator, name) for name in ("script", "lineage_script", "work")
        )

    def script(self, hook: HiveAcidHook, engine: Engine) -> str:
        """The statements to run; the same for every try. Operators with typed arguments make them from these."""
        return self.lineage_script()

    def lineage_script(self) -> str:
        """The statements."""
        return script_of(self.sql)

    def lineage_session(self) -> tuple[str, Variables | None]:
        """The database of names without one, and what stands for variables in the statements."""
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
        from airflow_hive_acid.sql.text.variables import Variables  # not needed to parse a DAG file

        hook = self._lineage_hook or HiveAcidHook(self.hive_acid_conn_id)
        variables = {str(name): str(value) for name, value in (self.variables or {}).items()}
        return self.database or hook.connection.default_database, Variables(variables) if self._has_script else None

    def on_kill(self) -> None:
        """Stop the Spark application, fence its jobs, abort its txn and so withdraw the locks it waits for."""
        running = self._running
        if running is None:
            return
        stop_on_kill(running.stop)


def _running(hook: HiveAcidHook, engine: Engine, agent: str) -> Running:
    """Of a task whose txn can be found by its agent info."""
    return Running(
        engine, f"the txn of {agent}", lambda: f"aborted txns: {hook.withdraw(agent, 'killed by Airflow') or 'none'}"
    )


def _withdraw(hook: HiveAcidHook, waits: Patience) -> None:
    """Give up the request that a trigger has waited for, if nothing has taken it up: nobody is to wait behind it."""
    if waits.resumed is not None:
        waits.give_up(hook.get_conn())


def script_of(sql: str | Sequence[str]) -> str:
    """One script from one text or several."""
    return sql if isinstance(sql, str) else "\n;\n".join(sql)


#: Statements that say which compactions they have asked for, by the kinds of their results.
_COMPACTIONS = ("compact", "concatenate")


def result_document(results: Sequence[StatementResult], xcom_rows: int) -> dict[str, Any]:
    """What goes into the XCom."""
    from airflow_hive_acid.engine.outcomes.results import plain_values  # not needed to parse a DAG file

    document: dict[str, Any] = {"statements": [result.to_document() for result in results]}
    for what in ("inserted", "updated", "deleted"):
        document[what] = sum(getattr(result, what) for result in results)
    asked = [result.rows.to_dicts() for result in results if result.kind in _COMPACTIONS and result.rows is not None]
    if asked:
        document["compactions"] = [row["compactionid"] for rows in asked for row in rows if row["compactionid"]]
    queries = [result.rows for result in results if result.rows is not None]
    if queries:
        rows = queries[-1].to_dicts()
        document["rows"] = [plain_values(row) for row in rows[:xcom_rows]]
        document["rows_left_out"] = max(0, len(rows) - xcom_rows)
    return document
