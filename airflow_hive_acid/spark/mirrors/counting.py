"""How many changed rows there were of each operation, counted while the one statement that reads them does so."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql import functions as F

from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.mirrors.targets import DELETE, INSERT, OPERATION, UPDATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPERATIONS = (INSERT, UPDATE, DELETE)


class CountedRows:
    """Changed rows that are counted by whoever reads them.

    :ivar rows: the same rows.
    """

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows
        self._name = f"hive_acid_{uuid.uuid4().hex}"
        counts = [F.count(F.when(F.col(OPERATION) == operation, 1)).alias(operation) for operation in _OPERATIONS]
        self.rows = rows.observe(self._name, *counts)

    def counts(self, command: DataFrame) -> dict[str, int]:
        """How many there were of each operation.

        The numbers are in the plan of the command that has run. An Observation would wait for them for ever where the
        optimizer has seen that there are no rows, and left out what counts them; then they are counted by a query.

        :param command: what ``spark.sql`` gave for a statement that has read :attr:`rows`.
        """
        spark: Any = self._rows.sparkSession
        ran: Any = command._jdf
        with contextlib.suppress(Py4JError):  # another Spark may keep what has run elsewhere
            plan = ran.queryExecution().commandExecuted().commandPhysicalPlan()
            # The companion: the class has a method of that name itself.
            collector = getattr(java_names(spark).org.apache.spark.sql.execution, "CollectMetricsExec$")
            found = getattr(collector, "MODULE$").collect(plan).get(self._name)
            if found.isDefined():
                return {operation: int(found.get().getLong(i)) for i, operation in enumerate(_OPERATIONS)}
        return {row[0]: int(row[1]) for row in self._rows.groupBy(OPERATION).count().collect()}
