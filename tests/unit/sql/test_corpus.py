"""A corpus of statements, and what they are read and planned as.

``corpus/plans.txt`` is written by ``python -m tests.unit.sql.test_corpus`` and never by hand: what changes in it is
what changes for users.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.sql import parse_script, plan
from airflow_hive_acid.sql.locks.ddl_locks import ddl_locks
from airflow_hive_acid.sql.locks.legacy_locks import legacy_data_locks, legacy_ddl_locks
from airflow_hive_acid.sql.locks.statement_locks import data_locks
from airflow_hive_acid.sql.model.origins import Fragment, Origin
from airflow_hive_acid.sql.model.statements import (
    Abort,
    Begin,
    Commit,
    CreateTemporaryView,
    Delete,
    DropForceLease,
    Explain,
    Insert,
    Load,
    Merge,
    MultiInsert,
    Rollback,
    Select,
    Show,
    ShowLease,
    Update,
)
from airflow_hive_acid.sql.parsing.multi_insert import in_order
from tests.unit.sql.catalog import VIEWS, table_of

if TYPE_CHECKING:
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import Statement

CORPUS = Path(__file__).with_name("corpus")
STATEMENTS = (CORPUS / "statements.sql").read_text()
_ORIGIN = {f.name for f in dataclasses.fields(Origin)}
_SIMPLE = (Abort, Begin, Commit, CreateTemporaryView, DropForceLease, Load, Rollback, Show, ShowLease)


def described(statement: Statement) -> list[str]:
    """What a statement is read as: its plan, or its parts; and what it locks."""
    if isinstance(statement, Explain):
        kind = "explain locks" if statement.locks else "explain"
        return [f"{kind}:", *(f"  {line}" for line in described(statement.statement))]
    if isinstance(statement, MultiInsert):
        plans = [plan(insert, table_of, VIEWS) for insert in statement.inserts]
        return _planned([plans[i] for i in in_order(statement, plans)])
    if isinstance(statement, Select | Insert | Update | Delete | Merge):
        return _planned([plan(statement, table_of, VIEWS)])
    lines = [_shown(statement)]
    if not isinstance(statement, _SIMPLE):
        lines += [f"lock {lock}  [{lock.rule}]" for lock in ddl_locks(statement, table_of)]
        lines += [f"legacy {lock}" for lock in legacy_ddl_locks(statement, table_of)]
    return lines


def _planned(plans: list[Plan]) -> list[str]:
    lines = []
    for planned in plans:
        lines.append(planned.kind)
        if planned.write is not None:
            write = planned.write
            parts = [write.operation, f"touches {write.partitions}"] if write.partitioned else [write.operation]
            parts += [f"{name}={value}" for name, value in write.static_partition]
            parts += [f"{name}=?" for name in write.dynamic_partition]
            lines.append(f"write {write.table}: {', '.join(parts)}")
        lines += [f"read {r.table} as {r.view}: {r.partitions}{' +ROW__ID' * r.pseudo_columns}" for r in planned.reads]
        lines += [f"source {source.name}" for source in planned.sources]
        lines.append(f"ids {planned.statement_id_count}")
        lines += [f"{key}: {value!r}" for key, value in _fields(planned.template)]
    lines += [f"lock {lock}  [{lock.rule}]" for lock in data_locks(plans)]
    lines += [f"legacy {lock}" for lock in legacy_data_locks(plans)]
    return lines


def _fields(value: Any) -> list[tuple[str, Any]]:
    return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]


def _shown(statement: Any) -> str:
    parts = [
        f"{name}={'query' if isinstance(value, Fragment) else value!r}"
        for name, value in _fields(statement)
        if name not in _ORIGIN and value not in (None, (), {}, False)
    ]
    return f"{type(statement).__name__}({', '.join(parts)})"


def snapshot() -> str:
    blocks = []
    for statement in parse_script(STATEMENTS):
        blocks.append("\n".join([f"> {' '.join(statement.text.split())}", *(f"  {x}" for x in described(statement))]))
    return "\n\n".join(blocks) + "\n"


EXPECTED = (CORPUS / "plans.txt").read_text().split("\n\n") if (CORPUS / "plans.txt").exists() else []


def test_the_corpus_is_large_and_nothing_is_in_it_twice() -> None:
    texts = [statement.text for statement in parse_script(STATEMENTS)]
    assert len(texts) >= 150
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(("number", "found"), list(enumerate(snapshot().split("\n\n"))))
def test_a_statement_is_planned_as_before(number: int, found: str) -> None:
    assert found.strip() == EXPECTED[number].strip()


def test_the_snapshot_holds_nothing_else() -> None:
    assert len(EXPECTED) == len(parse_script(STATEMENTS))


if __name__ == "__main__":
    (CORPUS / "plans.txt").write_text(snapshot())
