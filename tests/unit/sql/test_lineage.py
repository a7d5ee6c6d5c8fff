"""Column lineage: a corpus, hard cases by name, and random queries whose claims a database checks.

``corpus/lineage.txt`` is written by ``python -m tests.unit.sql.test_lineage`` and never by hand.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.lineage.statements import lineage_of
from airflow_hive_acid.sql.lineage.values import How, Lineage, Use, Uses, merged
from airflow_hive_acid.sql.model.statements import Delete, Explain, Insert, Merge, MultiInsert, Select, Update
from tests.unit.sql.catalog import VIEWS, Facts, columns, table_of
from tests.unit.sql.random_queries import TABLES, random_query

CORPUS = Path(__file__).with_name("corpus")
SMALL = {name: Facts(f"default.{name}", columns(" ".join(f"{c}:int" for c in cs))) for name, cs in TABLES.items()}


def lineages(text: str) -> list[Lineage]:
    found = []
    for statement in parse_script(text):
        inner = statement.statement if isinstance(statement, Explain) else statement
        for one in inner.inserts if isinstance(inner, MultiInsert) else [inner]:
            if isinstance(one, Select | Insert | Update | Delete | Merge):
                found.append(lineage_of(one, table_of, VIEWS))
    return found


def shown(uses: Uses) -> str:
    return " ".join(sorted(f"{u.relation}.{u.column}:{u.how.name}{'*' * u.masking}" for u in uses))


def by_column(text: str) -> dict[str, str]:
    (lineage,) = lineages(text)
    return {name: shown(uses) for name, uses in lineage.columns} | {"rows": shown(lineage.rows)}


def snapshot() -> str:
    blocks = []
    for statement in parse_script((CORPUS / "statements.sql").read_text()):
        found = lineages(statement.text)
        if found:
            blocks.append(
                "\n".join([f"> {' '.join(statement.text.split())}", *(x for one in found for x in _lines(one))])
            )
    return "\n\n".join(blocks) + "\n"


def _lines(lineage: Lineage) -> list[str]:
    target = lineage.target or "rows"
    lines = [f"  {target} from {', '.join(lineage.inputs) or 'nothing'}{'' if lineage.complete else ', and more'}"]
    lines += [f"    {name} <- {shown(uses) or 'constants'}" for name, uses in lineage.columns]
    return [*lines, f"    which rows: {shown(lineage.rows)}"] if lineage.rows else lines


def test_the_lineage_of_the_corpus_is_as_before() -> None:
    assert snapshot() == (CORPUS / "lineage.txt").read_text()


def test_what_the_corpus_claims_exists() -> None:
    for lineage in lineages((CORPUS / "statements.sql").read_text()):
        for name, uses in (*lineage.columns, ("", lineage.rows)):
            for use in uses:
                assert use.relation in lineage.inputs
                if use.relation in VIEWS:
                    known = {c.name for c in VIEWS[use.relation].columns}
                    assert not known or use.column in known
                else:
                    facts = table_of(use.relation)
                    assert use.column in {c.name for c in (*facts.columns, *facts.partition_columns)}
            if lineage.target is not None and name:
                facts = table_of(lineage.target)
                assert name in {c.name for c in (*facts.columns, *facts.partition_columns)}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(
            "SELECT id AS a, a + 1 AS b FROM t",
            {"a": "default.t.id:IDENTITY", "b": "default.t.id:TRANSFORMATION", "rows": ""},
            id="a name of the same select list",
        ),
        pytest.param(
            "SELECT sum(amount) + 1 AS a, count(DISTINCT name) AS n, md5(name) AS h FROM t GROUP BY ALL",
            {
                "a": "default.t.amount:AGGREGATION",
                "n": "default.t.name:AGGREGATION*",
                "h": "default.t.name:TRANSFORMATION*",
                "rows": "default.t.name:GROUP_BY",
            },
            id="aggregates, masks, GROUP BY ALL",
        ),
        pytest.param(
            "SELECT name, amount AS x FROM t GROUP BY 1, x ORDER BY 2",
            {
                "name": "default.t.name:IDENTITY",
                "x": "default.t.amount:IDENTITY",
                "rows": "default.t.amount:GROUP_BY default.t.amount:SORT default.t.name:GROUP_BY",
            },
            id="ordinals and aliases as keys",
        ),
        pytest.param(
            "SELECT * FROM demo.airlines a FULL JOIN other.airlines o USING (carrier)",
            {
                "carrier": "demo.airlines.carrier:IDENTITY other.airlines.carrier:IDENTITY",
                "name": "demo.airlines.name:IDENTITY",
                "country": "other.airlines.country:IDENTITY",
                "rows": "demo.airlines.carrier:JOIN other.airlines.carrier:JOIN",
            },
            id="USING shows its column once",
        ),
        pytest.param(
            "SELECT * EXCEPT (amount) FROM t LEFT ANTI JOIN demo.users u ON u.id = t.id",
            {
                "id": "default.t.id:IDENTITY",
                "name": "default.t.name:IDENTITY",
                "rows": "default.t.id:JOIN demo.users.id:JOIN",
            },
            id="an anti join offers nothing",
        ),
        pytest.param(
            "SELECT q.v, (SELECT max(email) FROM demo.users u WHERE u.id = q.k) AS m "
            "FROM (SELECT id, name FROM t WHERE amount > 1) AS q (k, v)",
            {
                "v": "default.t.name:IDENTITY",
                "m": "default.t.id:FILTER demo.users.email:AGGREGATION demo.users.id:FILTER",
                "rows": "default.t.amount:FILTER",
            },
            id="renamed columns, a correlated query as a value",
        ),
        pytest.param(
            "SELECT sum(amount) FILTER (WHERE name = 'x') OVER w AS s, lag(id) OVER (w ORDER BY name) AS l FROM t "
            "WINDOW w AS (PARTITION BY id)",
            {
                "s": "default.t.amount:AGGREGATION default.t.id:WINDOW default.t.name:CONDITIONAL",
                "l": "default.t.id:TRANSFORMATION default.t.id:WINDOW default.t.name:WINDOW",
                "rows": "",
            },
            id="named windows, FILTER",
        ),
        pytest.param(
            "SELECT transform(array(id), x -> x + amount) AS a, "
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS p FROM t",
            {
                "a": "default.t.amount:TRANSFORMATION default.t.id:TRANSFORMATION",
                "p": "default.t.amount:AGGREGATION",
                "rows": "",
            },
            id="lambdas, WITHIN GROUP",
        ),
        pytest.param(
            "SELECT k, x.e FROM demo.flights f LATERAL VIEW explode(array(f.s.a)) x AS e JOIN "
            "(SELECT carrier AS k FROM demo.airlines) a ON a.k = f.carrier",
            {
                "k": "demo.airlines.carrier:IDENTITY",
                "e": "demo.flights.s:TRANSFORMATION",
                "rows": "demo.airlines.carrier:JOIN demo.flights.carrier:JOIN",
            },
            id="LATERAL VIEW of a field",
        ),
        pytest.param(
            "SELECT r.any, id FROM t JOIN raw r ON r.k = t.id",
            {"any": "raw.any:IDENTITY", "id": "default.t.id:IDENTITY", "rows": "default.t.id:JOIN raw.k:JOIN"},
            id="files without a schema, asked by name",
        ),
        pytest.param(
            "SELECT stack(2, id, amount) AS (n, m), posexplode(split(name, ',')) AS (i, w) FROM t",
            {
                "n": "default.t.amount:TRANSFORMATION default.t.id:TRANSFORMATION",
                "m": "default.t.amount:TRANSFORMATION default.t.id:TRANSFORMATION",
                "i": "default.t.name:TRANSFORMATION",
                "w": "default.t.name:TRANSFORMATION",
                "rows": "",
            },
            id="generators with several names",
        ),
    ],
)
def test_a_query_is_understood_as_spark_does(query: str, expected: dict[str, str]) -> None:
    assert by_column(query) == expected


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM raw", "SELECT explode(m) FROM raw", "SELECT * FROM t PIVOT (sum(amount) FOR name IN ('a', 'b'))"],
)
def test_what_only_spark_knows_is_said_to_be_incomplete(query: str) -> None:
    (insert,) = lineages(f"INSERT INTO t {query}")
    assert (insert.complete, insert.columns) == (False, ())
    assert insert.inputs


def test_statements_on_one_target_are_one_lineage() -> None:
    found = merged(lineages("UPDATE t SET name = 'x' WHERE id = 1; INSERT INTO t SELECT id, email, 0 FROM demo.users"))
    assert [(one.target, one.inputs) for one in found] == [("default.t", ("default.t", "demo.users"))]
    assert dict(found[0].columns)["name"] == {Use("demo.users", "email")}
    assert found[0].rows == {Use("default.t", "id", How.FILTER)}


def test_a_condition_of_ten_thousand_terms_is_walked() -> None:
    terms = " OR ".join(f"(id = {i} AND amount > {i})" for i in range(5000))
    assert by_column(f"DELETE FROM t WHERE {terms}")["rows"] == "default.t.amount:FILTER default.t.id:FILTER"  # noqa: S608


# --- random queries: what a column is said not to depend on must not change it ---


def _filled(numbers: random.Random) -> dict[str, list[list[int | None]]]:
    def value() -> int | None:
        return None if numbers.random() < 0.1 else numbers.randrange(6)

    return {name: [[value() for _ in cs] for _ in range(7)] for name, cs in TABLES.items()}


def _answer(query: str, rows: dict[str, list[list[int | None]]]) -> list[tuple[int | None, ...]]:
    connection = sqlite3.connect(":memory:")
    try:
        for name, cs in TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({', '.join(cs)})")
            connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(cs))})", rows[name])  # noqa: S608
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def _changed(rows: dict[str, list[list[int | None]]], table: str, column: str, numbers: random.Random):
    at = TABLES[table].index(column)
    new = [[numbers.randrange(6) if i == at else v for i, v in enumerate(row)] for row in rows[table]]
    return {**rows, table: new}


@pytest.mark.parametrize(
    "block", [0, 1, *(pytest.param(more, marks=pytest.mark.repeats("more random queries")) for more in (2, 3))]
)
def test_a_column_changes_only_with_what_it_is_said_to_depend_on(block: int) -> None:
    """A database runs random queries, again with one column of one table changed."""
    told = 0
    for seed in range(block * 100, (block + 1) * 100):
        numbers = random.Random(seed)
        query = random_query(numbers)
        (statement,) = parse_script(query)
        lineage = lineage_of(statement, lambda name: SMALL[name.removeprefix("default.")], {})
        rows = _filled(numbers)
        before = _answer(query, rows)
        assert lineage.complete
        for at, (_, uses) in enumerate(lineage.columns):
            if uses and all(use.how is How.IDENTITY for use in uses):
                values = {row[TABLES[u.relation[8:]].index(u.column)] for u in uses for row in rows[u.relation[8:]]}
                assert {row[at] for row in before} <= values | {None}, (seed, query)
        for table, cs in TABLES.items():
            for column in cs:
                after = _answer(query, _changed(rows, table, column, numbers))
                for at, (name, uses) in enumerate(lineage.columns):
                    if any((u.relation, u.column) == (f"default.{table}", column) for u in uses | lineage.rows):
                        continue
                    told += 1
                    assert Counter(r[at] for r in before) == Counter(r[at] for r in after), (
                        seed,
                        table,
                        column,
                        name,
                        query,
                    )
    assert told > 500


if __name__ == "__main__":
    (CORPUS / "lineage.txt").write_text(snapshot())


def test_lineage_goes_through_views_to_the_tables_below() -> None:
    texts = {
        "demo.v": (
            "select `t`.`id` AS `id`, upper(`t`.`name`) from `default`.`t` where `t`.`amount` > 1", "id:int n:string",
        ),
        "demo.over": ("SELECT `v`.`n` AS `m` FROM `demo`.`v`", "m:string"),
    }  # fmt: skip

    def found(name: str) -> Facts:
        if name not in texts:
            return table_of(name)
        text, names = texts[name]
        return Facts(name, columns(names), is_transactional=False, type="VIRTUAL_VIEW", view_text=text)

    (made,) = parse_script("CREATE TEMPORARY VIEW q (a) AS SELECT id FROM demo.v")
    (statement,) = parse_script("INSERT INTO demo.keyed SELECT q.a, o.m FROM q CROSS JOIN demo.over o")
    lineage = lineage_of(statement, found, {}, queries={"q": made}, parse=parse_script)  # type: ignore[arg-type,dict-item]
    assert {name: shown(uses) for name, uses in lineage.columns} == {
        "id": "default.t.id:IDENTITY", "name": "default.t.name:TRANSFORMATION",
    }  # fmt: skip
    assert shown(lineage.rows) == "default.t.amount:FILTER"
    assert lineage.inputs == ("default.t",)
