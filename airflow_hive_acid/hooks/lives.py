"""What tells two things of Airflow apart that have the same names: lives of a DAG run, and Airflows (R14).

A DAG run that was deleted and made again has the same ids as the one before, and its dates, too. What Airflow keeps for
a task instance (its task state store) goes with the run and stays through retries and clears: a random id that is put
there once is the life of the task in this run. No other run has it, in this Airflow or in any other.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.airflow_versions import NEVER_EXPIRE, conf
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.hooks.configuration import SECTION

if TYPE_CHECKING:
    from collections.abc import Mapping

LIFE_KEY = "hive_acid_run"
TRIES_KEY = "hive_acid_tries"
_LONGEST = 64


def run_life(context: Mapping[str, Any]) -> str:
    """The life of a task instance's DAG run: the same in all tries and after clears, another in a run made anew.

    Airflow refuses a try that it has given up, so such a one cannot begin a life of its own.

    :return: empty where this Airflow keeps nothing for task instances.
    """
    store = context.get("task_state_store")
    if store is None:
        return ""
    kept = store.get(LIFE_KEY)
    if not isinstance(kept, str) or not kept:
        store.set(LIFE_KEY, uuid.uuid4().hex, retention=NEVER_EXPIRE)
        kept = store.get(LIFE_KEY)  # of two that begin at once, both go on with the one that stayed
    return str(kept)


def task_life(context: Mapping[str, Any]) -> str:
    """The life of a task instance in its run: the same in all tries between two clears of it (decision 18).

    It is the highest number of tries that the task has, which a clear raises by those it has had. Where the DAG's
    ``retries`` were lowered meanwhile, a clear may leave that number as it was; so beside it is kept what the DAG said,
    and how often something of the run was cleared. Where both have changed under the same number, that was a clear.
    """
    tries = context["ti"].max_tries
    store = context.get("task_state_store")
    retries = getattr(context.get("task"), "retries", None)
    clears = getattr(context.get("dag_run"), "clear_number", None)
    life = str(tries)
    if store is None or retries is None or clears is None:
        return life
    kept = store.get(TRIES_KEY)
    if isinstance(kept, dict) and kept.get("tries") == tries:
        is_cleared = kept.get("retries") != retries and kept.get("clears") != clears
        life = f"{tries}.{clears}" if is_cleared else str(kept.get("life", life))
    now = {"tries": tries, "retries": retries, "clears": clears, "life": life}
    if kept != now:
        store.set(TRIES_KEY, now, retention=NEVER_EXPIRE)
    return life


def deployment_id() -> str:
    """What this Airflow is called on a metastore that several use: ``[hive_acid] deployment_id``, empty by default.

    :raises ConfigurationError: when it is longer than 64 characters, or not of letters, digits and ``._-``.
    """
    text = str(conf.get(SECTION, "deployment_id", fallback="") or "").strip()
    if len(text) > _LONGEST or not all(c.isascii() and (c.isalnum() or c in "._-") for c in text):
        raise ConfigurationError(
            f"[{SECTION}] deployment_id = {text[:80]!r}: write up to {_LONGEST} letters, digits, dots, - or _"
        )
    return text
