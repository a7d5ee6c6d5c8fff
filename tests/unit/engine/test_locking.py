"""Locking as values and a choice: what is asked for, what covers what, and that every manager has its two places."""

import pytest

from airflow_hive_acid.engine.locking import choice
from airflow_hive_acid.engine.locking.hive4 import Hive4Locking
from airflow_hive_acid.engine.locking.legacy import LegacyLocking
from airflow_hive_acid.engine.locking.requests import Declared, PlannedLocks
from airflow_hive_acid.engine.queries import shows
from airflow_hive_acid.errors import ConfigurationError, UnsupportedStatementError
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.protocol import Locks
from airflow_hive_acid.settings import SETTINGS, Settings, Source
from airflow_hive_acid.sql.locks.legacy_locks import LegacyLock, LegacyMode

DUMMY = "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager"


def locking(**given):
    settings = Settings({Source.REQUEST: {f"hive.{key.replace('__', '.')}": value for key, value in given.items()}})
    return choice.locking_of(None, settings, None, "test")


def planned(*places, beside=()):
    components = tuple(
        LockComponent("w", "t", place, LockType.SHARED_READ, Operation.SELECT, transactional=False) for place in places
    )
    locks = tuple(LegacyLock(path, LegacyMode.SHARED, "select") for path in beside)
    return PlannedLocks(Declared({}), of_txn=Locks(components), beside=locks)


def test_every_transaction_manager_has_its_locking_and_its_show_locks():
    assert set(choice._MANAGERS) == set(shows._LOCKS_OF) == set(SETTINGS["hive.txn.manager"].choices)


def test_the_manager_that_is_configured_is_chosen():
    assert isinstance(locking(), Hive4Locking)
    assert isinstance(locking(txn__manager=DUMMY), LegacyLocking)


def test_db_txn_manager_needs_locks_and_has_transactions():
    locking().require(())
    locking().require_transactions("this needs transactions")
    with pytest.raises(ConfigurationError, match=r"hive.support.concurrency is false"):
        locking(support__concurrency="false").require(())


def test_dummy_txn_manager_refuses_what_needs_transactions_with_the_callers_words():
    with pytest.raises(UnsupportedStatementError, match="this needs transactions"):
        locking(txn__manager=DUMMY).require_transactions("this needs transactions")


def test_without_concurrency_dummy_txn_manager_locks_nothing_and_says_which_setting_it_is():
    off = locking(txn__manager=DUMMY, support__concurrency="false")
    assert off.off == "hive.support.concurrency=false"
    assert off.plan(Declared({"w.t": "insert"})).beside == ()
    assert locking(txn__manager=DUMMY).off is None
    assert locking().off is None


def test_locks_cover_what_is_locked_already_and_nothing_new():
    held = planned("k=x", "k=y")
    assert held.covers(planned("k=x"))
    assert not held.covers(planned("k=x", "k=z"))
    beside = planned(beside=[("w", "t"), ("w", "t", "k=x")])
    assert beside.covers(planned(beside=[("w", "t", "k=x")]))
    assert not beside.covers(planned(beside=[("w", "t", "k=y")]))
