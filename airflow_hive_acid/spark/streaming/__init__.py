"""Structured Streaming: a sink whose micro-batches become transactions, exactly once.

Gives ``hive_acid_sink``, imported when it is first used. Imports ``spark.jobs`` and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_hive_acid.spark.streaming.sink import HiveAcidSink, hive_acid_sink

__all__ = ["HiveAcidSink", "hive_acid_sink"]


# As ``faces.lazily``, which does not travel to the cluster.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from airflow_hive_acid.spark.streaming import sink

    return getattr(sink, name)
