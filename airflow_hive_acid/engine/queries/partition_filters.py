"""A condition of SQL on partition columns, as one that the metastore database evaluates.

Nothing is read for it but rows of the catalog. What it cannot say exactly is refused, and never left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.catalog import And, Between, Compare, In, IsNull, Or

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.metastore.catalog import Condition

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

_SOME = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"), "0"),
    "boolean": "true", "date": "1970-01-01", "timestamp": "1970-01-01 00:00:00",
}  # fmt: skip
"""A value of a type; of texts the empty one."""


def condition_of(tree: exp.Expr, columns: Mapping[str, str], table: str) -> Condition:
    """The condition.

    :param columns: the types of the partition columns, by name.
    :param table: for messages.
    :raises InvalidArgumentsError: for another column, and for what compares no column with a value.
    """
    return _Translation(columns, table).of(tree)


class _Translation:
    def __init__(self, columns: Mapping[str, str], table: str) -> None:
        self._columns, self._table = columns, table

    def of(self, tree: exp.Expr) -> Condition:
        match tree:
            case exp.Paren(this=inside):
                return self.of(inside)
            case exp.And():
                return And([self.of(part) for part in tree.flatten()])
            case exp.Or():
                return self._either([self.of(part) for part in tree.flatten()])
            case exp.Not(this=inside):
                return self._not(inside)
            case exp.In() if not tree.args.get("query") and tree.expressions:
                return In(self._column(tree.this), [self._value(value) for value in tree.expressions])
            case exp.Between():
                low, high = self._value(tree.args["low"]), self._value(tree.args["high"])
                return Between(self._column(tree.this), low, high)
            case exp.Is(this=column, expression=exp.Null()):
                return IsNull(self._column(column))
        operator = _OPERATORS.get(type(tree))
        if operator is None:
            self._refuse(tree)
        if isinstance(tree.this, exp.Column):
            return Compare(self._column(tree.this), operator, self._value(tree.expression))
        if isinstance(tree.expression, exp.Column):
            return Compare(self._column(tree.expression), _TURNED[operator], self._value(tree.this))
        self._refuse(tree)

    def _not(self, tree: exp.Expr) -> Condition:
        """De Morgan: the catalog's conditions have no NOT, and NULL fulfils neither a comparison nor its opposite."""
        match tree:
            case exp.Paren(this=inside):
                return self._not(inside)
            case exp.Not(this=inside):
                return self.of(inside)
            case exp.And():
                return Or([self._not(part) for part in tree.flatten()])
            case exp.Or():
                return And([self._not(part) for part in tree.flatten()])
            case exp.In() if not tree.args.get("query") and tree.expressions:
                column = self._column(tree.this)
                return And([Compare(column, "<>", self._value(value)) for value in tree.expressions])
            case exp.Between():
                column = self._column(tree.this)
                return Compare(column, "<", self._value(tree.args["low"])) | Compare(
                    column, ">", self._value(tree.args["high"])
                )
            case exp.Is(this=column, expression=exp.Null()):
                # Whatever is not NULL is equal to a value or is not.
                name = self._column(column)
                value = _SOME.get(self._columns[name].partition("(")[0], "")
                return Compare(name, "=", value) | Compare(name, "<>", value)
        operator = _OPERATORS.get(type(tree))
        if operator is None:
            self._refuse(tree)
        found = self.of(tree)
        if not isinstance(found, Compare):
            raise AssertionError(f"{tree!r} is no comparison")
        return Compare(found.column, _NEGATED[found.operator], found.value)

    def _either(self, alternatives: Sequence[Condition]) -> Condition:
        """One of several; values of one column are an IN, of which the database takes more."""
        by_column: dict[str, list[str]] = {}
        others: list[Condition] = []
        for each in alternatives:
            if isinstance(each, Compare) and each.operator == "=":
                by_column.setdefault(each.column, []).append(str(each.value))
            else:
                others.append(each)
        found = [*(In(column, values) for column, values in by_column.items()), *others]
        return found[0] if len(found) == 1 else Or(found)

    def _column(self, tree: exp.Expr) -> str:
        if not isinstance(tree, exp.Column):
            self._refuse(tree)
        name = tree.name.lower()
        if name not in self._columns:
            raise InvalidArgumentsError(
                f"{tree.name} is no partition column of {self._table}; there are {', '.join(self._columns)}"
            )
        return name

    def _value(self, tree: exp.Expr) -> str:
        match tree:
            case exp.Paren(this=inside):
                return self._value(inside)
            case exp.Neg(this=exp.Literal(is_string=False) as number):
                return f"-{number.name}"
            case exp.Literal():
                return str(tree.name)
            case exp.Boolean():
                return str(tree.this).lower()
            case exp.Cast(this=exp.Literal() as text) if tree.to.this.name in ("DATE", "TIMESTAMP"):
                return str(text.name)
            case exp.TsOrDsToDate(this=exp.Literal() as text):
                return str(text.name)
            case exp.TsOrDsToTimestamp(this=exp.Literal() as text) | exp.Date(this=exp.Literal() as text):
                return str(text.name)
        self._refuse(tree)

    def _refuse(self, tree: exp.Expr) -> NoReturn:
        raise InvalidArgumentsError(
            f"{tree.sql('hive')!r}: partitions of {self._table} are chosen by comparisons of a partition column with a "
            "value, IN, BETWEEN and IS NULL, joined by AND, OR and NOT; or filter the rows of a SELECT DISTINCT"
        )
