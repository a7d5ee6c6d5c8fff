"""What Airflow is told about this provider: connection type, modules and configuration.

Airflow calls :func:`get_provider_info` at the start of nearly every process, so this module imports only literals.
The keys are those of Airflow's ``provider_info.schema.json``.
"""

from __future__ import annotations

from typing import Any

from airflow_hive_acid.provider_settings import SETTINGS

_NAME = "Hive ACID"
_VERSION_ADDED = "0.1.0"


def get_provider_info() -> dict[str, Any]:
    """The provider's description.

    :return: a document valid under Airflow's schema for providers.
    """
    return {
        "package-name": "airflow-hive-acid",
        "name": _NAME,
        "description": "Hive's ACID tables run by Airflow: transactions, DML and compaction, with Spark as the engine.",
        "integrations": [
            {"integration-name": _NAME, "external-doc-url": "https://hive.apache.org", "tags": ["apache"]}
        ],
        "hooks": _modules("hooks.hive_acid"),
        "operators": _modules(
            "operators.hive_acid",
            "operators.changes",
            "operators.export",
            "operators.exim",
            "operators.foreign_tables",
            "operators.mirror",
            "operators.time_travel",
            "operators.spark",
            "operators.stream",
            "operators.services",
            "operators.compact",
            "operators.worker",
            "operators.leases",
            "operators.transactions",
            "operators.replication",
        ),
        "sensors": _modules(
            "sensors.locks",
            "sensors.compactions",
            "sensors.leases",
            "sensors.transactions",
            "sensors.commits",
            "sensors.replication",
        ),
        "triggers": _modules(
            "triggers.locks",
            "triggers.compactions",
            "triggers.readiness",
            "triggers.leases",
            "triggers.granted",
            "triggers.ended",
            "triggers.table_commits",
            "triggers.commits",
            "triggers.shared_transactions",
            "triggers.replication",
        ),
        "extra-links": ["airflow_hive_acid.hooks.links.HiveAcidLink"],
        "task-decorators": [
            {"name": "hive_acid_sql", "class-name": "airflow_hive_acid.decorators.tasks.hive_acid_sql_task"},
            {"name": "hive_acid_pyspark", "class-name": "airflow_hive_acid.decorators.tasks.hive_acid_pyspark_task"},
        ],
        "asset-uris": [
            {
                "schemes": ["hiveacid"],
                "handler": "airflow_hive_acid.hooks.assets.check_uri",
                "to_openlineage_converter": "airflow_hive_acid.hooks.datasets.to_openlineage",
            }
        ],
        "connection-types": [_connection_type()],
        "cli": ["airflow_hive_acid.airflow_cli.get_cli_commands"],
        "config": {"hive_acid": {"description": _CONFIG_DESCRIPTION, "options": _options()}},
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _NAME, "python-modules": [f"airflow_hive_acid.{name}" for name in names]}]


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "hive_acid",
        "hook-class-name": "airflow_hive_acid.hooks.hive_acid.HiveAcidHook",
        "hook-name": _NAME,
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {"schema": "Metastore database", "host": "Metastore host, or path of the SQLite file"},
            "placeholders": {"host": "/var/lib/hive-acid/metastore.db", "login": "hive", "schema": "metastore"},
        },
        "conn-fields": {
            "dialect": {
                "label": "Database of the metastore",
                "description": "Which database holds the metastore tables.",
                "schema": {
                    "type": ["string", "null"],
                    "default": "sqlite",
                    "enum": ["sqlite", "postgresql", "mysql"],
                },
            },
            "metastore_url": {
                "label": "Metastore URL",
                "description": "SQLAlchemy URL instead of dialect, host, port and database. User and password come "
                "from the fields Login and Password; do not write them into the URL.",
                "schema": {"type": ["string", "null"]},
            },
            "warehouse": {
                "label": "Warehouse",
                "description": "URI or absolute path of the directory below which databases and tables are created.",
                "schema": {"type": ["string", "null"]},
            },
            "spark_conn_id": {
                "label": "Spark connection",
                "description": "Connection through which Spark jobs are submitted.",
                "schema": {"type": ["string", "null"], "default": "spark_default"},
            },
            "spark_service": {
                "label": "Spark service",
                "description": "A Spark that runs the statements of several tasks (hive-acid spark serve). Empty: each "
                "task starts a Spark of its own.",
                "schema": {"type": ["string", "null"]},
            },
            "default_database": {
                "label": "Default database",
                "description": "Database of names without one, until a script says USE.",
                "schema": {"type": ["string", "null"], "default": "default"},
            },
            "spool": {
                "label": "Spool directory",
                "description": "Directory through which Airflow and the Spark driver exchange job specs and results. "
                "Must be reachable from both; only needed when the driver runs on another machine.",
                "schema": {"type": ["string", "null"]},
            },
            "proxy_user": {
                "label": "Proxy user",
                "description": "User whom Spark applications act for (spark-submit --proxy-user), to whom the files "
                "they write belong. Hadoop must allow it. Empty: the user who submits.",
                "schema": {"type": ["string", "null"]},
            },
        },
    }


