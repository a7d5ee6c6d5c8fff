"""How to test a DAG of yours: on a metastore and a warehouse of the test's own, with Spark on this machine."""

import pytest
from airflow.sdk import DAG

from airflow_hive_acid.operators import HiveAcidOperator
from airflow_hive_acid.testing import HiveAcidTestbed, assert_at_rest, assert_committed, assert_rows

pytestmark = [pytest.mark.spark, pytest.mark.airflow]

with DAG("orders", schedule=None) as dag:  # yours would be imported from your dags folder
    HiveAcidOperator(
        task_id="raise_prices",
        sql=["UPDATE sales.orders SET amount = amount * 2 WHERE id = 1", "DELETE FROM sales.orders WHERE id = 2"],
        one_transaction=True,
    )


def test_orders_are_changed_together(hive_acid: HiveAcidTestbed, run_dag) -> None:
    hive_acid.sql(
        """
        CREATE DATABASE sales;
        CREATE TABLE sales.orders (id INT, amount INT) STORED AS ORC TBLPROPERTIES ('transactional'='true');
        INSERT INTO sales.orders VALUES (1, 10), (2, 20);
        """
    )
    finished = run_dag(dag)
    assert str(finished.state) == "success"
    (task,) = finished.get_task_instances()
    assert_committed(hive_acid, task.xcom_pull(task_ids="raise_prices"))
    assert_rows(hive_acid, "SELECT id, amount FROM sales.orders", [[1, 20]])
    assert_at_rest(hive_acid)
