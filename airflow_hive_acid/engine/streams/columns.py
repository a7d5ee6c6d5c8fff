"""What becomes of the columns of a stream in the columns of its table: matched by name, by rules that are settings.

Pure: two lists of columns and the rules go in, out comes what to write, what to add to the table first, and what to
leave out; or an error that names the column and the setting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import StreamSchemaError
from airflow_hive_acid.format.streams import DELETED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.format.streams import StreamOptions

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_FLOATS = ("float", "double")
_TEXTS = ("string", "char", "varchar")
_INSTANT = "timestamp with local time zone"
_ARGUMENTS = re.compile(r"([a-z ]+)(?:\((\d+)(?:,\s*(\d+))?\))?")


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What to do with the columns of a micro-batch.

    :param written: names that the statement fills, in the table's order, partition columns last.
    :param added: columns that the table must be given first.
    :param ignored: columns of the stream that go nowhere.
    :param missing: columns of the table that the stream does not have.
    :param nulls: those of them that become NULL, whatever their DEFAULT is.
    """

    written: tuple[str, ...]
    added: tuple[Column, ...] = ()
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()


def reconcile(
    options: StreamOptions,
    columns: Sequence[Column],
    partition_columns: Sequence[Column],
    given: Sequence[Column],
    aside: Collection[str] = (),
) -> Reconciled:
    """Match the columns of a micro-batch with those of the table, by name and without regard to case.

    :param given: the stream's columns with Spark's type texts.
    :param aside: names, in lower case, of columns that say what is to be done with a row: one that the table does not
        have is no new column, and goes nowhere.
    :raises StreamSchemaError: naming the column, and the option that would let it pass.
    """
    rules, partitions = options, [column.name for column in partition_columns]
    offered = _by_name(rules, given)
    _check_partition(rules, partitions)
    fixed = _fixed(rules)
    targets = [c for c in (*columns, *partition_columns) if c.name not in fixed]
    unknown = {name: c for name, c in offered.items() if name not in {target.name for target in targets}}
    new = [column for name, column in unknown.items() if name not in aside]
    missing = [target.name for target in targets if target.name not in offered]
    _check_new(rules, new)
    _check_missing(rules, missing, partitions)
    filled = {target: offered[target.name] for target in targets if target.name in offered}
    _check_types(rules, filled)
    _check_keys(rules, {target.name for target in filled})
    added = tuple(new) if rules.on_new_column == "add" else ()
    return Reconciled(
        (
            *(target.name for target in filled if target.name not in partitions),
            *(column.name.lower() for column in added),
            *(name for name in partitions if name not in fixed),
        ),
        added,
        tuple(column.name for column in unknown.values() if column not in added),
        tuple(missing),
        tuple(missing) if rules.on_missing_column == "null" else (),
    )


def fits(given: str, wanted: str) -> bool:
    """Whether every value of a type is a value of another one, or is checked as text of a length is."""
    given, wanted = given.lower().strip(), wanted.lower().strip()
    if given == wanted or given == "void":
        return True
    one, other = _parts(given), _parts(wanted)
    if one is None or other is None:
        return False
    (kind, precision, scale), (target, most, places) = one, other
    if kind in _TEXTS and target in _TEXTS:
        return True
    if kind in _INTEGERS and target in _INTEGERS:
        return _INTEGERS.index(kind) <= _INTEGERS.index(target)
    if target == "decimal":
        if kind in _INTEGERS:
            return _DIGITS[kind] <= most - places
        return kind == "decimal" and scale <= places and precision - scale <= most - places
    if kind == "float" and target == "double":
        return True
    if kind == "date":
        return target == "timestamp"
    return {kind, target} == {"timestamp", _INSTANT}


def _parts(text: str) -> tuple[str, int, int] | None:
    match = _ARGUMENTS.fullmatch(text)
    if match is None:
        return None
    kind = {"integer": "int", "numeric": "decimal", "dec": "decimal"}.get(match[1].strip(), match[1].strip())
    default = (10, 0) if kind == "decimal" else (0, 0)
    return kind, int(match[2] or default[0]), int(match[3] or default[1])


def _by_name(rules: StreamOptions, given: Sequence[Column]) -> dict[str, Column]:
    """The stream's columns by name, in lower case."""
    found: dict[str, Column] = {}
    for column in given:
        name = column.name.lower()
        if name in found:
            raise StreamSchemaError(
                f"stream {rules.stream} has two columns {name}; names do not differ by case in Hive"
            )
        found[name] = column
    if DELETED in found:
        raise StreamSchemaError(f"column {DELETED} of stream {rules.stream} has a name used internally; rename it")
    return found


def _fixed(rules: StreamOptions) -> set[str]:
    """The partition columns that have a value of their own."""
    return {name.lower() for name, value in rules.partition.items() if value is not None}


def _check_new(rules: StreamOptions, new: Sequence[Column]) -> None:
    if new and rules.on_new_column == "fail":
        fixed = new[0].name.lower() in _fixed(rules)
        where = "it is a partition column with a value of its own" if fixed else "new"
        raise StreamSchemaError(
            f"column {new[0].name} ({new[0].type}) of stream {rules.stream} is not in {rules.table} ({where}); say "
            "on_new_column='add' to add it to the table, 'ignore' to leave it out, or drop it from the stream"
        )


def _check_missing(rules: StreamOptions, missing: Sequence[str], partitions: Collection[str]) -> None:
    absent = next((name for name in missing if name in partitions), None)
    if absent is not None:
        raise StreamSchemaError(
            f"stream {rules.stream} lacks {absent}, by which {rules.table} is partitioned; give it a value in "
            "partition=, or a column in the stream"
        )
    if missing and rules.on_missing_column == "fail":
        raise StreamSchemaError(
            f"stream {rules.stream} lacks column {missing[0]} of {rules.table}; say on_missing_column='null' to store "
            "NULL in it, 'default' for its DEFAULT, or add it to the stream"
        )


def _check_types(rules: StreamOptions, filled: Mapping[Column, Column]) -> None:
    for column, given in filled.items():
        if rules.on_type_change == "fail" and not fits(given.type, column.type):
            raise StreamSchemaError(
                f"column {column.name} of {rules.table} is {column.type}, and stream {rules.stream} has {given.type}; "
                "say on_type_change='convert' to convert each value, with those that do not fit as bad records, or "
                "convert it in the stream"
            )


def _check_partition(rules: StreamOptions, names: Collection[str]) -> None:
    unknown = next((name for name in rules.partition if name.lower() not in names), None)
    if unknown is not None:
        raise StreamSchemaError(
            f"partition= of stream {rules.stream} names {unknown}, and {rules.table} is "
            f"{'partitioned by ' + ', '.join(names) if names else 'not partitioned'}"
        )


def _check_keys(rules: StreamOptions, names: Collection[str]) -> None:
    unknown = next((key for key in rules.keys if key.lower() not in names), None)
    if unknown is not None:
        raise StreamSchemaError(
            f"keys= of stream {rules.stream} names {unknown}, which must be a column of both the stream and "
            f"{rules.table}"
        )
