"""``FROM … INSERT … SELECT … INSERT … SELECT …``: several inserts from one FROM clause, as one statement.

Each branch becomes an INSERT of its own, whose query is the branch's SELECT list, the common FROM clause and what
follows the list. Branches share one transaction and what it saw at the statement's beginning: a branch whose table
another branch reads comes last, and a second one of that kind is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.sql.model.statements import MultiInsert
from airflow_hive_acid.sql.parsing import dml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokenizer_core import Token

    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import Insert
    from airflow_hive_acid.sql.parsing.cursor import Cursor

_AFTER_THE_LIST = (
    "WHERE", "GROUP BY", "HAVING", "WINDOW", "QUALIFY", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "LIMIT",
    "LATERAL VIEW", "LATERAL",
)  # fmt: skip


def is_multi_insert(cursor: Cursor) -> bool:
    """Whether the statement, which begins with FROM, goes on with an INSERT outside of parentheses."""
    start = cursor.position
    cursor.position += 1
    cursor.until("INSERT")
    found = not cursor.at_end
    cursor.position = start
    return found


def parse_multi_insert(cursor: Cursor, origin: dict[str, Any]) -> MultiInsert:
    """Read a statement that begins with FROM and has inserts behind it."""
    first = cursor.position
    cursor.expect("FROM")
    cursor.until("INSERT")
    common = cursor.tokens[first : cursor.position]
    inserts: list[Insert] = []
    while not cursor.at_end:
        begin = cursor.tokens[cursor.position]
        cursor.expect("INSERT")

        def body(branch: Cursor) -> list[list[Token]]:
            if not branch.at("SELECT"):
                raise branch.expected("SELECT")
            chosen = branch.until("INSERT", "FROM", *_AFTER_THE_LIST)
            if branch.at("FROM"):
                raise branch.error("this statement has a FROM clause already, before its first INSERT")
            return [chosen, common, branch.until("INSERT")]

        insert = dml.parse_insert(cursor, {**origin, "offset": begin.start}, read_query=body)
        inserts.append(insert)
    return MultiInsert(tuple(inserts), **origin)


def in_order(statement: MultiInsert, plans: Sequence[Plan]) -> list[int]:
    """In which order the branches run, so that none reads what another has written.

    :raises InvalidArgumentsError: when there is no such order, or one would replace what another has written.
    """
    _check_overwrites(statement, plans)
    read = {r.table for plan in plans for r in plan.reads}
    last = [i for i, plan in enumerate(plans) if plan.write is not None and plan.write.table in read]
    if len(last) > 1:
        tables = ", ".join(sorted({str(statement.inserts[i].table) for i in last}))
        raise InvalidArgumentsError(
            f"line {statement.line}: {len(last)} branches of this INSERT write tables that it reads ({tables}), and "
            "one would read the rows of the other; write them between BEGIN and COMMIT, in the order you mean"
        )
    return [i for i in range(len(plans)) if i not in last] + last


def _check_overwrites(statement: MultiInsert, plans: Sequence[Plan]) -> None:
    """Two branches may overwrite one table where the statement says that they mean different partitions."""
    places: dict[str, list[str | None]] = {}
    for plan in plans:
        if plan.write is not None and plan.write.operation == "overwrite":
            others = places.setdefault(plan.write.table, [])
            if others and (plan.write.only_partition is None or {None, plan.write.only_partition} & {*others}):
                raise InvalidArgumentsError(
                    f"line {statement.line}: The same output cannot be present multiple times: {plan.write.table}"
                    + (f" PARTITION ({plan.write.only_partition})" if plan.write.only_partition else "")
                    + "; one INSERT OVERWRITE would replace the rows of the other"
                )
            others.append(plan.write.only_partition)
