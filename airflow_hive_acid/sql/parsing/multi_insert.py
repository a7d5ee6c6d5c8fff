"""``FROM … INSERT … SELECT … INSERT … SELECT …``: several inserts from one FROM clause, as one statement.

Each branch becomes an INSERT of its own, whose query is the branch's SELECT list, the common FROM clause and what
follows the list. Branches share one transaction and what it saw at the statement's beginning: a branch whose table
another branch reads comes behind that one, and where each would have to come behind the other they are refused. Of one
table the branches that overwrite come first: rows that another one puts there are beside theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.sql.model.statements import MultiInsert
from airflow_hive_acid.sql.parsing import dml
from airflow_hive_acid.sql.planning.common import OTHER_ROWS
from airflow_hive_acid.sql.text.chance import chance_in

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
    if len(inserts) > 1:
        _require_same_rows(cursor, common)
    return MultiInsert(tuple(inserts), **origin)


def _require_same_rows(cursor: Cursor, common: Sequence[Token]) -> None:
    """Refuse a common FROM clause whose rows are others for each branch: a Hive reads it once, here each does."""
    chance = chance_in(common)
    if chance is not None:
        raise cursor.unsupported(OTHER_ROWS.format(chance[0]), chance[1])


def in_order(statement: MultiInsert, plans: Sequence[Plan]) -> list[int]:
    """In which order the branches run, so that none reads, or replaces, what another has written.

    :raises InvalidArgumentsError: when there is no such order, or one would replace what another has written.
    """
    _check_overwrites(statement, plans)
    left, order = list(range(len(plans))), list[int]()
    while left:
        ready = next((i for i in left if not _has_to_wait(plans[i], [plans[j] for j in left if j != i])), None)
        if ready is None:
            tables = ", ".join(sorted({str(statement.inserts[i].table) for i in left}))
            raise InvalidArgumentsError(
                f"line {statement.line}: {len(left)} branches of this INSERT write tables that it reads ({tables}), "
                "and one would read the rows of the other; write them between BEGIN and COMMIT, in the order you mean"
            )
        left.remove(ready)
        order.append(ready)
    return order


def _has_to_wait(plan: Plan, others: Sequence[Plan]) -> bool:
    """Whether others read what one writes, or would replace it: an overwrite does that to what its transaction did."""
    if plan.write is None:
        return False
    table = plan.write.table
    if any(read.table == table for other in others for read in other.reads):
        return True
    replacing = (other.write for other in others if _overwrites(other))
    return not _overwrites(plan) and any(write is not None and write.table == table for write in replacing)


def _check_overwrites(statement: MultiInsert, plans: Sequence[Plan]) -> None:
    """Two branches may overwrite one table where the statement says that they mean different partitions."""
    places: dict[str, list[str | None]] = {}
    for plan in plans:
        if plan.write is not None and _overwrites(plan):
            others = places.setdefault(plan.write.table, [])
            if others and (plan.write.only_partition is None or {None, plan.write.only_partition} & {*others}):
                raise InvalidArgumentsError(
                    f"line {statement.line}: The same output cannot be present multiple times: {plan.write.table}"
                    + (f" PARTITION ({plan.write.only_partition})" if plan.write.only_partition else "")
                    + "; one INSERT OVERWRITE would replace the rows of the other"
                )
            others.append(plan.write.only_partition)


def _overwrites(plan: Plan) -> bool:
    return plan.write is not None and plan.write.operation == "overwrite"
