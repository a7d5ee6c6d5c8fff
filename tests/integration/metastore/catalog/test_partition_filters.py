"""Partitions are found by conditions that the database evaluates, as values of their types, and page by page."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.rows.partitions import add_partitions
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.catalog.values.partition_conditions import (
    MAX_PARTS,
    And,
    Between,
    Compare,
    In,
    IsNull,
    Or,
)
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITION_KEY_VALS, PARTITIONS, SDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog.catalog import Catalog

ID = (Column("id", "int"),)
HOURS = [None, "-3", "0", "2", "9", "10", "100"]


@pytest.fixture
def catalog(client: MetastoreClient) -> Catalog:
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_table(TableDefinition("default", "h", ID, (Column("h", "int"),)))
    client.catalog.add_partitions("default.h", [(h,) for h in HOURS])
    return client.catalog


def found(catalog: Catalog, condition: Any, table: str = "default.h") -> set[str]:
    return {partition.values[-1] for partition in catalog.list_partitions(table, condition)}


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Compare("h", "=", 9), {"9"}),
        (Compare("H", "=", "9"), {"9"}),
        (Compare("h", "<>", 9), {"-3", "0", "2", "10", "100"}),
        (Compare("h", "<", 9), {"-3", "0", "2"}),
        (Compare("h", "<=", 9), {"-3", "0", "2", "9"}),
        (Compare("h", ">", "9"), {"10", "100"}),
        (Compare("h", ">=", -3), {"-3", "0", "2", "9", "10", "100"}),
        (In("h", [2, "100", 7]), {"2", "100"}),
        (In("h", []), set()),
        (Between("h", 0, 10), {"0", "2", "9", "10"}),
        (IsNull("h"), {"__HIVE_DEFAULT_PARTITION__"}),
        (Compare("h", "<", 0) | IsNull("h"), {"-3", "__HIVE_DEFAULT_PARTITION__"}),
        (Compare("h", ">", 0) & Compare("h", "<", 10), {"2", "9"}),
        (Or([]), set()),
        (And([]), {"-3", "0", "2", "9", "10", "100", "__HIVE_DEFAULT_PARTITION__"}),
        (And([Or([Compare("h", "=", 2), Compare("h", "=", 9)]), Compare("h", "<>", 2)]), {"9"}),
    ],
)
def test_numbers_compare_as_numbers_and_null_fulfils_no_comparison(
    catalog: Catalog, condition: Any, expected: set[str]
) -> None:
    assert found(catalog, condition) == expected


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("type_text", "values", "condition", "expected"),
    [
        ("string", ["B", "a", "b", "ä", "it's", "100%", "a_c"], Compare("k", ">", "a"), {"b", "ä", "it's", "a_c"}),
        ("string", ["B", "a", "Z"], Compare("k", "<", "a"), {"B", "Z"}),
        ("string", ["a", "b", "'; DROP TABLE x"], Compare("k", "=", "'; DROP TABLE x"), {"'; DROP TABLE x"}),
        ("string", ["a%", "ab", "a_"], In("k", ["a%", "a_"]), {"a%", "a_"}),
        ("date", ["2024-01-31", "2024-02-01", "2023-12-31"], Between("k", datetime.date(2024, 1, 1), "2024-01-31"),
         {"2024-01-31"}),
        ("bigint", ["9007199254740993", "9007199254740992"], Compare("k", "=", 9007199254740993),
         {"9007199254740993"}),
        ("double", ["1.5", "10.25", "-2"], Compare("k", ">", 1.5), {"10.25"}),
        ("decimal(10,2)", ["1.50", "10.25", "2"], Compare("k", ">=", Decimal("1.505")), {"10.25", "2"}),
        ("decimal(10,2)", ["1.50", "10.25"], Compare("k", "=", "1.5"), {"1.50"}),
        ("boolean", ["true", "false"], Compare("k", "=", True), {"true"}),
        ("timestamp", ["2024-01-01 00:00:00", "2024-01-01 00:00:00.5"],
         Compare("k", ">", datetime.datetime(2024, 1, 1)), {"2024-01-01 00:00:00.5"}),
        ("varchar(20)", ["x", "y"], Compare("k", "<>", "x"), {"y"}),
        # However a value is written; what an earlier version wrote as it was given is found by that, too.
        ("int", ["2", "20"], Compare("k", "=", "+02"), {"2"}),
        ("date", ["2024-01-31", "2024-02-01"], Compare("k", "=", "2024-2-1"), {"2024-02-01"}),
        ("date", ["2024-01-31", "2024-02-01"], Compare("k", "<", "2024-2-1"), {"2024-01-31"}),
        ("date", ["2024-01-31", "2024-02-01"], In("k", ["2024-2-1", "2025-1-1"]), {"2024-02-01"}),
        ("boolean", ["true", "TRUE", "false"], Compare("k", "=", "TRUE"), {"true", "TRUE"}),
        ("boolean", ["true", "TRUE", "false"], Compare("k", "<>", "TRUE"), {"false"}),
        ("timestamp", ["2024-01-01 00:00:00", "2024-01-01 00:00:00.0", "2024-01-02 00:00:00"],
         In("k", ["2024-01-01 00:00:00.0"]), {"2024-01-01 00:00:00", "2024-01-01 00:00:00.0"}),
        ("timestamp", ["2024-01-01 00:00:00", "2024-01-02 00:00:00"], Compare("k", ">", "2024-1-1"),
         {"2024-01-02 00:00:00"}),
    ],
)  # fmt: skip
def test_every_type_compares_as_itself(
    catalog: Catalog, type_text: str, values: list[str], condition: Any, expected: set[str]
) -> None:
    catalog.create_table(TableDefinition("default", "k", ID, (Column("k", type_text),)))
    catalog.add_partitions("default.k", [(value,) for value in values])
    assert found(catalog, condition, "default.k") == expected


LARGEST, DEEPEST = str((1 << 63) - 1), str(-(1 << 63))
NO_NUMBERS = ["a", "", " ", "1a", "-", ".", "1e", "9" * 44, "1e999", "1e-999", "0x1", "٣"]


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("type_text", "values", "condition"),
    [
        ("bigint", [LARGEST, "7", "10"], Compare("k", ">=", 7)),
        ("bigint", [DEEPEST, "-8"], Compare("k", "<", -7)),
        ("decimal(38,0)", ["9" * 38, "7.", "7.5"], Between("k", 7, "9" * 38)),
        ("double", ["1.7976931348623157E308", "1e300", "7.25", "2.5E-307", "4.9E-319", "1E+3", ".5", "12e3"],
         Compare("k", ">", 0)),
        ("float", ["3.4028235E38", "1.4E-45"], Compare("k", ">", 0)),
    ],
)  # fmt: skip
def test_texts_of_other_tables_and_texts_that_are_no_numbers_are_in_nobodys_way(
    catalog: Catalog, client: MetastoreClient, type_text: str, values: list[str], condition: Any
) -> None:
    """Values of all tables stand in one column, and PostgreSQL may look at those of others first."""
    catalog.create_table(TableDefinition("default", "texts", ID, (Column("k", "string"),)))
    texts = [t for t in NO_NUMBERS if t.isascii() or not client.database.backend.latin1]
    catalog.add_partitions("default.texts", [(text,) for text in texts])
    catalog.create_table(TableDefinition("default", "k", ID, (Column("k", type_text),)))
    catalog.add_partitions("default.k", [(value,) for value in [*values, "-99"]])
    with client.database.transaction() as connection:  # as an older Hive lets it stand
        stored = PARTITION_KEY_VALS.c.PART_KEY_VAL
        connection.execute(sa.update(PARTITION_KEY_VALS).where(stored == "-99").values(PART_KEY_VAL="a"))
    assert {*values} <= {partition.values[-1] for partition in catalog.list_partitions("default.k")}
    assert {*values} == found(catalog, condition, "default.k") - {"-99"}


@pytest.mark.every_database
def test_conditions_on_several_columns_combine(catalog: Catalog) -> None:
    catalog.create_table(TableDefinition("default", "p", ID, (Column("ds", "string"), Column("h", "int"))))
    catalog.add_partitions("default.p", [(ds, str(h)) for ds in ("a", "b") for h in range(12)])
    condition = (Compare("ds", "=", "a") & Compare("h", ">=", 10)) | (Compare("ds", "=", "b") & In("h", [0, 5]))
    names = [partition.name for partition in catalog.list_partitions("default.p", condition)]
    assert sorted(names) == ["ds=a/h=10", "ds=a/h=11", "ds=b/h=0", "ds=b/h=5"]
    assert [p.name for p in catalog.list_partitions("default.p", {"ds": "a", "h": ["3", "4"]})] == [
        "ds=a/h=3", "ds=a/h=4",
    ]  # fmt: skip


@pytest.mark.every_database
def test_values_by_column_are_found_however_they_are_written(catalog: Catalog) -> None:
    """One value for some of the columns, or several: all of them as a Hive writes it, or as it stands there."""
    catalog.create_table(TableDefinition("default", "p", ID, (Column("d", "date"), Column("x", "decimal(5,2)"))))
    catalog.add_partitions("default.p", [("2024-01-02", "1.5"), ("2024-01-02", "1.50"), ("2024-01-03", "2")])

    def names(values: Any) -> list[str]:
        return sorted(partition.name for partition in catalog.list_partitions("default.p", values))

    assert names({"d": "2024-1-3"}) == ["d=2024-01-03/x=2"]
    assert names({"d": ["2024-1-3", "2025-1-1"]}) == ["d=2024-01-03/x=2"]
    assert names({"x": "2.00"}) == ["d=2024-01-03/x=2"]
    assert names({"x": ["1.50"]}) == ["d=2024-01-02/x=1.5", "d=2024-01-02/x=1.50"]
    assert names({"d": "2024-1-3", "x": "02"}) == ["d=2024-01-03/x=2"]


@pytest.mark.every_database
def test_a_page_may_end_with_a_value_that_nobody_would_write_today(catalog: Catalog, client: MetastoreClient) -> None:
    """A Hive's ``MSCK REPAIR`` takes directories as they are called: the page after ``h=010`` was refused."""
    with client.database.transaction() as connection:
        named = PARTITIONS.c.PART_NAME
        connection.execute(sa.update(PARTITIONS).where(named == "h=10").values(PART_NAME="h=010"))
    everything = [partition.name for partition in catalog.list_partitions("default.h")]
    names: list[str] = []
    while page := catalog.list_partitions("default.h", limit=1, after=names[-1] if names else None):
        names += [partition.name for partition in page]
    assert names == everything
    assert "h=010" in names


