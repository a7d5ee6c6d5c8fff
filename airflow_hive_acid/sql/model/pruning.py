"""Partition pruning: which partitions a WHERE clause can touch, judged by partition values alone.

Only conditions over partition columns and literals count, compared as Spark would compare them. What cannot be judged
so may be true, false or NULL; a partition is dropped only if no possibility is left in which a row of it qualifies.
"""

from __future__ import annotations

import itertools
import operator
import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from airflow_hive_acid.format.partitions import DEFAULT_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Outcome = bool | None
Outcomes = frozenset[Outcome]
_ANYTHING: Outcomes = frozenset({True, False, None})
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL_NUMBER = re.compile(r"[+-]?[0-9]{1,38}(\.[0-9]{0,38})?")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DIGITS_OF_DOUBLE = 15
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_OF_COMPARISONS = frozenset({"this", "expression"})
_UNDERSTOOD: dict[type[exp.Expr], frozenset[str]] = {
    exp.In: frozenset({"this", "expressions"}),
    exp.Between: frozenset({"this", "low", "high"}),
}
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A test of partition values.

    :param columns: names and types of the partition columns, in order.
    :param alternatives: conditions that must all hold, for each place where the statement reads the table; a partition
        is kept if it may matter for one of them. Their columns are partition columns without qualifier. No
        alternative: everything is kept.
    """

    columns: tuple[tuple[str, str], ...] = ()
    alternatives: tuple[tuple[exp.Expr, ...], ...] = ()

    def keeps(self, values: Sequence[str]) -> bool:
        """Whether a partition may hold rows that matter.

        :param values: as the catalog holds them, in the order of the partition columns.
        """
        if not self.alternatives or len(values) != len(self.columns):
            return True
        row = {name: _Value(kind, text) for (name, kind), text in zip(self.columns, values, strict=True)}
        return any(all(True in _evaluate(term, row) for term in terms) for terms in self.alternatives)

    def __str__(self) -> str:
        """The conditions as SQL, for logs."""
        terms = (" AND ".join(term.sql("spark") for term in alternative) for alternative in self.alternatives)
        return " OR ".join(terms) or "true"

    def either(self, other: PartitionFilter) -> PartitionFilter:
        """A filter that keeps what one of the two keeps."""
        if not self.alternatives or not other.alternatives:
            return PartitionFilter(self.columns)
        merged = dict.fromkeys((*self.alternatives, *other.alternatives))
        return PartitionFilter(self.columns, tuple(merged))


KEEP_ALL = PartitionFilter()


def partition_filter(
    columns: Sequence[tuple[str, str]],
    condition: exp.Expr | None,
    belongs: Callable[[exp.Column], bool],
    around: Sequence[exp.Expr] = (),
) -> PartitionFilter:
    """The part of a condition that partition values alone can decide.

    :param columns: names and types of the partition columns.
    :param belongs: whether a column of the condition is surely one of this table.
    :param around: further conditions, which hold as well.
    """
    kinds = tuple(columns)
    names = {name for name, _ in kinds}
    terms = []
    own = conjuncts(condition) if condition is not None else []
    for term in (*own, *around) if names else ():
        mentioned = list(term.find_all(exp.Column))
        simple = not term.find(exp.Query) and mentioned
        if simple and all(column.name.lower() in names and belongs(column) for column in mentioned):
            terms.append(_unqualified(term))
    return PartitionFilter(kinds, (tuple(terms),) if terms else ())


def equal_columns(
    condition: exp.Expr, one: Callable[[exp.Column], bool], other: Callable[[exp.Column], bool]
) -> tuple[tuple[str, str], ...]:
    """Pairs of columns that a condition demands to be equal, as ``a = b`` and with AND around it.

    :param one: whether a column surely belongs to the one side; ``other``, to the other.
    :return: lower-case names, the one side's first.
    """
    pairs = []
    for term in conjuncts(condition):
        left, right = (term.left, term.right) if isinstance(term, exp.EQ) else (None, None)
        for first, second in ((left, right), (right, left)):
            if isinstance(first, exp.Column) and isinstance(second, exp.Column) and one(first) and other(second):
                pairs.append((first.name.lower(), second.name.lower()))
    return tuple(dict.fromkeys(pairs))


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """What AND connects, in order; without recursion, because a thousand conditions are a tree as deep."""
    found, pending = [], [condition]
    while pending:
        term = pending.pop()
        if isinstance(term, exp.And):
            pending += [term.right, term.left]
        elif isinstance(term, exp.Paren):
            pending.append(term.this)
        else:
            found.append(term)
    return found


def _unqualified(term: exp.Expr) -> exp.Expr:
    copy = term.copy()
    for column in list(copy.find_all(exp.Column)):
        bare = exp.column(exp.to_identifier(column.name.lower()))
        if column is copy:
            return bare
        column.replace(bare)
    return copy


@dataclass(frozen=True, slots=True)
class _Value:
    """A partition value with the type of its column."""

    kind: str
    text: str

    @property
    def is_null(self) -> bool:
        return self.text == DEFAULT_PARTITION


def _evaluate(term: exp.Expr, row: Mapping[str, _Value]) -> Outcomes:
    """The possible outcomes of a condition for a partition."""
    if isinstance(term, exp.Paren):
        return _evaluate(term.this, row)
    if isinstance(term, exp.Like) and term.args.get("negate"):
        plain = term.copy()
        plain.set("negate", None)
        return _evaluate(exp.Not(this=plain), row)
    if isinstance(term, exp.Not):
        return frozenset(None if outcome is None else not outcome for outcome in _evaluate(term.this, row))
    if isinstance(term, exp.And | exp.Or):
        return _evaluate_chain(term, row)
    if isinstance(term, exp.Boolean):
        return frozenset({bool(term.this)})
    return _evaluate_test(term, row)


def _evaluate_chain(term: exp.And | exp.Or, row: Mapping[str, _Value]) -> Outcomes:
    """Of conditions with AND, or with OR, between them: a tree as deep as there are, to the left."""
    kind, terms = type(term), []
    first: exp.Expr = term
    while isinstance(first, kind):
        terms.append(first.right)
        first = first.left
    combine = _and if kind is exp.And else _or
    outcomes = _evaluate(first, row)
    for other in reversed(terms):
        pairs = itertools.product(outcomes, _evaluate(other, row))
        outcomes = frozenset(combine(one, two) for one, two in pairs)
    return outcomes


def _evaluate_test(term: exp.Expr, row: Mapping[str, _Value]) -> Outcomes:
    """The possible outcomes of a test of one column."""
    kind = type(term)
    if {name for name, given in term.args.items() if given} - _UNDERSTOOD.get(kind, _OF_COMPARISONS):
        return _ANYTHING  # NOT LIKE, BETWEEN SYMMETRIC and their like mean something else
    if kind in _COMPARISONS:
        value, literal = _column(term.this, row), term.args["expression"]
        if value is None:
            value, literal, kind = _column(literal, row), term.this, _MIRRORED.get(kind, kind)
        return _ANYTHING if value is None else _compare(value, literal, _COMPARISONS[kind])
    value = _column(term.this, row) if isinstance(term.args.get("this"), exp.Expr) else None
    if value is None:
        return _ANYTHING
    if isinstance(term, exp.Is) and isinstance(term.expression, exp.Null):
        return frozenset({value.is_null})
    if isinstance(term, exp.In) and term.expressions and not term.args.get("query"):
        return _in([_compare(value, literal, operator.eq) for literal in term.expressions])
    if isinstance(term, exp.Between):
        low = _compare(value, term.args["low"], operator.ge)
        high = _compare(value, term.args["high"], operator.le)
        return frozenset(_and(one, other) for one, other in itertools.product(low, high))
    if isinstance(term, exp.Like):
        return _like(value, term.expression)
    return _ANYTHING


def _compare(value: _Value, literal: exp.Expr, test: Callable[[Any, Any], bool]) -> Outcomes:
    if value.is_null or isinstance(literal, exp.Null):
        return frozenset({None})
    pair = _same_type(value, literal, test)
    return _ANYTHING if pair is None else frozenset({test(*pair)})


def _same_type(value: _Value, literal: exp.Expr, test: Callable[[Any, Any], bool]) -> tuple[Any, Any] | None:
    """Both sides as Spark would compare them; None where that is not certain."""
    kind, negative = value.kind, isinstance(literal, exp.Neg)
    if isinstance(literal, exp.Neg):
        literal = literal.this
    is_date = isinstance(literal, exp.Cast) and literal.to.is_type("date") and not literal.args.get("format")
    if is_date:
        literal = literal.this
    if isinstance(literal, exp.Boolean) and kind == "boolean" and value.text.lower() in ("true", "false"):
        return value.text.lower() == "true", bool(literal.this)
    if not isinstance(literal, exp.Literal):
        return None
    text = ("-" if negative else "") + literal.name
    if kind in _INTEGERS or kind.startswith("decimal"):
        readable = _WHOLE_NUMBER if literal.is_string else _DECIMAL_NUMBER
        both = bool(not is_date and readable.fullmatch(text) and _DECIMAL_NUMBER.fullmatch(value.text))
        if literal.is_string and (negative or kind not in _INTEGERS):
            # As doubles to Spark, of which two decimals of more digits may be the same.
            both = both and max(len(value.text), len(text)) <= _DIGITS_OF_DOUBLE
        return (Decimal(value.text), Decimal(text)) if both else None
    if not literal.is_string or negative:
        return None
    if kind == "date":
        sides = (_date(value.text), _date(text))
        return None if None in sides else sides
    if (kind == "string" or kind.startswith("varchar")) and not is_date:
        return value.text, text
    if kind.startswith("char") and not is_date and test in (operator.eq, operator.ne):
        return value.text.rstrip(" "), text.rstrip(" ")
    return None


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _ISO_DATE.fullmatch(text) else None
    except ValueError:
        return None


def _like(value: _Value, pattern: exp.Expr) -> Outcomes:
    if value.is_null:
        return frozenset({None})
    plain = isinstance(pattern, exp.Literal) and pattern.is_string and "\\" not in pattern.name
    if not plain or not (value.kind == "string" or value.kind.startswith("varchar")):
        return _ANYTHING
    parts = {"%": ".*", "_": "."}
    regex = "".join(parts.get(character) or re.escape(character) for character in pattern.name)
    return frozenset({re.fullmatch(regex, value.text, re.DOTALL) is not None})


def _column(node: exp.Expr, row: Mapping[str, _Value]) -> _Value | None:
    return row.get(node.name) if isinstance(node, exp.Column) else None


def _in(tests: Sequence[Outcomes]) -> Outcomes:
    """True for one is true for all; otherwise anything that one of them may be, without going through combinations."""
    possible = frozenset(outcome for outcomes in tests for outcome in outcomes)
    if any(outcomes == {True} for outcomes in tests):
        return frozenset({True})
    if all(len(outcomes) == 1 for outcomes in tests):
        return frozenset({None}) if None in possible else possible
    return possible | {False, None}


def _and(one: Outcome, other: Outcome) -> Outcome:
    return False if False in (one, other) else None if None in (one, other) else True


def _or(one: Outcome, other: Outcome) -> Outcome:
    return True if True in (one, other) else None if None in (one, other) else False
