"""Rows as table, JSON and CSV."""

import io
import json

from airflow_hive_acid.cli.output import Format, print_rows
from airflow_hive_acid.engine.results import Rows
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


def test_json_of_no_rows_is_an_empty_list():
    assert printed(Rows(ROWS.columns, []), Format.JSON) == "[]\n"


def test_csv_has_a_header_and_quotes_what_needs_it():
    assert printed(ROWS, Format.CSV) == (
        'id,name,tags\n1,Zürich,"[""a""]"\n20,,[]\n,"a ""quoted"",\nline\x1b[2J",\n'
    )


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
