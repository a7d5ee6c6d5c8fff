"""FOREIGN KEY constraints as the rows that Hive keeps, shown and followed when columns change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, NoSuchObjectError, UnsupportedStatementError
from airflow_hive_acid.metastore.schema.hive_catalog import KEY_CONSTRAINTS

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

TABLES = """CREATE TABLE u (x INT, y STRING, PRIMARY KEY (x, y) DISABLE NOVALIDATE, UNIQUE (y) DISABLE NOVALIDATE);
CREATE TABLE t (a INT, b STRING REFERENCES u (y) DISABLE NOVALIDATE RELY, c INT,
  CONSTRAINT to_u FOREIGN KEY (a, b) REFERENCES u (x, y) DISABLE NOVALIDATE)"""


def lines(engine: Engine, text: str) -> list[list[Any]]:
    found = engine.run(text)[-1].rows
    assert found is not None
    return [list(row) for row in found.rows]


@pytest.mark.every_database
def test_foreign_keys_are_kept_as_rows_of_hive_and_shown(engine: Engine, client: MetastoreClient) -> None:
    engine.run(TABLES)
    child, parent = client.catalog.get_table("default.t"), client.catalog.get_table("default.u")
    with client.database.transaction() as connection:
        c = KEY_CONSTRAINTS.c
        kept = connection.execute(
            sa.select(c.CONSTRAINT_NAME, c.POSITION, c.CHILD_INTEGER_IDX, c.PARENT_INTEGER_IDX, c.UPDATE_RULE,
                      c.DELETE_RULE, c.ENABLE_VALIDATE_RELY)
            .where(c.CONSTRAINT_TYPE == 1, c.CHILD_TBL_ID == child.id, c.PARENT_TBL_ID == parent.id)
            .order_by(c.CONSTRAINT_NAME, c.POSITION)
        ).all()  # fmt: skip
    assert [tuple(row) for row in kept] == [
        ("fk_b", 1, 1, 1, 0, 0, 1), ("to_u", 1, 0, 0, 0, 0, 0), ("to_u", 2, 1, 1, 0, 0, 0),
    ]  # fmt: skip
    text = "\n".join(line[0] for line in lines(engine, "SHOW CREATE TABLE t"))
    assert "CONSTRAINT `to_u` FOREIGN KEY (`a`, `b`) REFERENCES `default`.`u` (`x`, `y`) DISABLE NOVALIDATE" in text
    assert [line for line in lines(engine, "DESCRIBE FORMATTED t") if "Key" in str(line[2])] == [
        ["Parent Column Name:default.u.y", "Column Name:b", "Key Sequence:1"],
        ["Parent Column Name:default.u.x", "Column Name:a", "Key Sequence:1"],
        ["Parent Column Name:default.u.y", "Column Name:b", "Key Sequence:2"],
    ]
    assert {c.name for c in client.catalog.constraints("default.u")} == {"pk_x_y", "uk_y"}
    # Names of columns are followed on both sides; what is made again by its text is the same.
    engine.run("ALTER TABLE u CHANGE COLUMN y z STRING; ALTER TABLE t CHANGE COLUMN b bb STRING")
    keys = {c.name: (c.columns, c.parent_columns) for c in client.catalog.constraints("default.t")}
    assert keys == {"fk_b": (("bb",), ("z",)), "to_u": (("a", "bb"), ("x", "z"))}
    text = "\n".join(line[0] for line in lines(engine, "SHOW CREATE TABLE t"))
    engine.run(f"DROP TABLE t; {text}; ALTER TABLE t DROP CONSTRAINT fk_b")
    assert [c.name for c in client.catalog.constraints("default.t")] == ["to_u"]
    engine.run("ALTER TABLE t ADD CONSTRAINT again FOREIGN KEY (bb) REFERENCES u (z) DISABLE NOVALIDATE")
    engine.run("CREATE OR REPLACE TABLE t (a INT, bb STRING, c INT); DROP TABLE u")
    assert client.catalog.constraints("default.t") == []


REFUSED = {
    "CREATE TABLE n (a INT REFERENCES u (x))": UnsupportedStatementError,
    "CREATE TABLE n (a INT REFERENCES u (x) DISABLE NOVALIDATE)": InvalidArgumentsError,
    "CREATE TABLE n (a INT REFERENCES u (y) DISABLE NOVALIDATE)": InvalidArgumentsError,
    "CREATE TABLE n (a INT REFERENCES nothing (y) DISABLE NOVALIDATE)": NoSuchObjectError,
    "CREATE TABLE n (a INT, FOREIGN KEY (a) REFERENCES u (x, y) DISABLE NOVALIDATE)": InvalidArgumentsError,
    "CREATE TABLE n (a INT, FOREIGN KEY (b) REFERENCES u (y) DISABLE NOVALIDATE)": InvalidArgumentsError,
    "CREATE TABLE n (a INT, FOREIGN KEY (a) u (y))": HiveAcidError,
}


@pytest.mark.every_database
def test_a_foreign_key_needs_a_key_of_the_same_types(engine: Engine, client: MetastoreClient) -> None:
    engine.run(TABLES)
    for text, kind in REFUSED.items():
        with pytest.raises(kind):
            engine.run(text)
    assert sorted(client.catalog.list_tables("default")) == ["t", "u"]
