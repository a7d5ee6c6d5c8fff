"""Queries and changes of data: heads read word by word, queries and expressions by sqlglot's Hive parser."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from airflow_hive_acid.sql.model.statements import (
    Delete,
    FirstRows,
    Fragment,
    Insert,
    Merge,
    MergeWhen,
    Select,
    TableName,
    Update,
)
from airflow_hive_acid.sql.text.null_order import hive_default
from airflow_hive_acid.sql.text.query_checks import check_expression, check_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.parsing.cursor import Cursor

_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "(")
_CHANGES = (TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE, TokenType.MERGE)
_AFTER_TARGET = ("USING", "FROM", "ORDER BY", "LIMIT")
_CLAUSES = {"from_": "FROM", "where": "WHERE", "group": "GROUP BY", "order": "ORDER BY", "limit": "LIMIT"}


def read_query(cursor: Cursor) -> Fragment:
    """Read a query up to the end of the statement."""
    if cursor.at_end:
        raise cursor.expected("a query")
    return _query(cursor, cursor.rest())


def parse_select(cursor: Cursor, origin: dict[str, Any]) -> Select:
    """Read a query; the cursor stands at its first word."""
    return Select(_query(cursor, cursor.rest()), **origin)


def parse_table(cursor: Cursor, origin: dict[str, Any]) -> Select:
    """Read Spark's ``TABLE [db.]name``, which is all of a table."""
    return Select(_whole_table(cursor, None), **origin)


