"""The table of docs/reference/sql.md: each line's statement runs, or is refused with the reason that the line gives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import HiveAcidError

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sql.md"
HEAD = ["Statement", "Here", "Example", "Hive", "Spark"]
NO = "no: "
NOTHING = "\N{EN DASH}"
NOT_HERE = "not here: "
CODE = re.compile(r"`(.+)`")


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    name: str
    here: str
    example: str
    hive: str
    spark: str

    @property
    def reason(self) -> str:
        """Why it is refused; empty if it runs."""
        return self.here.removeprefix(NO) if self.here.startswith(NO) else ""

    def texts(self) -> list[tuple[str, str | None]]:
        """What is tried: the example, then other spellings; with the reason of a refusal, None where it must run."""
        found: list[tuple[str, str | None]] = [(_code(self.example), self.reason or None)]
        for cell in (self.hive, self.spark):
            if cell.startswith(NOT_HERE):
                found.append((_code(cell.removeprefix(NOT_HERE)), ""))
            elif cell.startswith("`"):
                found.append((_code(cell), None))
        return found


def _code(cell: str) -> str:
    match = CODE.fullmatch(cell)
    assert match is not None, cell
    return match.group(1).replace("\\|", "|")


def _lines() -> list[Line]:
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    first = rows.index(HEAD)
    rest = rows[first + 2 :]
    end = next((i for i, row in enumerate(rest) if len(row) != len(HEAD)), len(rest))
    return [Line(*row) for row in rest[:end] if row[1]]


LINES = _lines()


def test_the_table_says_of_each_statement_what_happens_here_and_what_others_write() -> None:
    assert len(LINES) >= 140
    assert len({line.example for line in LINES}) == len(LINES)
    for line in LINES:
        assert line.here == "yes" or len(line.reason) > 5, line
        for cell in (line.hive, line.spark):
            assert cell.startswith(("same", NOTHING, "`", NOT_HERE)), line


@pytest.mark.spark
def test_each_line_of_the_table_does_what_it_says(real_engine: Engine, client: MetastoreClient, tmp_path: Path) -> None:
    """From top to bottom, on one metastore."""
    (tmp_path / "arrivals.csv").write_text("id,name\n5,oil\n")
    wrong = []
    for line in LINES:
        for text, reason in line.texts():
            found = _outcome(real_engine, client, text.replace("/data/", f"{tmp_path}/"))
            if (found is None) != (reason is None) or (reason is not None and reason not in str(found)):
                wrong.append(f"{line.name}: {text}\n    {found}")
    assert not wrong, "\n".join(wrong)
    assert client.show_locks() == []
    assert "tour" not in client.catalog.list_databases()


def _outcome(engine: Engine, client: MetastoreClient, text: str) -> str | None:
    """The message of its refusal, in one line; None if it ran."""
    database = "tour" if "tour" in client.catalog.list_databases() else "default"
    try:
        engine.run(text, database=database, variables={})
    except HiveAcidError as error:
        return " ".join(str(error).split())
    return None