_CONFIG_DESCRIPTION = """Settings of airflow-hive-acid. Every setting can be given here, under its Hive name with
underscores for dots: hive.compactor.delta.num.threshold is hive_compactor_delta_num_threshold. A setting in the extra
of the connection wins over this section, and this section over hive-site.xml."""

_SCHEDULE = "A cron expression, a preset such as @hourly, an interval such as PT10M, or never. Empty: every"


def _options() -> dict[str, Any]:
    return {
        "conn_id": _option("string", "Connection the maintenance DAGs work on.", default="hive_acid_default"),
        "deployment_id": _option(
            "string",
            "Name of this Airflow, the same for all its parts, where several Airflows use one metastore. Changed while "
            "tasks run, a retry of them counts as new work.",
            example="production",
        ),
        "hive_site": _option(
            "string",
            "Path of a hive-site.xml; settings that are given nowhere else are taken from it.",
            example="/etc/hive/conf/hive-site.xml",
        ),
        "initiator_schedule": _option(
            "string",
            f"When the Initiator looks for tables to compact. {_SCHEDULE} hive.compactor.check.interval.",
            example="*/10 * * * *",
        ),
        "worker_schedule": _option(
            "string",
            "When the Worker looks for requests, besides right after the Initiator has made some. "
            f"{_SCHEDULE} hive.compactor.check.interval; a run then waits for requests until the next one is due.",
            example="*/10 * * * *",
        ),
        "worker_requests_per_task": _option(
            "integer",
            "Compaction requests that a Worker task serves with its Spark application before it ends.",
            default="50",
        ),
        "share_spark": _option(
            "boolean",
            "Tasks that run in one process, as in dag.test(), share a Spark application. Airflow's executors give each "
            "task a process of its own; leave it off there.",
            default="False",
        ),
        "spark_services": _option(
            "string",
            "Names of Spark services that DAGs keep alive, one DAG each. It takes a worker slot as long as it runs.",
            example="etl, adhoc",
        ),
        "compaction_pool": _option("string", "Airflow pool in which the Worker's tasks run.", default="default_pool"),
        "compaction_pools": _option(
            "string",
            "Airflow pools that exist for compaction pools, by the same name or as name=airflow_pool. Workers of other "
            "compaction pools run in compaction_pool.",
            example="etl, reports=reports_pool",
        ),
        "cleaner_schedule": _option(
            "string",
            f"When the Cleaner removes obsolete files. {_SCHEDULE} 5 minutes; a run then waits in the triggerer, looks "
            "every hive.compactor.cleaner.run.interval, and cleans as soon as something is ready.",
            example="*/5 * * * *",
        ),
        "reaper_schedule": _option(
            "string",
            f"When txns that timed out are aborted. {_SCHEDULE} hive.timedout.txn.reaper.interval.",
            example="*/5 * * * *",
        ),
        "history_purge_schedule": _option(
            "string",
            f"When old compactions are forgotten. {_SCHEDULE} hive.compactor.history.reaper.interval.",
            example="@daily",
        ),
        "replication_policies": _option(
            "string",
            "Which tables are replicated from where to where: path of a JSON or TOML file, variable: and the name of "
            "an Airflow variable with the same, or the JSON itself.",
            example="/etc/hive-acid/policies.toml",
        ),
        "replication_schedule": _option(
            "string",
            f"When policies without a schedule of their own are replicated. {_SCHEDULE} hive.acid.repl.interval; a run "
            "then waits for events until the next one is due.",
            example="*/15 * * * *",
        ),
        # Without defaults: they would win over hive-site.xml.
        **{key.replace(".", "_"): _option(kind, text, example=value or None) for key, kind, text, value in SETTINGS},
    }


def _option(kind: str, description: str, *, default: str | None = None, example: str | None = None) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": _VERSION_ADDED,
        "type": kind,
        "example": example,
        "default": default,
    }
