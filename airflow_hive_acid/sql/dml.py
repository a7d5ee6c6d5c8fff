"""Queries and changes of data: heads read word by word, queries and expressions by sqlglot's Hive parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.sql.query_checks import check_expression, check_query, refuse
from airflow_hive_acid.sql.statements import Delete, Insert, Merge, MergeWhen, Select, TableName, Update

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

    from airflow_hive_acid.sql.cursor import Cursor
    from airflow_hive_acid.sql.source import SourceText

_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "(", "MAP", "REDUCE", "TABLE")


def parse_select(cursor: Cursor, origin: dict[str, Any]) -> Select:
    """Read a query; the cursor stands at its first word."""
    return Select(_query(cursor.source, cursor.rest()), **origin)


def parse_insert(cursor: Cursor, origin: dict[str, Any], ctes: list[Token] | None = None) -> Insert:
    """Read what follows INSERT.

    :param ctes: the WITH clause that stood before INSERT, as Hive allows it.
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
    columns: tuple[str, ...] = ()
    if cursor.at("(") and cursor.word(1) not in _QUERY_WORDS:
        columns = _column_list(cursor)
    if cursor.word() not in _QUERY_WORDS:
        raise cursor.expected("VALUES or SELECT")
    query = _query(cursor.source, [*(ctes or []), *cursor.rest()])
    return Insert(table, query, overwrite, partition, columns, **origin)


