"""Statements from typed arguments: hostile text is bound as data or refused by name, never obeyed."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from types import SimpleNamespace

import pytest
from sqlglot import exp

from airflow_hive_acid.errors import BadRecordError, HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.statements import Delete, Insert, Merge, Update
from airflow_hive_acid.sql.parsing.builders import (
    bound_query,
    columns_of_schema,
    delete_statement,
    insert_statement,
    literal,
    merge_statement,
    update_statement,
)
from airflow_hive_acid.sql.parsing.records import rows_query

HOSTILE = (
    "'; DROP TABLE TXNS;--", "x' OR '1'='1", '"', "`", "\\", "\\'", "\n", "%", "_", "$", "${env:HOME}", "\u2019",
    "\u201c", "/*", "*/ --", ");--", "a`b", "\\u0027", "é" * 4096, ":id",
)  # fmt: skip
"""Texts that end statements elsewhere; NUL is by itself below, because SQL cannot carry it."""
TABLE = SimpleNamespace(
    qualified_name="db.t",
    columns=(
        Column("id", "int"), Column("amount", "decimal(6,2)"), Column("name", "varchar(5)"), Column("day", "date"),
        Column("at", "timestamp"), Column("raw", "binary"), Column("ok", "boolean"), Column("rate", "double"),
        Column("tags", "array<string>"),
    ),
    partition_columns=(Column("month", "int"), Column("land", "string")),
)  # fmt: skip


def one(text, kind):
    (statement,) = parse_script(text)
    assert isinstance(statement, kind)
    return statement


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_value_is_a_literal_in_every_argument(text):
    assert [
        t.this for t in one(delete_statement("db.t", "a = :v", {"v": text}), Delete).where.tree.find_all(exp.Literal)
    ] == [text]
    update = one(update_statement("db.t", None, {"a": text}, "b = :v", {"v": text}), Update)
    assert [fragment.tree.find(exp.Literal).this for _, fragment in update.assignments] == [text]
    assert update.where.tree.find(exp.Literal).this == text
    insert = one(
        insert_statement("db.t", bound_query("SELECT :v", "query", {"v": text}), partition={"p": text}), Insert
    )
    assert insert.partition == (("p", text),)
    assert insert.query.tree.find(exp.Literal).this == text
    clauses = [{"action": "update", "values": {"a": text}}, {"action": "insert", "values": {"a": text}}]
    merge = one(merge_statement("db.t", "db.s", "t.a = :v", clauses, parameters={"v": text}), Merge)
    assert merge.whens[0].assignments[0][1].tree.find(exp.Literal).this == text
    assert merge.whens[1].values[0].tree.find(exp.Literal).this == text


@pytest.mark.parametrize("text", [*HOSTILE, "a.b.c", "", ".", "db.", "../x", "t\0", "t --", "t t2", 5, None])
def test_hostile_table_name_is_refused_by_name_of_the_argument(text):
    with pytest.raises(InvalidArgumentsError, match=r"table must be \[database.\]table") if text != "_" else _allowed():
        delete_statement(text, "a = 1")
    if text != "_":
        with pytest.raises(InvalidArgumentsError, match="target must be"):
            merge_statement(text, "db.s", "t.a = s.a", [{"action": "delete"}])


class _allowed:
    """``_`` is a name like any other."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        assert error[0] is None


@pytest.mark.parametrize("name", [h for h in HOSTILE if h.isprintable() and len(h) < 768])
def test_hostile_column_name_is_one_quoted_name(name):
    update = one(update_statement("db.t", {name: "1"}, None, "1 = 1"), Update)
    assert [column for column, _ in update.assignments] == [name.lower()]
    insert = one(insert_statement("db.t", "SELECT 1", columns=[name], partition={f"p{name}": None}), Insert)
    assert (insert.columns, insert.partition) == ((name.lower(),), ((f"p{name}".lower(), None),))
    clauses = [{"action": "insert", "set": {name: "s.a"}}]
    assert one(merge_statement("db.t", "db.s", "t.a = s.a", clauses), Merge).whens[0].columns == (name.lower(),)


@pytest.mark.parametrize("name", ["", "a\nb", "a\0", "x" * 768, 5])
def test_column_name_that_is_none_is_refused(name):
    with pytest.raises(InvalidArgumentsError, match="must be a column's name"):
        update_statement("db.t", {name: "1"}, None, "1 = 1")


