"""docs/reference/sql.md: every example runs, in its order; those marked refused fail and leave nothing behind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.metastore.database.codes import TxnState
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model import alterations, lookups, session, statements, views
from airflow_hive_acid.sql.model.origins import Origin
from airflow_hive_acid.sql.text.variables import Variables

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.sql.model.statements import Statement

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sql.md"
EXAMPLES = re.findall(r"^```sql( refused)?\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_every_statement_has_an_example() -> None:
    """Of what the parser makes, only what the page says in words is left out."""
    shown = {type(s) for refused, text in EXAMPLES if not refused for s in _parsed(text)}
    kinds = {**vars(statements), **vars(alterations), **vars(lookups), **vars(session), **vars(views)}.values()
    known = {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Origin)}
    known -= {Origin, alterations.Alteration, lookups.Lookup, session.SessionStatement, views.ViewStatement}
    assert {kind.__name__ for kind in known - shown} == {"Load"}
    assert "LOAD DATA" in PAGE.read_text()


@pytest.mark.spark
@pytest.mark.story("the examples of docs/reference/sql.md")
def test_the_examples_run(real_engine: Engine, client: MetastoreClient, tmp_path: Path) -> None:
    (tmp_path / "arrivals.csv").write_text("id,name,price\n5,oil,4.00\n6,rice,2.50\n1,tea,3.00\n")
    (tmp_path / "july").mkdir()
    kinds = set()
    for refused, text in EXAMPLES:
        script = text.replace("/data/", f"{tmp_path}/")
        if refused:
            _refused(real_engine, client, script)
        else:
            kinds |= {result.kind for result in real_engine.run(script, variables={})}
            if "MERGE INTO shop.items AS t" in text:
                _check_rows(real_engine)
    assert "shop" not in client.catalog.list_databases()
    assert kinds >= {s.kind_text for refused, text in EXAMPLES if not refused for s in _parsed(text)}


def _parsed(text: str) -> list[Statement]:
    return parse_script(text, variables=Variables())


def _refused(engine: Engine, client: MetastoreClient, script: str) -> None:
    before = {row.txn_id for row in client.show_transactions(include_committed=True)}
    with pytest.raises(HiveAcidError):
        engine.run(script, variables={})
    after = {row.txn_id: row.state for row in client.show_transactions(include_committed=True)}
    assert [state for txn, state in after.items() if txn not in before and state is TxnState.OPEN] == []
    assert client.show_locks() == []


def _check_rows(engine: Engine) -> None:
    rows = engine.query("SELECT id, name, price FROM shop.items ORDER BY id").rows
    assert [(row[0], row[1], str(row[2])) for row in rows] == [
        (1, "TEA", "3.00"),
        (2, "JAM", "4.62"),
        (5, "oil", "4.00"),
        (6, "rice", "2.50"),
    ]
