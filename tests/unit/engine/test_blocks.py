"""Which statements of a script share a transaction."""

import pytest

from airflow_hive_acid.engine.statements.blocks import blocks, needs_spark
from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import Source
from airflow_hive_acid.sql.model.statements import (
    Begin,
    Commit,
    CreateTable,
    CreateTemporaryView,
    Delete,
    Rollback,
    Select,
    Show,
    ShowKind,
    TableName,
)

T = TableName("db", "t")
DELETE = Delete(T, "t", line=2)
SELECT = Select(None)
VIEW = CreateTemporaryView(Source("v", "csv", {}))
CREATE = CreateTable(T, (), line=7)


def test_statements_without_begin_stand_alone():
    found = blocks([CREATE, DELETE])
    assert [(b.statements, b.transactional) for b in found] == [((CREATE,), False), ((DELETE,), False)]


def test_begin_and_commit_make_one_block():
    begin, commit = Begin(line=1), Commit(line=4)
    found = blocks([CREATE, begin, VIEW, DELETE, SELECT, commit, DELETE])
    assert [len(b.statements) for b in found] == [1, 3, 1]
    assert found[1].transactional
    assert (found[1].begin, found[1].end) == (begin, commit)


def test_rollback_ends_a_block():
    found = blocks([Begin(), DELETE, Rollback()])
    assert isinstance(found[0].end, Rollback)


def test_one_transaction_makes_one_block():
    found = blocks([VIEW, DELETE, DELETE], one_transaction=True)
    assert len(found) == 1
    assert found[0].transactional
    assert found[0].end is None


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([Begin(line=3), DELETE], "line 3: BEGIN without a COMMIT"),
        ([DELETE, Commit(line=5)], "line 5: COMMIT without a BEGIN"),
        ([Begin(), DELETE, Commit(), Rollback(line=6)], "line 6: ROLLBACK without a BEGIN"),
        ([Begin(line=1), Begin(line=2), Commit()], "line 2: BEGIN inside the transaction that begins on line 1"),
    ],
)
def test_broken_structure_is_refused(script, reason):
    with pytest.raises(InvalidArgumentsError, match=reason):
        blocks(script)


@pytest.mark.parametrize("script", [[Begin(), CREATE, Commit()], [Begin(), Show(ShowKind.LOCKS), Commit()]])
def test_ddl_inside_a_transaction_is_refused(script):
    with pytest.raises(UnsupportedStatementError, match="cannot run inside a transaction"):
        blocks(script)


def test_ddl_of_a_script_in_one_transaction_is_refused_with_its_line():
    with pytest.raises(UnsupportedStatementError, match="line 7: CREATE TABLE cannot run inside"):
        blocks([CREATE, DELETE], one_transaction=True)


def test_begin_of_a_script_in_one_transaction_is_refused():
    with pytest.raises(InvalidArgumentsError, match="BEGIN in a script that runs in one transaction"):
        blocks([Begin(), DELETE, Commit()], one_transaction=True)


def test_kinds_are_spelt_as_results_spell_them():
    kinds = [s.kind_text for s in (CREATE, DELETE, SELECT, VIEW, Begin())]
    assert kinds == ["create_table", "delete", "select", "create_temporary_view", "begin"]


def test_only_data_statements_need_spark():
    assert [needs_spark(s) for s in (DELETE, SELECT, CREATE, VIEW, Begin())] == [True, True, False, False, False]