@pytest.mark.parametrize(
    "text",
    [
        "1 = 1; DROP TABLE db.t", "1 = 1) OR (1 = 1", "1 /*", "1 = 1 WHEN MATCHED THEN DELETE", "a = 1 ORDER BY 1",
        "", " ", "-- nothing", "(a", "a, b", "x' OR '1'='1", "1 = 1 FROM y", "a = :nobody", "1 AS b", "*", ";", None, 5,
        "a = 1 UNION SELECT 1", "a = 1 LIMIT 1", "a = b, c = 1",
    ],
)  # fmt: skip
def test_text_that_is_more_or_less_than_an_expression_is_refused_naming_the_argument(text):
    for build in (
        lambda: delete_statement("db.t", text) if text is not None else _missing("where"),
        lambda: update_statement("db.t", {"a": "1"}, None, text) if text is not None else _missing("where"),
    ):
        with pytest.raises(HiveAcidError, match="where"):
            build()
    with pytest.raises(HiveAcidError, match="on"):
        merge_statement("db.t", "db.s", text, [{"action": "delete"}])
    if isinstance(text, str):
        with pytest.raises(HiveAcidError, match="set"):
            update_statement("db.t", {"a": text}, None, "1 = 1")
    clause = {"action": "update", "condition": text if text is not None else 1, "set": {"a": "1"}}
    with pytest.raises(HiveAcidError, match=r"clauses\[0\].condition"):
        merge_statement("db.t", "db.s", "t.a = s.a", [clause])


def _missing(field):
    raise InvalidArgumentsError(f"{field} is empty")


@pytest.mark.parametrize(
    "text", ["SELECT 1; SELECT 2", "DELETE FROM db.t", "SELECT 1) x, (SELECT 2", "DROP TABLE db.t", ""]
)
def test_query_that_is_more_or_less_than_a_query_is_refused(text):
    with pytest.raises(HiveAcidError, match="query"):
        bound_query(text, "query", None)
    with pytest.raises(HiveAcidError, match="source"):
        merge_statement("db.t", text or "()", "t.a = s.a", [{"action": "delete"}])


def test_comment_at_the_end_takes_nothing_with_it():
    merge = one(merge_statement("db.t", "SELECT 1 AS a -- x", "t.a = s.a -- y", [{"action": "delete"}]), Merge)
    assert len(merge.whens) == 1


def test_values_are_rendered_by_type():
    zone = datetime(2026, 1, 31, 12, 30, 0, 250000, timezone.utc)
    assert [literal(v, "v") for v in (None, True, 3, -3, Decimal("1E+2"), Decimal("0.10"), b"\x01\xff")] == [
        "NULL", "TRUE", "3", "(-3)", "100", "0.10", "UNHEX('01ff')"]  # fmt: skip
    assert literal(date(2026, 1, 31), "v") == "CAST('2026-01-31' AS DATE)"
    assert literal(zone, "v") == "CAST('2026-01-31 12:30:00.250000' AS TIMESTAMP)"
    assert literal(1.5, "v") == "CAST('1.5' AS DOUBLE)"
    assert literal(float("-inf"), "v") == "CAST('-Infinity' AS DOUBLE)"


@pytest.mark.parametrize("value", ["a\0b", "\ud800", object(), [1], Decimal("NaN"), Decimal("1E+999999999")])
def test_value_that_sql_cannot_carry_is_refused_by_name(value):
    with pytest.raises(InvalidArgumentsError, match="parameters"):
        delete_statement("db.t", "a = :v", {"v": value})


def test_parameter_inside_quotes_is_text_and_an_unused_one_is_an_error():
    assert bound_query("SELECT ':v', :v", "query", {"v": 1}) == "SELECT ':v', 1"
    with pytest.raises(InvalidArgumentsError, match="nothing says :w"):
        delete_statement("db.t", "a = :v", {"v": 1, "w": 2})


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        ({"action": "truncate", "set": {"a": "1"}}, "must be update, delete or insert, not 'truncate'"),
        ({"action": "delete", "set": {"a": "1"}}, "delete takes no columns"),
        ({"action": "update"}, "update takes set or values"),
        ({"action": "delete", "when": "x"}, "must be a mapping with action"),
        ({"action": "update", "set": {"a": "1"}, "values": {"A": 1}}, "both name 'a'"),
    ],
)
def test_clause_that_cannot_be_meant_is_refused(clause, words):
    with pytest.raises(InvalidArgumentsError, match=words):
        merge_statement("db.t", "db.s", "t.a = s.a", [clause])


@pytest.mark.parametrize(
    "schema", [{"a": "int) USING csv OPTIONS (path '/etc/passwd') --"}, {"a": "int, b int"}, {"a": "nothing"}, {"a": 5}]
)
def test_type_of_a_schema_that_is_none_is_refused(schema):
    with pytest.raises(HiveAcidError, match="schema"):
        columns_of_schema(schema)
    assert columns_of_schema({"A": "decimal(10, 2)"}) == (Column("a", "decimal(10,2)"),)


# --- rows ----------------------------------------------------------------------------------------------------------


def carried(rows, columns=(), given=()):
    """The JSON that the query carries."""
    tree = one(f"INSERT INTO db.t {rows_query(rows, TABLE, columns, given)}", Insert).query.tree
    return json.loads(tree.find(exp.FromJson if hasattr(exp, "FromJson") else exp.Anonymous).this.this)


