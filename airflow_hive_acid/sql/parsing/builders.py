"""Statements from typed arguments: names are checked and quoted, values are rendered by sqlglot's expression builder.

What a caller gives as SQL (a query, a condition) must be exactly one of these by itself, so that no text can end the
statement around it, add a clause, or begin another statement. Values in it are given as parameters ``:name``. What is
built is read again by the same parser that reads everybody's SQL, so it gets the same plan as the text would.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.sql.model.origins import TableName
from airflow_hive_acid.sql.model.statements import CreateTemporaryView, Delete, Insert, Merge, Select, Statement, Update
from airflow_hive_acid.sql.parsing.parser import parse_script
from airflow_hive_acid.sql.text.quoting import identifier, quoted
from airflow_hive_acid.sql.text.source import HiveSql, SourceText

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import NotRequired

    from airflow_hive_acid.format.jobs import Column

_WORD = re.compile(r"[A-Za-z0-9_]{1,128}")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = 38
_LONGEST_COLUMN = 767
_CONDITION = "DELETE FROM t WHERE\n"
S = TypeVar("S", bound=Statement)
Values = Mapping[str, Any]


class MergeClause(TypedDict):
    """One WHEN clause of a MERGE, in the order in which they are asked.

    ``action`` is ``update`` or ``delete`` of a matched row, or ``insert`` of one that is not matched; ``condition`` is
    what follows AND. ``set`` maps columns to SQL expressions, ``values`` maps columns to values.
    """

    action: str
    condition: NotRequired[str | None]
    set: NotRequired[Values]
    values: NotRequired[Values]


def table_name(text: str, field: str = "table") -> TableName:
    """``[database.]table`` as a checked name, in lower case.

    :param field: what the argument is called, for the message.
    :raises InvalidArgumentsError: for anything but one or two words of letters, digits and ``_``.
    """
    parts = text.split(".") if isinstance(text, str) else []
    if not 1 <= len(parts) <= 2 or not all(_WORD.fullmatch(part) for part in parts):
        raise InvalidArgumentsError(
            f"{field} must be [database.]table of letters, digits and _, at most 128 each, not {shown(text)}"
        )
    words = [part.lower() for part in parts]
    return TableName(words[0], words[1]) if len(words) == 2 else TableName("default", words[0])


def quoted_table(text: str, field: str = "table") -> str:
    """A table's name as SQL."""
    name = table_name(text, field)
    return f"{identifier(name.database)}.{identifier(name.name)}"


def quoted_column(text: str, field: str) -> str:
    """A column's name as SQL; in backquotes it may hold nearly anything.

    :raises InvalidArgumentsError: for no text, no characters, or a control character.
    """
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_COLUMN or not text.isprintable():
        raise InvalidArgumentsError(f"{field} must be a column's name, not {shown(text)}")
    return identifier(text.lower())


def literal(value: object, field: str) -> str:
    """A value as SQL.

    :param value: None, bool, int, float, Decimal, str, bytes, date or datetime (without zone, or it is taken to UTC).
    :raises InvalidArgumentsError: for a value of another type, and for text that is no Unicode or holds NUL.
    """
    match value:
        case None:
            return exp.Null().sql(dialect=HiveSql)
        case bool():
            return exp.Boolean(this=value).sql(dialect=HiveSql)
        case int():
            return _number(str(value))
        case Decimal():
            if not value.is_finite() or abs(value.adjusted()) > _DIGITS:
                raise InvalidArgumentsError(f"{field} must be a decimal of at most {_DIGITS} digits, not {value}")
            return _number(f"{value:f}")
        case float():
            text = repr(value) if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value)
            return f"CAST({_text(text or 'NaN', field)} AS DOUBLE)"
        case str():
            return _text(value, field)
        case bytes() | bytearray():
            return f"UNHEX({_text(bytes(value).hex(), field)})"
        case datetime():
            return f"CAST({_text(timestamp_text(value), field)} AS TIMESTAMP)"
        case date():
            return f"CAST({_text(value.isoformat(), field)} AS DATE)"
    raise InvalidArgumentsError(f"{field} must be text, a number, a date or bytes, not {type(value).__name__}")


