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
