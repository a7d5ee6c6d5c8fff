"""Settings of a task: connection before airflow.cfg before hive-site.xml."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks import configuration
from airflow_hive_acid.hooks.configuration import load_settings
from airflow_hive_acid.settings import Source

KEY, OPTION = "hive.txn.timeout", "AIRFLOW__HIVE_ACID__HIVE_TXN_TIMEOUT"


def test_default_when_nobody_says_anything():
    assert load_settings()[KEY].source is Source.DEFAULT


def test_strongest_source_wins(monkeypatch, tmp_path):
    site = tmp_path / "hive-site.xml"
    site.write_text(f"<configuration><property><name>{KEY}</name><value>100s</value></property></configuration>")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_SITE", str(site))
    assert load_settings()[KEY].text == "100s"
    monkeypatch.setenv(OPTION, "200s")
    assert load_settings()[KEY].text == "200s"
    assert load_settings({KEY: "300s"})[KEY].text == "300s"


def test_value_of_the_wrong_type_is_named_with_its_place(monkeypatch):
    monkeypatch.setenv(OPTION, "soon")
    with pytest.raises(InvalidArgumentsError, match=r"hive\.txn\.timeout = 'soon' \(airflow\.cfg \[hive_acid\]\)"):
        load_settings()


def test_airflow_is_asked_only_for_options_that_its_file_or_a_variable_gives(monkeypatch):
    """Each question costs, and every hook of every task reads all settings."""
    asked = []
    get = configuration.conf.get

    def asking(section, option, **more):
        asked.append(option)
        return get(section, option, **more)

    monkeypatch.setattr(configuration.conf, "get", asking)
    monkeypatch.setenv(OPTION, "200s")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_LOCK_NUMRETRIES_CMD", "echo 7")
    configuration.conf.read_dict({"hive_acid": {"hive_unlock_numretries": "3"}})
    try:
        settings = load_settings()
    finally:
        configuration.conf.remove_section("hive_acid")
    assert [settings[key].text for key in (KEY, "hive.unlock.numretries")] == ["200s", "3"]
    assert sorted(set(asked)) == ["hive_lock_numretries", "hive_site", "hive_txn_timeout", "hive_unlock_numretries"]
