"""Queries and changes of data: heads read word by word, queries and expressions by sqlglot's Hive parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from airflow_hive_acid.sql.model.statements import Delete, Fragment, Insert, Merge, MergeWhen, Select, TableName, Update
from airflow_hive_acid.sql.text.query_checks import check_expression, check_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.parsing.cursor import Cursor

_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "(")
_CHANGES = (TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE, TokenType.MERGE)
_CLAUSES = {"from_": "FROM", "where": "WHERE", "group": "GROUP BY", "order": "ORDER BY", "limit": "LIMIT"}


def read_query(cursor: Cursor) -> Fragment:
    """Read a query up to the end of the statement."""
    if cursor.at_end:
        raise cursor.expected("a query")
    return _query(cursor, cursor.rest())


def parse_select(cursor: Cursor, origin: dict[str, Any]) -> Select:
    """Read a query; the cursor stands at its first word."""
    return Select(_query(cursor, cursor.rest()), **origin)


def parse_with(cursor: Cursor, origin: dict[str, Any]) -> Insert | Select:
    """Read a statement that begins with WITH: a query, or Hive's ``WITH … INSERT … SELECT``."""
    depth = 0
    for index, token in enumerate(cursor.tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type in _CHANGES:
            if token.token_type is not TokenType.INSERT:
                raise cursor.unsupported(
                    f"WITH before {token.text.upper()} is not supported; put the query where it is used", token
                )
            cursor.position = index + 1
            return parse_insert(cursor, origin, cursor.tokens[:index])
    return parse_select(cursor, origin)


def parse_insert(
    cursor: Cursor,
    origin: dict[str, Any],
    ctes: list[Token] | None = None,
    read_query: Callable[[Cursor], list[list[Token]]] | None = None,
) -> Insert:
    """Read what follows INSERT.

    :param ctes: the WITH clause that stood before INSERT, as Hive allows it.
    :param read_query: reads the words of the query; by default all that is left.
    """
    overwrite = cursor.accept("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    if cursor.at("LOCAL") or cursor.at("DIRECTORY"):
        raise cursor.unsupported("INSERT … DIRECTORY is not supported; SELECT the rows, or INSERT them into a table")
    cursor.accept("TABLE")
    table = cursor.table_name()
    partition = _partition_clause(cursor) if cursor.at("PARTITION") else ()
    if cursor.at("IF"):
        raise cursor.unsupported("INSERT … IF NOT EXISTS is not supported; leave it out")
    columns = _column_list(cursor) if cursor.at("(") and cursor.word(1) not in _QUERY_WORDS else ()
    if cursor.word() not in _QUERY_WORDS:
        raise cursor.expected("VALUES or SELECT")
    if ctes and cursor.at("WITH"):
        raise cursor.error("this statement has a WITH clause already, before INSERT")
    stretches = [ctes or [], cursor.rest()] if read_query is None else read_query(cursor)
    return Insert(table, _query(cursor, *stretches), overwrite, partition, columns, **origin)


def parse_update(cursor: Cursor, origin: dict[str, Any]) -> Update:
    """Read what follows UPDATE."""
    table, alias = _target(cursor, "SET")
    cursor.expect("SET")
    assignments = _assignments(cursor, "WHERE")
    return Update(table, alias, assignments, _where(cursor), **origin)


def parse_delete(cursor: Cursor, origin: dict[str, Any]) -> Delete:
    """Read what follows DELETE."""
    cursor.expect("FROM")
    table, alias = _target(cursor, "WHERE")
    return Delete(table, alias, _where(cursor), **origin)


def parse_merge(cursor: Cursor, origin: dict[str, Any]) -> Merge:
    """Read what follows MERGE."""
    cursor.expect("INTO")
    table, alias = _target(cursor, "USING")
    cursor.expect("USING")
    source, source_alias = _merge_source(cursor)
    if source_alias == alias:
        raise cursor.error(
            f"source and target of this MERGE are both called {alias}; give one of them an alias",
            cursor.tokens[cursor.position - 1],
        )
    cursor.expect("ON")
    on = parse_expression(cursor, cursor.until("WHEN"))
    whens: list[MergeWhen] = []
    while not cursor.at_end:
        first = cursor.tokens[cursor.position]
        when = _when(cursor)
        if any(earlier.matched is when.matched and earlier.condition is None for earlier in whens):
            kind = "WHEN MATCHED" if when.matched else "WHEN NOT MATCHED"
            raise cursor.error(f"no row gets here: an earlier {kind} clause has no AND and takes all of them", first)
        whens.append(when)
    if not whens:
        raise cursor.expected("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, alias, source, source_alias, on, tuple(whens), **origin)


def _query(cursor: Cursor, *stretches: list[Token]) -> Fragment:
    """A query that stands in one stretch of the script, or in several."""
    parts = [part for part in stretches if part]
    tokens = [token for part in parts for token in part]
    tree = cursor.source.parse(tokens)
    place = (min(token.start for token in tokens), max(token.end for token in tokens))
    if isinstance(tree, exp.MultitableInserts | exp.Insert):
        problem = "FROM … INSERT is a statement of its own and no query; write INSERT INTO … SELECT here"
        raise cursor.source.unsupported(problem, *place)
    if not isinstance(tree, exp.Query | exp.Values):
        raise cursor.source.syntax_error("expected a query: SELECT, WITH or VALUES", *place)
    check_query(cursor.source, tree, place)
    ranges = [(part[0].start, part[-1].end + 1) for part in parts]
    return Fragment(tree, tuple(ranges))


def parse_expression(cursor: Cursor, tokens: list[Token]) -> Fragment:
    """Read tokens that must be one expression, as the list of a SELECT that is not there."""
    if not tokens:
        raise cursor.expected("an expression")
    first, place = tokens[0], (tokens[0].start, tokens[-1].end)
    select = Token(TokenType.SELECT, "SELECT", first.line, first.col, first.start, first.start)
    tree = cursor.source.parse([select, *tokens])
    if isinstance(tree, exp.Select):
        for part, name in _CLAUSES.items():
            if tree.args.get(part):
                raise cursor.source.unsupported(f"{name} is not supported here; put it into a sub-query", *place)
    wanted = isinstance(tree, exp.Select) and len(tree.expressions) == 1 and set(_given(tree)) == {"expressions"}
    expression = tree.expressions[0] if wanted else None
    if expression is None or isinstance(expression, exp.Alias | exp.Aliases | exp.Star) or expression.is_star:
        raise cursor.source.syntax_error("expected one expression", *place)
    return Fragment(check_expression(cursor.source, expression.pop(), place), ((first.start, tokens[-1].end + 1),))


def _given(tree: exp.Expr) -> list[str]:
    return [name for name, value in tree.args.items() if value]


def _where(cursor: Cursor) -> Fragment | None:
    """Read ``WHERE condition`` up to the end of the statement."""
    if cursor.at_end:
        return None
    for word, remedy in (("FROM", "MERGE"), ("USING", "MERGE"), ("ORDER BY", "WHERE"), ("LIMIT", "WHERE")):
        if cursor.word() == word:
            raise cursor.unsupported(f"{word} is not supported here; use {remedy}")
    cursor.expect("WHERE")
    return parse_expression(cursor, cursor.until())


def _target(cursor: Cursor, following: str) -> tuple[TableName, str]:
    """Read ``[db.]table [[AS] alias]`` up to the word that must follow (or the end, after DELETE)."""
    table = cursor.table_name()
    if cursor.at_end or cursor.at(following) or cursor.word() in ("USING", "FROM", "ORDER BY", "LIMIT"):
        return table, table.name
    cursor.accept("AS")
    alias = cursor.name("an alias")
    if not (cursor.at_end or cursor.at(following)):
        raise cursor.expected(following)
    return table, alias


def _assignments(cursor: Cursor, *stops: str) -> tuple[tuple[str, Fragment], ...]:
    """Read ``column = expression, …``."""
    assignments: dict[str, Fragment] = {}
    while True:
        if cursor.at("*"):
            raise cursor.unsupported("SET * is not supported; write SET column = expression, …")
        name = cursor.column_name()
        while cursor.accept("."):
            name = cursor.column_name()
        if name in assignments:
            raise cursor.error(f"column {name} is assigned twice", cursor.tokens[cursor.position - 1])
        cursor.expect("=")
        assignments[name] = parse_expression(cursor, cursor.until(",", "FROM", *stops))
        if not cursor.accept(","):
            break
    return tuple(assignments.items())


def _partition_clause(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    """Read ``PARTITION (column [= value], …)``."""
    cursor.expect("PARTITION")
    cursor.expect("(")
    columns: list[tuple[str, str | None]] = []
    while True:
        name = cursor.column_name("a partition column")
        if any(name == known for known, _ in columns):
            raise cursor.error(f"partition column {name} is given twice", cursor.tokens[cursor.position - 1])
        if cursor.accept("="):
            if cursor.at("NULL"):
                raise cursor.unsupported(f"PARTITION ({name} = NULL) is not supported; select it as a dynamic column")
            columns.append((name, cursor.value("a value")))
        else:
            columns.append((name, None))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(columns)


def _column_list(cursor: Cursor) -> tuple[str, ...]:
    first = cursor.position + 1
    columns = cursor.names_in_parentheses()
    for index, name in enumerate(columns):
        if name in columns[:index]:
            raise cursor.error(f"column {name} is given twice", cursor.tokens[first + 2 * index])
    return columns


def _merge_source(cursor: Cursor) -> tuple[Fragment, str]:
    """Read ``table [[AS] alias]`` or ``(query) [AS] alias``."""
    if cursor.accept("("):
        tokens = cursor.until(")")
        if not tokens:
            raise cursor.expected("a query")
        source, name = _query(cursor, tokens), ""
        cursor.expect(")")
    else:
        first = cursor.position
        name = cursor.table_name().name
        tokens = cursor.tokens[first : cursor.position]
        parts = [exp.Identifier(this=token.text).update_positions(token) for token in tokens[::2]]
        table = exp.Table(this=parts[-1], db=parts[0] if len(parts) > 1 else None)
        source = Fragment(table, ((tokens[0].start, tokens[-1].end + 1),))
    if cursor.accept("AS") or not (cursor.at_end or cursor.at("ON")):
        name = cursor.name("an alias")
    if not name:
        raise cursor.error("the source of this MERGE needs a name: USING (query) AS name")
    return source, name


def _when(cursor: Cursor) -> MergeWhen:
    cursor.expect("WHEN")
    matched = not cursor.accept("NOT")
    cursor.expect("MATCHED")
    if cursor.accept("BY") and not cursor.accept("TARGET"):
        raise cursor.unsupported("BY SOURCE is not supported; use DELETE or UPDATE with NOT EXISTS")
    condition = parse_expression(cursor, cursor.until("THEN")) if cursor.accept("AND") else None
    cursor.expect("THEN")
    if matched and cursor.accept("DELETE"):
        return MergeWhen(matched, "delete", condition)
    if matched and cursor.accept("UPDATE"):
        cursor.expect("SET")
        return MergeWhen(matched, "update", condition, _assignments(cursor, "WHEN"))
    if not matched and cursor.accept("INSERT"):
        columns, values = _insert_clause(cursor)
        return MergeWhen(matched, "insert", condition, (), columns, values)
    raise cursor.expected("UPDATE SET … or DELETE" if matched else "INSERT [(columns)] VALUES (…)")


def _insert_clause(cursor: Cursor) -> tuple[tuple[str, ...], tuple[Fragment, ...]]:
    if cursor.at("*"):
        raise cursor.unsupported("INSERT * is not supported in MERGE; write INSERT [(columns)] VALUES (…)")
    columns = _column_list(cursor) if cursor.at("(") else ()
    cursor.expect("VALUES")
    cursor.expect("(")
    values = [parse_expression(cursor, cursor.until(",", ")"))]
    while cursor.accept(","):
        values.append(parse_expression(cursor, cursor.until(",", ")")))
    cursor.expect(")")
    if columns and len(columns) != len(values):
        raise cursor.error(
            f"INSERT names {len(columns)} columns and gives {len(values)} values", cursor.tokens[cursor.position - 1]
        )
    return columns, tuple(values)