def timestamp_text(value: datetime) -> str:
    """A timestamp as Hive writes it: a wall clock, in UTC if it says where."""
    if value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    return value.isoformat(sep=" ")


def condition(text: str, field: str, parameters: Values | None = None) -> str:
    """A condition or another expression that is one by itself, in parentheses.

    :param parameters: values for ``:name`` in it.
    :raises HiveAcidError: naming the field, when the text is not exactly one expression.
    """
    bound = _bound(text, field, parameters or {})
    statement = _only(Delete, f"{_CONDITION}{bound}\n", field, "one SQL expression")
    # From the first to the last word: a comment at its end would take what follows with it.
    return f"({statement.text[len(_CONDITION) :]})"


def row_condition(text: str, field: str) -> str:
    """A condition about one row by itself: it asks no table, and looks at no other row.

    :raises HiveAcidError: naming the field.
    """
    built = condition(text, field)
    where = _only(Delete, f"{_CONDITION}{built}", field, "one SQL expression").where
    if where is not None and where.tree.find(exp.Query, exp.Values):
        raise InvalidArgumentsError(f"{field} must not ask tables: {shown(text)} has a subquery")
    if where is not None and where.tree.find(exp.AggFunc, exp.Window):
        raise InvalidArgumentsError(f"{field} must be about one row: {shown(text)} has an aggregate or window function")
    return built


def query(text: str, field: str, parameters: Values | None = None) -> str:
    """A query that is one by itself.

    :param parameters: values for ``:name`` in it.
    """
    return _only(Select, _bound(text, field, parameters or {}), field, "one query").text


def insert_statement(
    table: str,
    rows: str,
    *,
    partition: Mapping[str, Any] | None = None,
    columns: Sequence[str] = (),
    overwrite: bool = False,
) -> str:
    """``INSERT INTO|OVERWRITE table [PARTITION (…)] [(columns)] rows``.

    :param rows: a query that has been checked.
    :param partition: value by column, None for a column whose values come from the rows.
    """
    words = ["INSERT OVERWRITE TABLE" if overwrite else "INSERT INTO", quoted_table(table)]
    if partition:
        words.append(f"PARTITION ({', '.join(_partition_item(c, v) for c, v in partition.items())})")
    if columns:
        words.append(f"({', '.join(quoted_column(c, f'columns[{i}]') for i, c in enumerate(columns))})")
    return _checked(Insert, f"{' '.join(words)}\n{rows}")


def update_statement(
    table: str,
    set: Values | None,
    values: Values | None,
    where: str | None,
    parameters: Values | None = None,
) -> str:
    """``UPDATE table SET … [WHERE …]``.

    :param set: SQL expressions by column; what is no text is a value.
    :param values: values by column, texts among them.
    """
    used = _Parameters(parameters)
    assigned = ", ".join(f"{column} = {value}" for column, value in _assignments(set, values, used, ""))
    if not assigned:
        raise InvalidArgumentsError("set and values are empty; name the columns to change")
    text = f"UPDATE {quoted_table(table)}\nSET {assigned}"
    if where is not None:
        text = f"{text}\nWHERE {used.condition(where, 'where')}"
    used.require_all_used()
    return _checked(Update, text)


def delete_statement(table: str, where: str | None, parameters: Values | None = None) -> str:
    """``DELETE FROM table [WHERE …]``."""
    used = _Parameters(parameters)
    text = " ".join(["DELETE FROM", quoted_table(table)])
    if where is not None:
        text = f"{text}\nWHERE {used.condition(where, 'where')}"
    used.require_all_used()
    return _checked(Delete, text)


