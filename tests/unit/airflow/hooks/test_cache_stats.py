"""The catalog cache's statistics as gauges of Airflow's metrics."""

from __future__ import annotations

from airflow_hive_acid.hooks import stats
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.metastore.cache.statistics import CacheStatistics


def test_what_is_known_of_the_cache_is_sent_as_gauges(monkeypatch):
    sent = {}
    monkeypatch.setattr(stats.stats, "gauge", lambda name, value, tags=None: sent.update({name: value}))
    stats.tell_cache(
        CacheStatistics("following", hits=90, missing=6, stale=4, entries=5, bytes=1000, lag_seconds=0.5),
        DEFAULT_CONN_ID,
    )
    assert sent == {
        "hive_acid.cache_hits": 90, "hive_acid.cache_missing": 6, "hive_acid.cache_stale": 4,
        "hive_acid.cache_entries": 5, "hive_acid.cache_bytes": 1000, "hive_acid.cache_restarts": 0,
        "hive_acid.cache_lag_in_sec": 0.5,
    }  # fmt: skip


def test_parts_of_the_reads_are_told_together():
    found = CacheStatistics("following", hits=90, missing=6, stale=4)
    assert (found.reads, found.hit_ratio) == (100, 0.9)
    assert CacheStatistics("off").hit_ratio is None
    assert found.to_document()["hit_ratio"] == 0.9
