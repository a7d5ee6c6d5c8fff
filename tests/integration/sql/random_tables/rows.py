"""Steps that change rows. Each takes the dice and the table, and returns None where it cannot be."""

# ruff: noqa: S608 - statements put together from words of the tests

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .steps import NAMES, Batch, Dice, Sql, id_of, query, selected, values
from .tables import KEYS, Place, Row, State, literal, put

if TYPE_CHECKING:
    from collections.abc import Callable


def insert(dice: Dice, table: State) -> Sql:
    """INSERT … VALUES, into one partition or into any."""
    place = dice.static(table)
    rows = dice.rows(table, place, 1, 4)
    return Sql(
        table.with_more(rows),
        f"INSERT INTO {table.name}{table.partition(place)} VALUES {values(table, rows, place)}",
    )


def insert_select(dice: Dice, table: State) -> Sql:
    """Rows of the table, inserted into it once more."""
    condition, holds = dice.condition(table)
    place, shift = dice.static(table), dice.random.choice((0, 10))
    return Sql(
        table.with_more(selected(table, holds, shift, place)),
        f"INSERT INTO {table.name}{table.partition(place)} {query(table, shift, place)} WHERE {condition}",
    )


def overwrite(dice: Dice, table: State) -> Sql:
    """INSERT OVERWRITE of the table, of a partition, or of those that the rows have."""
    condition, holds = dice.condition(table)
    place = dice.static(table)
    if dice.some(0.4):
        new = dice.rows(table, place, 1, 3)
        source = f"VALUES {values(table, new, place)}"
    else:
        new = selected(table, holds, 0, place)
        source = f"{query(table, 0, place)} WHERE {condition}"
    replaced = {where for _, where in new} if place is None else {place}
    left = [row for row in table.rows if table.keys and row[1] not in replaced]
    after = table.with_rows([*left, *new])
    if place is not None:
        after = replace(after, partitions=after.partitions | {place})
    return Sql(after, f"INSERT OVERWRITE TABLE {table.name}{table.partition(place)} {source}")


def update(dice: Dice, table: State) -> Sql:
    """UPDATE of two columns."""
    condition, holds = dice.condition(table)
    name, amount = dice.random.choice(NAMES), dice.random.randrange(100, 120)
    _, second, third, *_ = table.columns
    new = str(amount) if third.type == "STRING" else amount
    rows = [(put(put(data, 1, name), 2, new) if holds(data) else data, place) for data, place in table.rows]
    return Sql(
        table.with_rows(rows),
        f"UPDATE {table.name} SET {second.name} = {literal(name)}, {third.name} = {literal(new)} WHERE {condition}",
    )


def move(dice: Dice, table: State) -> Sql:
    """UPDATE of a partition column."""
    condition, holds = dice.condition(table)
    at = dice.random.randrange(len(table.keys))
    key = table.keys[at]
    value = dice.random.choice([v for v in KEYS[key][1] if v is not None])
    rows = [(data, put(place, at, value) if holds(data) else place) for data, place in table.rows]
    return Sql(
        table.with_rows(rows), f"UPDATE {table.name} SET {key} = {literal(value, KEYS[key][0])} WHERE {condition}"
    )


def delete(dice: Dice, table: State) -> Sql:
    """DELETE by a condition."""
    condition, holds = dice.condition(table)
    return Sql(
        table.with_rows([row for row in table.rows if not holds(row[0])]), f"DELETE FROM {table.name} WHERE {condition}"
    )


def merge(dice: Dice, table: State) -> Sql:
    """MERGE by the first column and the partition: odd ids are deleted, others updated, new rows inserted."""
    source = [
        (put(data, 0, 20 + number if dice.some(0.3) else number), place)
        for number, (data, place) in enumerate(dice.rows(table, None, 1, 3))
    ]
    null_safe = dice.some(0.5)
    new_data = {(id_of(data), place): data for data, place in source if null_safe or None not in place}
    left: list[Row] = []
    for data, place in table.rows:
        match = new_data.get((id_of(data), place))
        if match is None:
            left.append((data, place))
        elif id_of(data) % 2 == 0:
            left.append((put(data, 1, match[1]), place))
    there = {(id_of(data), place) for data, place in table.rows} & new_data.keys()
    new = [(data, place) for data, place in source if (data[0], place) not in there]
    first, second = table.columns[0].name, table.columns[1].name
    same = "<=>" if null_safe else "="
    on = [f"t.{first} = s.{first}", *(f"t.{key} {same} s.{key}" for key in table.keys)]
    return Sql(
        table.with_rows([*left, *new]),
        f"MERGE INTO {table.name} t USING (SELECT * FROM VALUES {values(table, source)} AS v({', '.join(table.names)}))"
        f" s ON {' AND '.join(on)} WHEN MATCHED AND t.{first} % 2 = 1 THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {second} = s.{second}"
        f" WHEN NOT MATCHED THEN INSERT VALUES ({', '.join(f's.{name}' for name in table.names)})",
    )


def truncate(dice: Dice, table: State) -> Sql | None:
    """TRUNCATE of the table or of a partition."""
    place: Place | None = None
    if table.keys and dice.some(0.6):
        place = dice.partition(table)
        if place is None:
            return None
    left = [] if place is None else [row for row in table.rows if row[1] != place]
    return Sql(table.with_rows(left), f"TRUNCATE TABLE {table.name}{table.partition(place)}")


def transaction(dice: Dice, table: State) -> Sql:
    """A txn of up to three statements, which is committed or rolled back."""
    kinds: list[Callable[[Dice, State], Sql]] = [insert, insert_select]
    if table.kind.has_row_ids:
        kinds += [update, delete, merge]
    statements, now = ["BEGIN"], table
    for _ in range(dice.random.randint(1, 3)):
        step = dice.random.choice(kinds)(dice, now)
        statements.append(step.sql)
        now = step.after
    commits = dice.some(0.6)
    return Sql(now if commits else table, "; ".join([*statements, "COMMIT" if commits else "ROLLBACK"]))


def batch(dice: Dice, table: State) -> Batch:
    """Records through a streaming batch with up to three commits."""
    commits = [dice.rows(table, None, 0, 2) for _ in range(dice.random.randint(1, 3))]
    records = tuple(
        tuple(dict(zip(table.names, (*data, *place), strict=True)) for data, place in rows) for rows in commits
    )
    return Batch(table.with_more([row for rows in commits for row in rows]), records)