@pytest.mark.every_database
def test_pages_follow_each_other_without_gap_or_double(catalog: Catalog) -> None:
    catalog.create_table(TableDefinition("default", "p", ID, (Column("ds", "string"), Column("h", "int"))))
    catalog.add_partitions("default.p", [(ds, str(h)) for ds in ("A", "a", "Ä-b", "a b") for h in range(6)])
    for condition, expected in ((None, 24), (Compare("h", ">", 2), 12), ({"h": ["1", "2"]}, 8)):
        names: list[str] = []
        while page := catalog.list_partitions("default.p", condition, limit=5, after=names[-1] if names else None):
            assert len(page) <= 5
            names += [partition.name for partition in page]
        assert len(names) == len(set(names)) == expected
        assert names == [p.name for p in catalog.list_partitions("default.p", condition)]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (Compare("id", "=", 1), "'id' is no partition column of default.h; those are h"),
        (Compare("h", "LIKE", 1), "'LIKE' is no comparison of h; use one of = <> < <= > >="),
        (Compare("h", "=", "1; DROP"), "partition column h is int; '1; DROP' does not compare with it"),
        (Compare("h", "=", 2**63), "give a whole number of 64 bits"),
        (Compare("h", "=", None), "nothing compares with NULL; ask for IsNull"),
        (Compare("h", "=", "1" * 5000), "at most 4000 characters"),
        (In("h", list(range(10_001))), "IN of 10001 values of h; at most 10000"),
        (And([object()]), "is no condition on partitions"),  # type: ignore[list-item]
    ],
)  # fmt: skip
def test_a_condition_that_is_none_is_refused_with_the_remedy(catalog: Catalog, condition: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        catalog.list_partitions("default.h", condition)


def test_conditions_with_as_many_values_and_terms_as_may_be_are_answered(client: MetastoreClient) -> None:
    """Each database bounds the depth of an expression or the number of its parameters in a way of its own."""
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_table(TableDefinition("default", "c", ID, (Column("c", "string"),)))
    client.catalog.add_partitions("default.c", [("1",), ("2",), ("z",)])
    values = [str(n) for n in range(2, 2000)]
    assert found(client.catalog, In("c", values), "default.c") == {"2"}
    assert found(client.catalog, Or([Compare("c", "=", one) for one in values[:MAX_PARTS]]), "default.c") == {"2"}
    assert found(client.catalog, And([Compare("c", "<>", one) for one in values[:MAX_PARTS]]), "default.c") == {
        "1",
        "z",
    }


def test_limits_and_depths_have_bounds(catalog: Catalog) -> None:
    deep: Any = Compare("h", "=", 1)
    for _ in range(60):
        deep = Or([deep])
    with pytest.raises(InvalidArgumentsError, match="nested more than 50 levels"):
        catalog.list_partitions("default.h", deep)
    with pytest.raises(InvalidArgumentsError, match="a page of 0 partitions"):
        catalog.list_partitions("default.h", limit=0)
    with pytest.raises(InvalidArgumentsError, match="is no partition of"):
        catalog.list_partitions("default.h", after="ds=1")


@pytest.mark.every_database
def test_of_very_many_partitions_only_those_asked_for_are_read(client: MetastoreClient, catalog: Catalog) -> None:
    """5,000 partitions: a filter for 25 of them reads 25 rows."""
    catalog.create_table(TableDefinition("default", "p", ID, (Column("ds", "string"), Column("h", "int"))))
    catalog.add_partitions("default.p", [("first", "0")])
    total = 5_000
    table_id = catalog.get_table("default.p").id
    with client.database.transaction() as connection:
        low = connection.execute(sa.select(sa.func.max(PARTITIONS.c.PART_ID))).scalar_one() + 1000
        storage = connection.execute(
            sa.select(SDS).join(PARTITIONS, PARTITIONS.c.SD_ID == SDS.c.SD_ID).where(PARTITIONS.c.TBL_ID == table_id)
        ).mappings().one()  # fmt: skip
        rows = [(low + i, f"d{i % 200:03}", str(i // 200)) for i in range(total)]
        connection.execute(sa.insert(PARTITIONS), [
            {"PART_ID": i, "CREATE_TIME": 0, "LAST_ACCESS_TIME": 0, "PART_NAME": f"ds={ds}/h={h}",
             "SD_ID": storage["SD_ID"], "TBL_ID": table_id, "WRITE_ID": 0} for i, ds, h in rows
        ])  # fmt: skip
        connection.execute(sa.insert(PARTITION_KEY_VALS), [
            {"PART_ID": i, "PART_KEY_VAL": value, "INTEGER_IDX": index}
            for i, *values in rows for index, value in enumerate(values)
        ])  # fmt: skip
    if client.database.backend.name == "postgresql":
        # A server that looked at the tables while these rows were being written takes them for empty, for a minute.
        with client.database.transaction() as connection:
            connection.execute(sa.text("ANALYZE"))
    fetched: list[int] = []
    sa.event.listen(client.database.engine, "before_cursor_execute", lambda *_: fetched.append(1))
    assert len(catalog.list_partitions("default.p", Compare("ds", "=", "d007"))) == 25
    assert len(catalog.list_partitions("default.p", Compare("h", "<", 2), limit=50)) == 50
    page = catalog.list_partitions("default.p", limit=3, after="ds=d100/h=7")
    assert [p.name for p in page] == ["ds=d100/h=8", "ds=d100/h=9", "ds=d101/h=0"]
    assert len(fetched) < 30


# --- among very many --------------------------------------------------------------------------------------------------

TEXTS = [None, "a", "a0", "a:b", "a/b", "aB", "a b", "ab", "a=b", "a%3Ab", "b", "ä", "1"]


@pytest.mark.every_database
def test_ranges_of_names_leave_nothing_out(client: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values with signs that stand in names as escapes, which sort elsewhere."""
    client.catalog.set_warehouse("file:/warehouse")
    keys = (Column("k", "string"), Column("l", "string"))
    client.catalog.create_table(TableDefinition("default", "two", ID, keys))
    client.catalog.add_partitions("default.two", [(one, other) for one in TEXTS for other in TEXTS])
    texts = [text for text in TEXTS if text is not None]
    conditions: list[Any] = [Compare("k", "=", one) & Compare("l", "=", "a:b") for one in texts]
    conditions += [Between("k", one, other) for one in texts for other in texts if one < other]
    conditions += [Compare("k", ">", "a") & Compare("k", "<=", "a:b"), In("k", texts), In("k", texts[:3])]
    conditions += [{"k": one} for one in TEXTS] + [{"k": ["a", None], "l": "a:b"}, {"l": "a"}]
    with_ranges = [client.catalog.list_partitions("default.two", each) for each in conditions]
    monkeypatch.setattr(client.database.backend, "by_bytes", lambda name: None)
    assert [client.catalog.list_partitions("default.two", each) for each in conditions] == with_ranges
    assert any(with_ranges)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize(
    "condition",
    [
        Compare("day", "=", "d005"),
        Compare("day", "=", "d005") & Compare("hour", "=", 7),
        Between("day", "d005", "d006"),
        {"day": "d005"},
        {"day": ["d005", "d006"], "hour": "7"},
    ],
)
def test_partitions_of_a_day_are_found_without_reading_the_others(
    client: MetastoreClient, sqlite_steps: Callable[[Callable[[], Any]], int], condition: Any
) -> None:
    client.catalog.set_warehouse("file:/warehouse")
    keys = (Column("day", "string"), Column("hour", "int"))
    client.catalog.create_table(TableDefinition("default", "many", ID, keys))

    def add(first: int, last: int) -> None:
        client.catalog.add_partitions("default.many", [(f"d{n // 10:03}", str(n % 10)) for n in range(first, last)])

    add(0, 100)
    few = sqlite_steps(lambda: client.catalog.list_partitions("default.many", condition))
    add(100, 1000)
    assert sqlite_steps(lambda: client.catalog.list_partitions("default.many", condition)) < 2 * few
    assert client.catalog.list_partitions("default.many", condition)


@pytest.mark.backends("postgresql")
def test_the_server_finds_a_range_of_names_in_an_index_whatever_its_collation(client: MetastoreClient) -> None:
    client.catalog.set_warehouse("file:/warehouse")
    keys = (Column("day", "string"), Column("hour", "int"))
    client.catalog.create_table(TableDefinition("default", "many", ID, keys))
    client.catalog.add_partitions("default.many", [(f"d{n:04}", "0") for n in range(1000)])
    asked: list[tuple[str, Any]] = []
    sa.event.listen(
        client.database.engine,
        "before_cursor_execute",
        lambda connection, cursor, statement, parameters, *_: asked.append((statement, parameters)),
    )
    for condition in (Compare("day", "=", "d0051"), Between("day", "d0051", "d0052"), {"day": ["d0051", "d0900"]}):
        asked.clear()
        assert client.catalog.list_partitions("default.many", condition)
        (reads,) = [one for one in asked if "PARTITION_KEY_VALS" in one[0]]
        with client.database.reading() as connection:
            connection.exec_driver_sql("ANALYZE")
            # Of two thousand values it would rather read all than look at an index.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            plan = "\n".join(connection.exec_driver_sql("EXPLAIN " + reads[0], reads[1]).scalars())
        assert "HIVE_ACID_PARTITION_NAME" in plan, plan


@pytest.mark.backends("postgresql")
def test_the_server_looks_values_up_by_their_partition_when_it_takes_full_tables_for_empty_ones(
    client: MetastoreClient,
) -> None:
    """It was told so by an ANALYZE that came before the COMMIT of many partitions; all plans cost the same then."""
    client.catalog.set_warehouse("file:/warehouse")
    keys = (Column("day", "string"), Column("hour", "int"))
    table = client.catalog.create_table(TableDefinition("default", "many", ID, keys))
    with client.database.transaction() as connection:
        add_partitions(connection, table, [f"day=d{n // 10:03}/hour={n % 10}" for n in range(2000)])
        with client.database.transaction() as other:
            other.execute(sa.text("ANALYZE"))
    asked: list[tuple[str, Any]] = []
    sa.event.listen(
        client.database.engine,
        "before_cursor_execute",
        lambda connection, cursor, statement, parameters, *_: asked.append((statement, parameters)),
    )
    for condition in (Compare("day", "=", "d005") & Compare("hour", "=", 7), Compare("hour", "<", 1), {"hour": "5"}):
        asked.clear()
        assert client.catalog.list_partitions("default.many", condition)
        (reads,) = [one for one in asked if "PARTITION_KEY_VALS" in one[0]]
        with client.database.reading() as connection:
            plan = connection.exec_driver_sql("EXPLAIN " + reads[0], reads[1]).scalars().all()
        looks = [plan[i + 1] for i, line in enumerate(plan) if ' on "PARTITION_KEY_VALS"' in line]
        assert looks
        assert all("Index Cond" in look and '"PART_ID" =' in look for look in looks), plan


@pytest.mark.backends("mariadb", "mysql")
@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_unicode_ci"])
def test_names_that_are_sorted_otherwise_are_all_found(
    client: MetastoreClient, metastore_url: str, collation: str
) -> None:
    """Hive's script makes the column latin1; whoever has values of other letters gives it another collation."""
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_table(TableDefinition("default", "u", ID, (Column("k", "string"), Column("l", "string"))))
    client.catalog.add_partitions("default.u", [("x9", "a"), ("x9:", "b"), ("xz", "c"), ("xz~", "d")])
    assert client.database.backend.sorts_by_bytes
    with client.database.transaction() as connection:
        connection.execute(sa.text("SET FOREIGN_KEY_CHECKS = 0"))
        changed = f"CHANGE PART_NAME PART_NAME varchar(700) CHARACTER SET utf8mb4 COLLATE {collation}"
        connection.execute(sa.text(f"ALTER TABLE PARTITIONS {changed}"))
        connection.execute(sa.text("SET FOREIGN_KEY_CHECKS = 1"))
    with type(client)(metastore_url) as later:
        for condition, expected in (
            (Compare("k", "=", "x9:"), {"b"}), (Between("k", "x9", "x9z"), {"a", "b"}), ({"k": "xz"}, {"c"}),
            (Between("k", "xz", "xz~"), {"c", "d"}),
        ):  # fmt: skip
            assert found(later.catalog, condition, "default.u") == expected