def merge_statement(
    target: str,
    source: str,
    on: str,
    clauses: Sequence[MergeClause],
    *,
    target_alias: str = "t",
    source_alias: str = "s",
    parameters: Values | None = None,
) -> str:
    """``MERGE INTO target USING source ON … WHEN …``.

    :param source: a table's name, or a query.
    """
    used = _Parameters(parameters)
    words = [f"MERGE INTO {quoted_table(target, 'target')} AS {_alias(target_alias, 'target_alias')}"]
    of_table = isinstance(source, str) and len(source.split()) == 1 and "(" not in source
    using = quoted_table(source, "source") if of_table else f"({used.query(source, 'source')})"
    words.append(f"USING {using} AS {_alias(source_alias, 'source_alias')}")
    words.append(f"ON {used.condition(on, 'on')}")
    if not clauses:
        raise InvalidArgumentsError("clauses is empty; say what becomes of rows that match, and of those that do not")
    words += [_when(clause, f"clauses[{i}]", used) for i, clause in enumerate(clauses)]
    used.require_all_used()
    return _checked(Merge, "\n".join(words))


def columns_of_schema(schema: Mapping[str, str]) -> tuple[Column, ...]:
    """Columns with their Hive types, as a view of files declares them.

    :raises HiveAcidError: for a name or a type that is none.
    """
    if not schema:
        return ()
    listed = ", ".join(f"{quoted_column(name, 'schema')} {kind}" for name, kind in schema.items())
    text = f"CREATE TEMPORARY VIEW v (\n{listed}\n) USING csv OPTIONS (path 'x')"
    columns = _only(CreateTemporaryView, text, "schema", "Hive type by column").source.columns
    if [column.name for column in columns] != [name.lower() for name in schema]:
        raise InvalidArgumentsError(f"schema must be Hive type by column: {shown(dict(schema))}")
    return columns


def bound_query(text: str, field: str, parameters: Values | None) -> str:
    """A query with its parameters, all of which it uses."""
    used = _Parameters(parameters)
    built = used.query(text, field)
    used.require_all_used()
    return built


def shown(value: object) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


class _Parameters:
    """The values for ``:name``; each must be used somewhere in the statement."""

    def __init__(self, values: Values | None) -> None:
        self.values = dict(values or {})
        self._used: set[str] = set()
        for name in self.values:
            if not isinstance(name, str) or not _PARAMETER.fullmatch(name):
                raise InvalidArgumentsError(f"parameters: {shown(name)} is no name; use letters, digits and _")

    def condition(self, text: str, field: str) -> str:
        self._used |= _names(text, field)
        return condition(text, field, self.values)

    def query(self, text: str, field: str) -> str:
        self._used |= _names(text, field)
        return query(text, field, self.values)

    def require_all_used(self) -> None:
        unused = sorted(set(self.values) - self._used)
        if unused:
            raise InvalidArgumentsError(f"parameters: nothing says :{unused[0]}; write it where its value belongs")


def _when(clause: MergeClause, field: str, used: _Parameters) -> str:
    known = {"action", "condition", "set", "values"}
    if not isinstance(clause, Mapping) or set(clause) - known or "action" not in clause:
        raise InvalidArgumentsError(f"{field} must be a mapping with action, and of {sorted(known)}: {shown(clause)}")
    action, given = clause["action"], clause.get("condition")
    extra = "" if given is None else f" AND {used.condition(given, f'{field}.condition')}"
    pairs = list(_assignments(clause.get("set"), clause.get("values"), used, f"{field}."))
    if (action == "delete") == bool(pairs):
        raise InvalidArgumentsError(f"{field}: {action} takes {'no columns' if pairs else 'set or values'}")
    match action:
        case "delete":
            return f"WHEN MATCHED{extra} THEN DELETE"
        case "update":
            return f"WHEN MATCHED{extra} THEN UPDATE SET {', '.join(f'{c} = {v}' for c, v in pairs)}"
        case "insert":
            columns, values = (", ".join(part) for part in zip(*pairs, strict=True))
            return " ".join([f"WHEN NOT MATCHED{extra} THEN INSERT", f"({columns}) VALUES ({values})"])
    raise InvalidArgumentsError(f"{field}.action must be update, delete or insert, not {shown(action)}")