def test_rows_travel_without_loss_and_columns_left_out_are_null():
    row = {
        "ID": 7, "amount": Decimal("1234.50"), "name": "tea", "day": date(2026, 1, 31), "raw": b"\x00\xff",
        "at": datetime(2026, 1, 31, 12, 30), "ok": False, "rate": float("nan"), "tags": ["a", None], "month": "6",
    }  # fmt: skip
    assert carried([row, {"id": None}]) == [
        {
            "c0": 7, "c1": "1234.50", "c2": "tea", "c3": "2026-01-31", "c5": "AP8=", "c4": "2026-01-31 12:30:00",
            "c6": False, "c7": "NaN", "c8": ["a", None], "c9": 6,
        },
        {},
    ]  # fmt: skip


@pytest.mark.parametrize("text", [*HOSTILE[:-3], "a\0b"])
def test_hostile_text_in_rows_is_text(text):
    wide = SimpleNamespace(qualified_name="db.w", columns=(Column("s", "string"),), partition_columns=())
    tree = one(f"INSERT INTO db.w {rows_query([[text]], wide, (), ())}", Insert).query.tree
    literals = [t.this for t in tree.find_all(exp.Literal)]
    assert json.dumps([{"c0": text}], separators=(",", ":")) in literals


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": 1 << 31}, "row 2, column id: 2147483648 is no int: it does not fit into 32 bits"),
        ({"id": True}, "column id: True is no int"),
        ({"id": "x"}, "column id: 'x' is no int"),
        ({"id": Decimal("1E+999999999")}, "does not fit into 32 bits"),
        ({"id": Decimal("NaN")}, "does not fit into 32 bits"),
        ({"amount": Decimal("12345.0")}, r"column amount: .* more than 4 digits before the point"),
        ({"amount": "1.005"}, "more than 2 digits behind the point"),
        ({"amount": 1.5}, "a float has lost digits already"),
        ({"name": "coffee"}, "longer than 5 characters"),
        ({"name": 5}, "column name: 5 is no varchar"),
        ({"day": "31.1.2026"}, "column day"),
        ({"day": datetime(2026, 1, 31, 5)}, "without a time of day"),
        ({"at": "noon"}, "column at"),
        ({"raw": "text"}, "give bytes"),
        ({"ok": "yes"}, "give True or False"),
        ({"rate": "fast"}, "give a float"),
        ({"rate": "1e999"}, "it is too large"),
        ({"rate": Decimal("1E+999")}, "it is too large"),
        ({"amount": "1e999999999"}, "more than 4 digits before the point"),
        ({"nobody": 1}, "row 2: there is no column 'nobody'"),
        ([1, 2], "row 2 has 2 values for the 11 columns"),
        ("text", "row 2 must be a mapping or a list"),
    ],
)
def test_bad_record_names_row_and_column(row, words):
    with pytest.raises(BadRecordError, match=words):
        rows_query([{"id": 1}, row], TABLE, (), ())


def test_columns_are_those_named_then_the_partition_columns_without_a_value():
    assert carried([[1, "x", 6]], ["id", "name"], ["land"]) == [{"c0": 1, "c1": "x", "c2": 6}]
    with pytest.raises(InvalidArgumentsError, match="has no column nobody to fill"):
        rows_query([], TABLE, ["nobody"], ())


def test_rows_that_belong_into_a_file_are_refused(monkeypatch):
    from airflow_hive_acid.sql.parsing import records

    monkeypatch.setattr(records, "MOST_BYTES", 100)
    with pytest.raises(InvalidArgumentsError, match="write them to a file and give files="):
        rows_query([{"id": i} for i in range(100)], TABLE, (), ())


@pytest.mark.parametrize("text", ["(" * 2_000 + "1" + ")" * 2_000, "CASE WHEN a = 1 THEN " * 500])
def test_expression_without_end_is_refused_at_once(text):
    with pytest.raises(HiveAcidError, match="where"):
        delete_statement("db.t", text)


def test_many_clauses_and_many_rows_are_one_statement():
    clauses = [{"action": "update", "condition": f"s.n = {i}", "set": {"a": str(i)}} for i in range(50)]
    assert len(one(merge_statement("db.t", "db.s", "t.a = s.a", clauses), Merge).whens) == 50
    assert len(carried([{"id": i, "name": "x"} for i in range(5_000)])) == 5_000


@pytest.mark.parametrize(
    ("value", "carried_as"),
    [
        ("1234567890.1234567890123456789012345678", "1234567890.1234567890123456789012345678"),
        ("1.50000000000000000000000000000000000", "1.50000000000000000000000000000000000"),
        ("0E+999999999", "0"),
        ("-0.0", "0"),
        ("12E2", "1200"),
        ("0.00000000000000000000000000012", None),
        ("12345678901", None),
    ],
)
def test_decimals_keep_all_digits_or_are_refused(value, carried_as):
    wide = SimpleNamespace(qualified_name="db.w", columns=(Column("a", "decimal(38,28)"),), partition_columns=())
    if carried_as is None:
        with pytest.raises(BadRecordError, match="more than"):
            rows_query([[Decimal(value)]], wide, (), ())
    else:
        assert f'"c0":"{carried_as}"' in rows_query([[Decimal(value)]], wide, (), ())