def parse_with(cursor: Cursor, origin: dict[str, Any]) -> Insert | Select:
    """Read a statement that begins with WITH: a query, or Hive's ``WITH … INSERT … SELECT``."""
    depth = 0
    for index, token in enumerate(cursor.tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type in (TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE, TokenType.MERGE):
            if token.token_type is not TokenType.INSERT:
                raise cursor.unsupported(
                    f"WITH before {token.text.upper()} is not supported; put the query where it is used", token
                )
            cursor.position = index + 1
            return parse_insert(cursor, origin, cursor.tokens[:index])
    return parse_select(cursor, origin)


def parse_update(cursor: Cursor, origin: dict[str, Any]) -> Update:
    """Read an UPDATE; the cursor stands behind UPDATE."""
    table, alias = _target(cursor, "SET")
    tree = _tree(cursor, exp.Update)
    parts = ("with_", "from_", "order", "limit", "returning")
    refuse(cursor.source, tree, parts, "write UPDATE … SET … WHERE, or MERGE", cursor.span)
    where = tree.args.get("where")
    return Update(
        table,
        alias,
        _assignments(cursor, tree, tree.expressions, "UPDATE"),
        _checked(cursor, where.this) if where is not None else None,
        **origin,
    )


def parse_delete(cursor: Cursor, origin: dict[str, Any]) -> Delete:
    """Read a DELETE; the cursor stands behind DELETE."""
    cursor.expect("FROM")
    table, alias = _target(cursor, "WHERE")
    tree = _tree(cursor, exp.Delete)
    parts = ("with_", "tables", "using", "order", "limit", "returning")
    refuse(cursor.source, tree, parts, "write DELETE FROM … WHERE, or MERGE", cursor.span)
    where = tree.args.get("where")
    return Delete(table, alias, _checked(cursor, where.this) if where is not None else None, **origin)


def parse_merge(cursor: Cursor, origin: dict[str, Any]) -> Merge:
    """Read a MERGE; the cursor stands behind MERGE."""
    cursor.expect("INTO")
    table, alias = _target(cursor, "USING")
    cursor.expect("USING")
    tree = _tree(cursor, exp.Merge)
    refuse(cursor.source, tree, ("with_", "returning"), "put the query into USING (…)", cursor.span)
    source, on = tree.args.get("using"), tree.args.get("on")
    if not isinstance(on, exp.Expr) or tree.args.get("using_cond"):
        raise cursor.error("MERGE needs ON and a condition after its source", cursor.tokens[-1])
    if not isinstance(source, exp.Table | exp.Subquery) or source.args.get("joins"):
        raise cursor.unsupported("the source of a MERGE must be a table or a query in parentheses")
    source_alias = source.alias_or_name.lower()
    if isinstance(source, exp.Subquery) and not source.alias:
        raise cursor.error("the source of this MERGE needs a name: USING (query) AS name")
    if source_alias == alias:
        raise cursor.error(f"source and target of this MERGE are both called {alias}; give one of them an alias")
    whens = [_when(cursor, when) for when in tree.args["whens"].expressions]
    for matched in (True, False):
        conditions = [when.condition for when in whens if when.matched is matched]
        if any(condition is None for condition in conditions[:-1]):
            words = "WHEN MATCHED" if matched else "WHEN NOT MATCHED"
            raise cursor.error(f"a {words} clause without AND must be the last of its kind: no other can follow it")
    if isinstance(source, exp.Subquery):
        check_query(cursor.source, source.this, cursor.span)
    return Merge(table, alias, source, source_alias, _checked(cursor, on), tuple(whens), **origin)


def _query(source: SourceText, tokens: list[Token]) -> exp.Expr:
    tree = source.parse(tokens)
    start, end = tokens[0].start, tokens[-1].end
    if isinstance(tree, exp.MultitableInserts):
        raise source.unsupported(
            "FROM … INSERT is not supported; write INSERT INTO … SELECT for each table, between BEGIN and COMMIT",
            start,
            end,
        )
    if not isinstance(tree, exp.Query | exp.Values):
        raise source.syntax_error("expected a query: SELECT, WITH or VALUES", start, end)
    check_query(source, tree, (start, end))
    return tree


def _checked(cursor: Cursor, expression: exp.Expr) -> exp.Expr:
    return check_expression(cursor.source, expression, cursor.span)


def _tree(cursor: Cursor, kind: type[exp.Expr]) -> Any:
    tree = cursor.source.parse(cursor.tokens)
    if not isinstance(tree, kind):
        raise cursor.error(f"this is no complete {kind.__name__.upper()} statement", cursor.tokens[0])
    return tree


def _target(cursor: Cursor, following: str) -> tuple[TableName, str]:
    """Read ``[db.]table [[AS] alias]`` up to the word that must follow (or the end, after DELETE)."""
    table = cursor.table_name()
    if cursor.at_end or cursor.at(following):
        return table, table.name
    cursor.accept("AS")
    alias = cursor.name("an alias")
    if not (cursor.at_end or cursor.at(following)):
        raise cursor.expected(following)
    return table, alias


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


def _assignments(
    cursor: Cursor, tree: exp.Expr, expressions: list[exp.Expr], what: str
) -> tuple[tuple[str, exp.Expr], ...]:
    assignments: dict[str, exp.Expr] = {}
    for assignment in expressions:
        column = assignment.this if isinstance(assignment, exp.EQ) else None
        if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
            raise cursor.unsupported(f"{what} SET needs column = expression, separated by commas", cursor.tokens[0])
        name = column.name.lower()
        if name in assignments:
            raise cursor.error(f"column {name} is assigned twice", cursor.tokens[0])
        assignments[name] = _checked(cursor, assignment.args["expression"])
    if not assignments:
        raise cursor.error(f"{what} SET assigns no column", cursor.tokens[0])
    return tuple(assignments.items())


def _when(cursor: Cursor, when: exp.Expr) -> MergeWhen:
    matched = bool(when.args.get("matched"))
    condition = when.args.get("condition")
    if condition is not None:
        _checked(cursor, condition)
    if when.args.get("source"):
        raise cursor.unsupported("WHEN NOT MATCHED BY SOURCE is not supported; use DELETE or UPDATE with NOT EXISTS")
    then = when.args.get("then")
    if isinstance(then, exp.Insert) and not matched:
        columns, values = _insert_clause(cursor, then)
        return MergeWhen(matched, "insert", condition, (), columns, values)
    if isinstance(then, exp.Update) and matched:
        assigned = _assignments(cursor, then, then.expressions, "WHEN MATCHED THEN UPDATE")
        return MergeWhen(matched, "update", condition, assigned)
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE" and matched:
        return MergeWhen(matched, "delete", condition)
    actions = "UPDATE SET … or DELETE" if matched else "INSERT [(columns)] VALUES (…)"
    raise cursor.unsupported(f"WHEN {'MATCHED' if matched else 'NOT MATCHED'} THEN needs {actions}")


def _insert_clause(cursor: Cursor, insert: exp.Insert) -> tuple[tuple[str, ...], tuple[exp.Expr, ...]]:
    names, values = insert.this, insert.args.get("expression")
    if isinstance(names, exp.Star) or not isinstance(values, exp.Tuple):
        raise cursor.unsupported("INSERT * is not supported in MERGE; write INSERT [(columns)] VALUES (…)")
    columns: list[str] = []
    for column in names.expressions if names is not None else ():
        name = column.name.lower()
        if name in columns:
            raise cursor.error(f"WHEN NOT MATCHED THEN INSERT names column {name} twice", cursor.tokens[0])
        columns.append(name)
    if columns and len(columns) != len(values.expressions):
        raise cursor.error(
            f"WHEN NOT MATCHED THEN INSERT names {len(columns)} columns and gives {len(values.expressions)} values",
            cursor.tokens[0],
        )
    return tuple(columns), tuple(_checked(cursor, value) for value in values.expressions)
