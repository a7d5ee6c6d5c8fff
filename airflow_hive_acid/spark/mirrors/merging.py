"""What was changed, as rows with one operation each, and the MERGE that applies them.

The MERGE believes nothing: a row that is said to be new must not be there, one that is said to be gone or changed must
be. What contradicts that ends it, and so nothing of it is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from airflow_hive_acid.errors import MirrorDivergedError, MirrorKeyError, MirrorNullKeyError
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import Shown, fail
from airflow_hive_acid.spark.mirrors.targets import DELETE, INSERT, OPERATION, UPDATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from airflow_hive_acid.spark.mirrors.columns import MirrorColumns

_INSERTS, _PLACE = "_hive_acid_inserts", "_hive_acid_place"
REMEDY = (
    "a mirror by key needs one row of each: remove one, name more key columns, or mirror without a key (rows are then "
    "known by their ROW__ID)"
)


def one_per_key(rows: DataFrame, columns: MirrorColumns, table: str) -> DataFrame:
    """Inserted and deleted rows, as one operation for each key.

    :param rows: with :data:`OPERATION`, insert or delete.
    :return: a deleted and an inserted row of a key are an update; two inserted ones end the job that reads them.
    """
    keys = [F.col(schema.quoted(name)) for name in columns.key]
    is_delete = F.expr(f"{OPERATION} = '{DELETE}'")
    by_key = Window.partitionBy(*keys)
    counted = rows.withColumns(
        {
            _INSERTS: F.sum(F.when(is_delete, 0).otherwise(1)).over(by_key),
            "_hive_acid_deletes": F.sum(F.when(is_delete, 1).otherwise(0)).over(by_key),
            _PLACE: F.row_number().over(by_key.orderBy(is_delete)),
        }
    )
    kept = counted.where(f"{_PLACE} = 1 or {_INSERTS} > 1")
    doubled = f"cast({same_key(table, columns, '')} as string)"
    operation = (
        f"case when {_INSERTS} > 1 then {doubled} when {OPERATION} = '{DELETE}' then '{DELETE}' "
        f"when _hive_acid_deletes > 0 then '{UPDATE}' else '{INSERT}' end"
    )
    names = [schema.quoted(name) for name in columns.names]
    return kept.selectExpr(*names, f"{operation} as {OPERATION}")


def same_key(table: str, columns: MirrorColumns, alias: str) -> str:
    """SQL that ends the job: two rows have the same key.

    :param alias: of the row, with its dot.
    """
    key = _shown_key(columns, alias)
    return fail(MirrorKeyError, f"two rows of {table} have the key ", *key, f"; {REMEDY}. The target was not changed")


def merge_statement(table: str, columns: MirrorColumns, *, by_row_id: bool, nulls: bool = True) -> str:
    """The MERGE, with ``{target}`` and ``{changes}`` where their names go.

    :param by_row_id: rows are known by their ROW__ID, which nobody else makes.
    :param nulls: whether a column of the key may be NULL in what was changed; without, the join is cheaper, and one
        that is NULL all the same ends the statement with ``MirrorNullKeyError``.
    """
    names = [schema.quoted(name) for name in columns.names]
    first, kind = names[0], schema.sql_type(columns.fields[0][1])
    same = "<=>" if nulls else "="
    on = " AND ".join(f"t.{schema.quoted(name)} {same} s.{schema.quoted(name)}" for name in columns.key)
    inserted, values = ", ".join(names), ", ".join(f"s.{name}" for name in names)
    key = _shown_key(columns, "s.")
    absent = fail(MirrorDivergedError, "the target lacks the row ", *key, ", which is in its source")
    if by_row_id:
        there = fail(MirrorDivergedError, "the target has the row ", *key, " already")
    else:
        there = same_key(table, columns, "s.")
    # Every column comes from the source in every clause: of the target nothing is read but what finds the row.
    assigned = [f"{name} = s.{name}" for name in names]
    doubled = f"{first} = cast({there} as {kind})"
    rest = ", ".join(f"s.{name}" for name in names[1:])
    wrong = f"cast({absent} as {kind})" + (f", {rest}" if rest else "")
    if not nulls:
        # What is NULL equals nothing, so such a row is never matched.
        unknown = " OR ".join(f"s.{schema.quoted(name)} IS NULL" for name in columns.key)
        null = fail(MirrorNullKeyError, "a column of the key is NULL")
        values = f"if({unknown}, cast({null} as {kind}), s.{first})" + (f", {rest}" if rest else "")
        wrong = f"if({unknown}, cast({null} as {kind}), cast({absent} as {kind}))" + (f", {rest}" if rest else "")
    text = "\n".join(
        [
            "MERGE INTO \0target\0 t USING \0changes\0 s",
            f"ON {on}",
            f"WHEN MATCHED AND s.{OPERATION} = '{DELETE}' THEN DELETE",
            f"WHEN MATCHED AND s.{OPERATION} = '{INSERT}' THEN UPDATE SET {', '.join([doubled, *assigned[1:]])}",
            f"WHEN MATCHED THEN UPDATE SET {', '.join(assigned)}",
            f"WHEN NOT MATCHED AND s.{OPERATION} = '{INSERT}' THEN INSERT ({inserted}) VALUES ({values})",  # noqa: S608 - quoted
            f"WHEN NOT MATCHED THEN INSERT ({inserted}) VALUES ({wrong})",  # noqa: S608 - quoted
        ]
    )
    # Names of columns may hold braces; the places of the two names are the only ones.
    escaped = text.replace("{", "{{").replace("}", "}}")
    return escaped.replace("\0target\0", "{target}").replace("\0changes\0", "{changes}")


def partition_condition(names: Sequence[str], left: str, right: str) -> str:
    """SQL that compares partition values, NULL among them."""
    return " and ".join(f"{left}.{schema.quoted(n)} <=> {right}.{schema.quoted(n)}" for n in names)


def _shown_key(columns: MirrorColumns, alias: str) -> list[str | Shown]:
    """``name = value`` of each column of the key, as parts of a message."""
    parts: list[str | Shown] = []
    for name in columns.key:
        parts += [f"{', ' if parts else ''}{name} = ", Shown(f"{alias}{schema.quoted(name)}")]
    return parts