def parse_with(cursor: Cursor, origin: dict[str, Any]) -> Insert | Merge | Select:
    """Read a statement that begins with WITH: a query, Hive's ``WITH … INSERT … SELECT``, or ``WITH … MERGE``."""
    depth = 0
    for index, token in enumerate(cursor.tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type in _CHANGES:
            cursor.position = index + 1
            if token.token_type is TokenType.MERGE:
                return parse_merge(cursor, origin, cursor.tokens[:index])
            if token.token_type is not TokenType.INSERT:
                raise cursor.unsupported(
                    f"WITH before {token.text.upper()} is not supported; put the query where it is used", token
                )
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
        raise cursor.unsupported("INSERT … DIRECTORY is supported as INSERT OVERWRITE DIRECTORY 'uri' SELECT …")
    cursor.accept("TABLE")
    table = cursor.table_name()
    partition = _partition_clause(cursor) if cursor.at("PARTITION") else ()
    if cursor.at("IF"):
        raise cursor.unsupported("INSERT … IF NOT EXISTS is not supported; leave it out")
    by_name = cursor.accept("BY", "NAME")
    columns = _column_list(cursor) if cursor.at("(") and cursor.word(1) not in _QUERY_WORDS else ()
    if by_name and columns:
        raise cursor.error("BY NAME takes the columns that the query names; leave the list out")
    if cursor.at("TABLE") and read_query is None:
        return Insert(table, _whole_table(cursor, ctes), overwrite, partition, columns, by_name, **origin)
    if cursor.word() not in _QUERY_WORDS:
        raise cursor.expected("VALUES or SELECT")
    if ctes and cursor.at("WITH"):
        raise cursor.error("this statement has a WITH clause already, before INSERT")
    stretches = [ctes or [], cursor.rest()] if read_query is None else read_query(cursor)
    return Insert(table, _query(cursor, *stretches), overwrite, partition, columns, by_name, **origin)


def _whole_table(cursor: Cursor, ctes: list[Token] | None) -> Fragment:
    """Read ``TABLE [db.]name`` up to the end of the statement."""
    cursor.expect("TABLE")
    first = cursor.position
    cursor.table_name()
    cursor.end()
    return _all_of(cursor, ctes, cursor.tokens[first:])


def parse_update(cursor: Cursor, origin: dict[str, Any]) -> Update | Merge:
    """Read what follows UPDATE; ``UPDATE … FROM source`` is a MERGE with one clause."""
    table, alias = _target(cursor, "SET")
    cursor.expect("SET")
    assignments = _assignments(cursor, table, alias, "WHERE", "ORDER BY", "LIMIT")
    if cursor.accept("FROM"):
        return _change_from(cursor, table, alias, MergeWhen(True, "update", None, assignments), origin)
    where = _where(cursor)
    return Update(table, alias, assignments, where, _first_rows(cursor), **origin)


def parse_delete(cursor: Cursor, origin: dict[str, Any]) -> Delete | Merge:
    """Read what follows DELETE; ``DELETE … USING source`` is a MERGE with one clause."""
    cursor.expect("FROM")
    table, alias = _target(cursor, "WHERE")
    if cursor.accept("USING"):
        return _change_from(cursor, table, alias, MergeWhen(True, "delete"), origin)
    where = _where(cursor)
    return Delete(table, alias, where, _first_rows(cursor), **origin)


def parse_merge(cursor: Cursor, origin: dict[str, Any], ctes: list[Token] | None = None) -> Merge:
    """Read what follows MERGE.

    :param ctes: the WITH clause that stood before MERGE; its queries can be the source, or be read there.
    """
    cursor.expect("INTO")
    table, alias = _target(cursor, "USING")
    cursor.expect("USING")
    source, source_alias = _merge_source(cursor, alias, "ON", ctes=ctes)
    cursor.expect("ON")
    on = parse_expression(cursor, cursor.until("WHEN"))
    whens: list[MergeWhen] = []
    while not cursor.at_end:
        first = cursor.tokens[cursor.position]
        when = _when(cursor, table, alias)
        if any((e.matched, e.by_source, e.condition) == (when.matched, when.by_source, None) for e in whens):
            kind = "WHEN MATCHED" if when.matched else f"WHEN NOT MATCHED{' BY SOURCE' * when.by_source}"
            raise cursor.error(f"no row gets here: an earlier {kind} clause has no AND and takes all of them", first)
        whens.append(when)
    if not whens:
        raise cursor.expected("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, alias, source, source_alias, on, tuple(whens), **origin)


def _change_from(cursor: Cursor, table: TableName, alias: str, when: MergeWhen, origin: dict[str, Any]) -> Merge:
    """The rest of ``UPDATE … FROM source [WHERE condition]``, and of ``DELETE … USING source [WHERE condition]``."""
    source, source_alias = _merge_source(cursor, alias, "WHERE")
    if not cursor.at_end and not cursor.at("WHERE"):
        raise cursor.unsupported("one source is supported here; join others to it in a query: (SELECT …) AS name")
    if cursor.at_end:
        raise cursor.expected("WHERE, and how rows of the source belong to rows of the table")
    cursor.expect("WHERE")
    return Merge(table, alias, source, source_alias, parse_expression(cursor, cursor.until()), (when,), **origin)


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
    return Fragment(tree, tuple(ranges), defaults=_defaults(tokens) if isinstance(tree, exp.Values) else ())


def _defaults(tokens: list[Token]) -> tuple[tuple[int, int, int], ...]:
    """Where DEFAULT is a value of its own in ``VALUES (…), (…)``."""
    found: list[tuple[int, int, int]] = []
    depth = column = 0
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
            column = 0 if depth == 1 else column
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif token.token_type is TokenType.COMMA and depth == 1:
            column += 1
        elif depth == 1 and token.text.upper() == "DEFAULT" and token.token_type is not TokenType.STRING:
            alone = before.token_type in (TokenType.COMMA, TokenType.L_PAREN)
            if alone and after.token_type in (TokenType.COMMA, TokenType.R_PAREN):
                found.append((column, token.start, token.end))
    return tuple(found)


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
    if cursor.word() in ("ORDER BY", "LIMIT"):
        return None
    cursor.expect("WHERE")
    return parse_expression(cursor, cursor.until("ORDER BY", "LIMIT"))


def _first_rows(cursor: Cursor) -> FirstRows | None:
    """Read ``ORDER BY … LIMIT n``: either without the other says nothing, or not which rows."""
    if cursor.at_end:
        return None
    if cursor.at("LIMIT"):
        raise cursor.unsupported(
            "LIMIT is supported behind an ORDER BY that says which rows are meant; without it chance would decide"
        )
    first = cursor.tokens[cursor.position]
    cursor.expect("ORDER", "BY")
    order: list[tuple[Fragment, str]] = []
    while True:
        key = parse_expression(cursor, cursor.until(",", "LIMIT", "ASC", "DESC", "NULLS"))
        direction = "DESC" if cursor.accept("DESC") else "ASC"
        cursor.accept("ASC")
        if cursor.accept("NULLS"):
            last = cursor.accept("LAST")
            if not last:
                cursor.expect("FIRST")
            direction += " NULLS LAST" if last else " NULLS FIRST"
        else:
            direction += f" {hive_default(direction == 'DESC')}"
        order.append((key, direction))
        if not cursor.accept(","):
            break
    if cursor.at_end:
        raise cursor.unsupported("ORDER BY changes nothing here without a LIMIT; leave it out", first)
    cursor.expect("LIMIT")
    count = cursor.number("a number of rows")
    cursor.end()
    return FirstRows(tuple(order), count)


def _target(cursor: Cursor, following: str) -> tuple[TableName, str]:
    """Read ``[db.]table [[AS] alias]`` up to the word that must follow (or the end, after DELETE)."""
    table = cursor.table_name()
    if cursor.at_end or cursor.at(following) or cursor.word() in _AFTER_TARGET:
        return table, table.name
    cursor.accept("AS")
    alias = cursor.name("an alias")
    if not (cursor.at_end or cursor.at(following) or cursor.word() in _AFTER_TARGET):
        raise cursor.expected(following)
    return table, alias


def _assignments(cursor: Cursor, table: TableName, alias: str, *stops: str) -> tuple[tuple[str, Fragment], ...]:
    """Read ``[alias.]column[.field …] = expression, …``."""
    assignments: list[tuple[str, Fragment]] = []
    taken: list[tuple[str, ...]] = []
    while True:
        if cursor.at("*"):
            raise cursor.unsupported("SET * is supported in MERGE only; write SET column = expression, …")
        path = [cursor.column_name()]
        while cursor.accept("."):
            path.append(cursor.column_name())
        if len(path) > 2 and path[:2] == [table.database, table.name]:
            del path[:2]
        elif len(path) > 1 and path[0] == alias:
            del path[0]
        if any(path[: len(other)] == list(other) or list(other[: len(path)]) == path for other in taken):
            raise cursor.error(f"column {'.'.join(path)} is assigned twice", cursor.tokens[cursor.position - 1])
        taken.append(tuple(path))
        cursor.expect("=")
        value = parse_expression(cursor, cursor.until(",", "FROM", *stops))
        assignments.append((path[0], replace(value, field=tuple(path[1:]))))
        if not cursor.accept(","):
            break
    return tuple(assignments)


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


def _merge_source(
    cursor: Cursor, target_alias: str, following: str, *, ctes: list[Token] | None = None
) -> tuple[Fragment, str]:
    """Read ``table [[AS] alias]``, ``(query) [AS] alias`` or one of these with names of columns, ``alias(a, b)``.

    :param following: the word that must come after it.
    :param ctes: the queries of a WITH clause that it may name.
    """
    first = cursor.position
    if cursor.accept("("):
        tokens = cursor.until(")")
        if not tokens:
            raise cursor.expected("a query")
        cursor.expect(")")
        name = ""
    else:
        name = cursor.table_name().name
        tokens = cursor.tokens[first : cursor.position]
    relation = cursor.position
    if cursor.accept("AS") or not (cursor.at_end or cursor.word() in (following, "(", ",", "JOIN")):
        name = cursor.name("an alias")
    if not name:
        raise cursor.error(f"the source of this statement needs a name: (query) AS name, before {following}")
    if name == target_alias:
        raise cursor.error(
            f"source and target of this statement are both called {name}; give one of them an alias",
            cursor.tokens[cursor.position - 1],
        )
    if cursor.at("("):
        _column_list(cursor)
        return _all_of(cursor, ctes, cursor.tokens[first : cursor.position]), name
    if relation - first > len(tokens):  # it stands in parentheses
        return _query(cursor, ctes or [], tokens), name
    parts = [exp.Identifier(this=token.text).update_positions(token) for token in tokens[::2]]
    if ctes:
        if len(parts) > 1:
            raise cursor.error("nothing uses the WITH clause before MERGE; leave it out", tokens[0])
        return _all_of(cursor, ctes, tokens), name
    table = exp.Table(this=parts[-1], db=parts[0] if len(parts) > 1 else None)
    return Fragment(table, ((tokens[0].start, tokens[-1].end + 1),)), name


def _all_of(cursor: Cursor, ctes: list[Token] | None, tokens: list[Token]) -> Fragment:
    """All columns of what could stand in a FROM clause, as a query."""
    at = tokens[0]
    words = ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM"))
    lead = [Token(kind, text, at.line, at.col, at.start, at.start) for kind, text in words]
    tree = cursor.source.parse([*(ctes or []), *lead, *tokens])
    check_query(cursor.source, tree, (at.start, tokens[-1].end))
    ranges = [(part[0].start, part[-1].end + 1) for part in (ctes or [], tokens) if part]
    return Fragment(tree, tuple(ranges), lead="SELECT * FROM")


def _when(cursor: Cursor, table: TableName, alias: str) -> MergeWhen:
    cursor.expect("WHEN")
    matched = not cursor.accept("NOT")
    cursor.expect("MATCHED")
    by_source = False
    if not matched and cursor.accept("BY") and not cursor.accept("TARGET"):
        cursor.expect("SOURCE")
        by_source = True
    condition = parse_expression(cursor, cursor.until("THEN")) if cursor.accept("AND") else None
    cursor.expect("THEN")
    of_target = matched or by_source
    if of_target and cursor.accept("DELETE"):
        return MergeWhen(matched, "delete", condition, by_source=by_source)
    if of_target and cursor.accept("UPDATE"):
        cursor.expect("SET")
        star = _star(cursor) if matched else None
        assignments = () if star is not None else _assignments(cursor, table, alias, "WHEN")
        return MergeWhen(matched, "update", condition, assignments, by_source=by_source, star=star)
    if not of_target and cursor.accept("INSERT"):
        star = _star(cursor)
        columns, values = ((), ()) if star is not None else _insert_clause(cursor)
        return MergeWhen(matched, "insert", condition, (), columns, values, star=star)
    raise cursor.expected("UPDATE SET … or DELETE" if of_target else "INSERT [(columns)] VALUES (…) or INSERT *")


def _star(cursor: Cursor) -> tuple[int, int] | None:
    """The place of ``*``, if it follows."""
    if not cursor.accept("*"):
        return None
    token = cursor.tokens[cursor.position - 1]
    return token.start, token.end


def _insert_clause(cursor: Cursor) -> tuple[tuple[str, ...], tuple[Fragment, ...]]:
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
