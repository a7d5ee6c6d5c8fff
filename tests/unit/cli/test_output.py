"""Rows as table, JSON and CSV."""

import io
import json
from decimal import Decimal

from airflow_hive_acid.cli.output import Format, print_rows
from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.format.jobs import Column

ROWS = Rows(
    (Column("id", "int"), Column("name", "string"), Column("tags", "array<string>")),
    [[1, "Zürich", ["a"]], [20, None, []], [None, 'a "quoted",\nline\x1b[2J', None]],
)


def printed(rows, form):
    out = io.StringIO()
    print_rows(rows, form, out)
    return out.getvalue()


def test_json_is_a_list_of_objects():
    assert json.loads(printed(ROWS, Format.JSON)) == [
        {"id": 1, "name": "Zürich", "tags": ["a"]},
        {"id": 20, "name": None, "tags": []},
        {"id": None, "name": 'a "quoted",\nline\x1b[2J', "tags": None},
    ]


def test_decimals_keep_all_their_digits():
    rows = Rows((Column("d", "decimal(38,2)"),), [[Decimal("123456789012345678901234567890.10")], [None]])
    assert printed(rows, Format.JSON) == '[{"d": 123456789012345678901234567890.10}, {"d": null}]\n'
    assert printed(rows, Format.CSV) == 'd\n123456789012345678901234567890.10\n""\n'


def test_only_decimal_columns_hold_decimals():
    columns = (Column("a", "decimal(5,2)"), Column("b", "double"), Column("c", "array<struct<x:double>>"))
    rows = Rows.of(columns, [[Decimal("1.50"), Decimal("1.5"), [{"x": Decimal("0.25")}]]])
    assert rows.rows == [[Decimal("1.50"), 1.5, [{"x": 0.25}]]]
    assert [type(v) for v in rows.rows[0]] == [Decimal, float, list]


def test_json_of_no_rows_is_an_empty_list():
    assert printed(Rows(ROWS.columns, []), Format.JSON) == "[]\n"


def test_csv_has_a_header_and_quotes_what_needs_it():
    assert printed(ROWS, Format.CSV) == ('id,name,tags\n1,Zürich,"[""a""]"\n20,,[]\n,"a ""quoted"",\nline\x1b[2J",\n')


def test_table_is_aligned_and_cuts_nothing_off():
    assert printed(ROWS, Format.TABLE) == (
        "id   | name                       | tags\n"
        "-----+----------------------------+------\n"
        '   1 | Zürich                     | ["a"]\n'
        "  20 | NULL                       | []\n"
        'NULL | a "quoted",\\nline\\u001b[2J | NULL\n'
        "(3 rows)\n"
    )


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in printed(ROWS, Format.TABLE)


def test_table_of_no_rows_keeps_its_header():
    assert printed(Rows((Column("n", "int"),), []), Format.TABLE) == "n\n-\n(0 rows)\n"


def test_one_row_is_one_row():
    assert printed(Rows((Column("n", "int"),), [[7]]), Format.TABLE) == "n\n-\n7\n(1 row)\n"
