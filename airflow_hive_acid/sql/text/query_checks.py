"""What queries may contain: constructs that parse and that we do not run are refused here, at their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from airflow_hive_acid.sql.text.source import SourceText

Span = tuple[int, int]

_REFUSED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Into, "SELECT … INTO is not supported; INSERT INTO … SELECT"),
    (exp.QueryTransform, "SELECT TRANSFORM is not supported; use functions of Spark SQL"),
    (exp.Placeholder, "parameters are not supported; put the value into the statement"),
    (exp.Parameter, "variables are not supported; put the value into the statement"),
    (exp.SessionParameter, "variables are not supported; put the value into the statement"),
    (exp.Version, "AS OF is not supported; open a snapshot and query through it"),
    (exp.Command, "this is not supported inside a query"),
    (exp.DML, "a query cannot change data; write a statement of its own"),
    (exp.DDL, "a query cannot create anything; write a statement of its own"),
)
_REFUSED_KINDS = tuple(kind for kind, _ in _REFUSED)
_VIRTUAL_COLUMNS = ("input__file__name", "block__offset__inside__file")


def check_query(source: SourceText, query: exp.Expr, place: Span) -> None:
    """Refuse what we do not run.

    :param place: where the query stands, for what has no name of its own.
    :raises UnsupportedStatementError: with the nearest construct that we do.
    :raises SqlSyntaxError: for what the parser tolerates and Spark does not.
    """
    check_expression(source, query, place)
    for select in query.find_all(exp.Select):
        if not select.expressions:
            raise source.syntax_error("SELECT lists no column", *span(select, place))
    if isinstance(query, exp.Values) and query.alias:
        raise source.syntax_error("the statement should end after VALUES (…)", *span(query.args["alias"], place))


def check_expression(source: SourceText, tree: exp.Expr, place: Span) -> exp.Expr:
    """Refuse what we do not run in an expression and in its sub-queries; returns the expression."""
    for node in tree.walk():
        if isinstance(node, exp.Literal):
            continue
        if isinstance(node, _REFUSED_KINDS):
            problem = next(problem for kind, problem in _REFUSED if isinstance(node, kind))
            raise source.unsupported(problem, *span(node, place))
        if isinstance(node, exp.With) and node.args.get("recursive"):
            problem = (
                "WITH RECURSIVE is not supported: neither Hive nor every Spark that this runs on has it; join once for "
                "each level, or a job of your own does (docs/how-to/dags/pyspark.md)"
            )
            raise source.unsupported(problem, *span(node, place))
        if isinstance(node, exp.In) and not any(map(node.args.get, ("expressions", "query", "unnest", "field"))):
            raise source.syntax_error("IN needs a list or a query in parentheses", *span(node, place))
        if isinstance(node, exp.Table) and node.args.get("catalog"):
            raise source.unsupported("a table name has two parts, database.table", *span(node, place))
        if isinstance(node, exp.Column):
            _check_column(source, node, place)
    return tree


def span(node: exp.Expr, default: Span) -> Span:
    """First and last character of the script that a tree stands for, as far as the names in it tell."""
    places = [part.meta for part in node.walk() if "start" in part.meta]
    if not places:
        return default if node.parent is None else span(node.parent, default)
    return min(p["start"] for p in places), max(p["end"] for p in places)


def _check_column(source: SourceText, column: exp.Column, place: Span) -> None:
    for part in column.parts:
        if part.name.lower() in _VIRTUAL_COLUMNS:
            problem = (
                f"{part.name.upper()} is not supported; of the virtual columns only ROW__ID and ROW__IS__DELETED are"
            )
            raise source.unsupported(problem, *span(part, place))