def _assignments(
    set: Values | None, values: Values | None, used: _Parameters, prefix: str
) -> Iterable[tuple[str, str]]:
    """Columns and SQL."""
    both = {str(c).lower() for c in set or {}} & {str(c).lower() for c in values or {}}
    if both:
        raise InvalidArgumentsError(f"{prefix}set and {prefix}values both name {sorted(both)[0]!r}")
    for column, given in (set or {}).items():
        field = f"{prefix}set[{shown(column)}]"
        value = used.condition(given, field) if isinstance(given, str) else literal(given, field)
        yield quoted_column(column, field), value
    for column, given in (values or {}).items():
        field = f"{prefix}values[{shown(column)}]"
        yield quoted_column(column, field), literal(given, field)


def _partition_item(column: str, value: object) -> str:
    field = f"partition[{shown(column)}]"
    name = quoted_column(column, field)
    if value is None:
        return name
    if isinstance(value, float | bytes | datetime):
        raise InvalidArgumentsError(f"{field} must be text, a whole number, a decimal or a date, not {shown(value)}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{name} = {_text(text, field)}"


def _bound(text: str, field: str, parameters: Values) -> str:
    """The text with its parameters replaced by literals, from the last to the first."""
    for start, end, name in reversed(list(_places(text, field))):
        if name in parameters:
            text = f"{text[:start]}{literal(parameters[name], f'parameters[{name!r}]')}{text[end:]}"
    return text


def _names(text: str, field: str) -> set[str]:
    return {name for _, _, name in _places(text, field)}


def _places(text: str, field: str) -> Iterable[tuple[int, int, str]]:
    """Where ``:name`` stands outside of quotes and comments: start, end, name."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgumentsError(f"{field} must be SQL text, not {shown(text)}")
    tokens = _read(SourceText, text, field).tokens
    for colon, name in itertools.pairwise(tokens):
        near = colon.token_type is TokenType.COLON and name.start == colon.end + 1
        if near and name.token_type is not TokenType.STRING and _PARAMETER.fullmatch(name.text):
            yield colon.start, name.end + 1, name.text


def _only(kind: type[S], text: str, field: str, what: str) -> S:
    statements = _read(parse_script, text, field)
    if len(statements) != 1 or not isinstance(statements[0], kind):
        raise InvalidArgumentsError(f"{field} must be {what} and nothing else: {shown(text)}")
    return statements[0]


def _read(read: Any, text: str, field: str) -> Any:
    try:
        return read(text)
    except HiveAcidError as error:
        raise type(error)(f"{field}: {error}") from None


def _checked(kind: type[Statement], text: str) -> str:
    """The text, which must be one statement of its kind; anything else would be a mistake of this module."""
    statements = parse_script(text)
    if len(statements) != 1 or not isinstance(statements[0], kind):
        raise InvalidArgumentsError(f"this is not one {kind.__name__.upper()}: {shown(text)}")
    return text


def _alias(name: str, field: str) -> str:
    if not isinstance(name, str) or not _WORD.fullmatch(name):
        raise InvalidArgumentsError(f"{field} must be one word, not {shown(name)}")
    return identifier(name.lower())


def _number(text: str) -> str:
    return f"({exp.Literal.number(text).sql(dialect=HiveSql)})" if text.startswith("-") else text


def _text(value: str, field: str) -> str:
    if "\0" in value:
        raise InvalidArgumentsError(f"{field} holds the character NUL, which SQL cannot carry; use rows= or a file")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentsError(f"{field} is no valid Unicode text: {shown(value)}") from None
    return quoted(value)
