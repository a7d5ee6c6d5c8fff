"""The text of a view: what the catalog keeps of its query, and what that becomes inside another query.

Kept is, as in Hive, a text that says the same in any database: tables with their database, and in the place of ``*``
the columns there are now. Read is any such text, a Hive's too, as a query in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.metastore.catalog import VIRTUAL_VIEW
from airflow_hive_acid.python_versions import add_note
from airflow_hive_acid.sql.model.statements import Select
from airflow_hive_acid.sql.text.projections import has_name
from airflow_hive_acid.sql.text.quoting import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hive_acid.sql.model.plans import TableFacts
    from airflow_hive_acid.sql.model.statements import Statement
    from airflow_hive_acid.sql.planning.scopes import Scope, Scopes

Parse = Callable[[str, str], "Sequence[Statement]"]
MAX_NESTED_VIEWS = 30
_PLAIN_NAME = re.compile(r"[a-z0-9_]*[a-z_][a-z0-9_]*")
_BY_PLACE = re.compile(r"_c[0-9]+")
Edit = tuple[int, int, str]
"""First character, the one after the last, and what stands there instead."""


def no_parser(_text: str, _database: str) -> Sequence[Statement]:
    """For plans that meet no view."""
    raise AssertionError("a view cannot be read without a parser")


def is_view(facts: TableFacts) -> bool:
    """Whether a table of the catalog is a query."""
    return facts.type == VIRTUAL_VIEW


def require_table(facts: TableFacts, what: str) -> None:
    """Refuse to change the rows of a view.

    :param what: the statement.
    :raises UnsupportedStatementError: naming the view.
    """
    if is_view(facts):
        raise UnsupportedStatementError(f"{what} cannot change {facts.qualified_name}: it is a view; name its table")


def require_shallow(name: str, path: Sequence[str]) -> None:
    """Refuse views inside of views without end; each is read while the ones around it are.

    :raises InvalidArgumentsError: for one too many.
    """
    if len(path) >= MAX_NESTED_VIEWS:
        raise InvalidArgumentsError(
            f"view {name} is read by views that read each other, {' → '.join(path[:3])} → …, more than "
            f"{MAX_NESTED_VIEWS} deep; make a table of one of them ({name}, for example: CREATE TABLE … AS)"
        )


def query_of_view(facts: TableFacts, path: tuple[str, ...], parse: Parse) -> Select:
    """The query that a view stands for.

    :param parse: reads a text, with the database of names without one.
    :param path: the views around it, the outermost first.
    :raises InvalidArgumentsError: when it reads itself, or its text is no query.
    """
    name = facts.qualified_name
    if name in path:
        cycle = " → ".join([*path[path.index(name) :], name])
        raise InvalidArgumentsError(f"view {name} reads itself: {cycle}")
    require_shallow(name, path)
    try:
        statements = parse(facts.view_text or "", name.partition(".")[0])
    except HiveAcidError as error:
        add_note(error, f"in the text of view {name}")
        raise
    if len(statements) != 1 or not isinstance(statements[0], Select):
        raise InvalidArgumentsError(f"the text of view {name} is no query: {(facts.view_text or '')[:200]!r}")
    return statements[0]


def as_relation(query: str, alias: str, columns: Sequence[str]) -> str:
    """A query whose columns have these names, whatever it calls them itself."""
    if not columns:
        return f"({query})"
    names = ", ".join(identifier(column) for column in columns)
    return f"(SELECT * FROM ({query}) AS {identifier(alias)}({names}))"  # noqa: S608 - the text of a query


def star_edits(scopes: Scopes) -> Iterator[Edit]:
    """``*`` and ``t.*`` → the columns that they stand for now, where these are known."""
    for scope in scopes.scopes.values():
        for projection in scope.select.expressions if scope.select is not None else ():
            star = projection.this if isinstance(projection, exp.Column) else projection
            if not isinstance(star, exp.Star) or any(star.args.values()):
                continue
            listed = _columns_of(scope, projection)
            if listed:
                first = projection.parts[0].meta["start"] if isinstance(projection, exp.Column) else star.meta["start"]
                yield first, star.meta["end"] + 1, ", ".join(listed)


def _columns_of(scope: Scope, projection: exp.Expr) -> list[str]:
    """Empty when they are not known."""
    relations = scope.relations
    if isinstance(projection, exp.Column):
        relations = [r for r in relations if r.alias == projection.parts[-2].name.lower()]
    else:
        joins = scope.select.args.get("joins") if scope.select is not None else None
        if any(j.args.get("using") or j.method == "NATURAL" or j.kind in ("SEMI", "ANTI") for j in joins or []):
            return []
    if not relations or any(relation.is_open for relation in relations):
        return []
    return [f"{identifier(r.alias)}.{identifier(column)}" for r in relations for column in r.columns or ()]


def hive_names(tree: exp.Expr, names: Sequence[str]) -> list[str]:
    """What Hive calls the columns of a query.

    :param names: what Spark calls them.
    """
    first: exp.Expr = tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    listed = first.expressions if isinstance(first, exp.Select) else []
    exact = listed if len(listed) == len(names) else []
    found = []
    for number, name in enumerate(name.lower() for name in names):
        # Behind a star a place in the select list is no place among the columns.
        named = has_name(exact[number]) if exact else _PLAIN_NAME.fullmatch(name) and not _BY_PLACE.fullmatch(name)
        found.append(name if named else f"_c{number}")
    return found


def named_text(text: str, view: str, inner: Sequence[str], outer: Sequence[str]) -> str:
    """The text with its columns under other names, in Hive's words."""
    listed = ", ".join(f"{identifier(i)} AS {identifier(o)}" for i, o in zip(inner, outer, strict=True))
    return f"SELECT {listed} FROM ({text}) {identifier(view)}"  # noqa: S608 - the text of a query
