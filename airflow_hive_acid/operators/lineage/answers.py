"""What operators answer when Airflow's OpenLineage provider asks for their lineage.

The provider asks in a process of its own after the task has begun and after it has ended; without the provider nobody
asks, and nothing of this is imported. What statements have read and written was gathered while they ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.airflow_versions import conf
from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.sql.planning.named_tables import Touched
    from airflow_hive_acid.sql.text.variables import Variables


class TellsLineage:
    """The three methods that the OpenLineage provider looks for, for operators that run statements.

    Subclasses say in :meth:`lineage_script` and :meth:`lineage_touched` what they mean to do.
    """

    _lineage_hook: HiveAcidHook | None = None
    _lineage_result: Mapping[str, Any] | None = None
    openlineage_inject_parent_job_info: bool | None = None
    openlineage_inject_transport_info: bool | None = None
    lineage_literals = True
    """Whether the texts of statements may be told as they are; otherwise values in them are left out."""

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Names of what is going to be read and written; nothing is looked up but the connection."""
        return self._told()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """What was read and written, with write ids, rows and bytes, and where each column comes from."""
        return self._told()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """What was known when the task failed; numbers of what it has committed before, and of nothing else."""
        return self._told()

    def lineage_script(self) -> str:
        """The statements, as far as they are known without looking anything up."""
        raise NotImplementedError

    def lineage_session(self) -> tuple[str, Variables | None]:
        """The database of names without one, and what stands for variables in the statements."""
        return "default", None

    def lineage_views(self) -> dict[str, Source]:
        """Files that the statements read by a name of our own."""
        return {}

    def lineage_touched(self) -> Touched:
        """What is going to be read and written, by its words."""
        from airflow_hive_acid.sql import parse_script
        from airflow_hive_acid.sql.planning.named_tables import touched

        try:
            statements = parse_script(self.lineage_script(), *self.lineage_session())
            return touched(statements, self.lineage_views())
        except HiveAcidError:
            return touched([])  # the task says what is wrong with it

    def lineage_files(self) -> str | None:
        """Path or URI of files that are written, None if none are."""
        return None

    def gather_lineage(self, hook: HiveAcidHook) -> None:
        """Remember what a hook's engine gathers; told by this operator, and not once more by the hook."""
        from airflow_hive_acid.hooks.lineage import Collected

        hook.tells_lineage = False
        hook.lineage = Collected()
        self._lineage_hook = hook

    def lineage_conf(self, context: Context, spark_conf: Mapping[str, str]) -> dict[str, str]:
        """Spark settings with which OpenLineage's listener in Spark, if there is one, knows this task as its parent."""
        found = dict(spark_conf)
        if _wanted(self.openlineage_inject_parent_job_info, "spark_inject_parent_job_info"):
            from airflow.providers.common.compat.openlineage.utils import spark

            found = spark.inject_parent_job_information_into_spark_properties(found, context)
        if _wanted(self.openlineage_inject_transport_info, "spark_inject_transport_info"):
            from airflow.providers.common.compat.openlineage.utils import spark

            found = spark.inject_transport_information_into_spark_properties(found, context)
        return found

    def _told(self) -> OperatorLineage[Any, Any]:
        from sqlalchemy import URL

        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
        from airflow_hive_acid.hooks.lineage import namespace_of
        from airflow_hive_acid.operators.lineage.openlineage import Place, operator_lineage

        hook = self._lineage_hook or HiveAcidHook(self.hive_acid_conn_id)  # type: ignore[attr-defined]
        url = hook.connection.metastore_url
        address = URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
        place = Place(namespace_of(hook.connection, hook.settings), hook.hive_acid_conn_id, str(address))
        return operator_lineage(
            place,
            self.lineage_touched(),
            hook.lineage,
            files=self.lineage_files(),
            result=self._lineage_result,
            literals=self.lineage_literals,
        )


def _wanted(given: bool | None, option: str) -> bool:
    """What the task says, else what Airflow's configuration says of all Spark jobs."""
    return conf.getboolean("openlineage", option, fallback=False) if given is None else given
