"""Which partitions of a table a transaction asks the catalog for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlglot

from airflow_hive_acid.engine.tables.partitions import KnownPartitions, condition_of
from airflow_hive_acid.format.jobs import Column, PartitionRef
from airflow_hive_acid.metastore.catalog.values.model import MANAGED_TABLE, Partition, Table
from airflow_hive_acid.metastore.catalog.values.partition_conditions import And, Compare, In, Or
from airflow_hive_acid.sql.model.pruning import KEEP_ALL, PartitionFilter, partition_filter
from tests.tables import flat_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COLUMNS = (("k", "string"), ("n", "int"))


def table_of(*columns: tuple[str, str]) -> Table:
    keys = tuple(Column(name, kind) for name, kind in columns)
    return flat_table("db", "t", 1, "file:/w/t", (Column("a", "int"),), keys, {}, None, MANAGED_TABLE)


class Catalog:
    """Two hundred partitions; notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.partitions = {
            f"k={k}/n={n}": Partition(f"k={k}/n={n}", (k, str(n)), f"file:/w/t/k={k}/n={n}")
            for k in ("a", "b")
            for n in range(100)
        }

    def list_partitions(
        self, name: str, filter: Any = None, *, keeps: Callable[[Sequence[str]], bool] | None = None
    ) -> list[Partition]:
        self.asked.append(filter)
        return [p for p in self.partitions.values() if keeps is None or keeps(p.values)]

    def find_partitions(self, name: str, names: list[str]) -> dict[str, Partition]:
        self.asked.append(list(names))
        return {name: self.partitions[name] for name in names if name in self.partitions}


def where(text: str) -> PartitionFilter:
    return partition_filter(COLUMNS, sqlglot.parse_one(text, dialect="spark"), lambda column: True)


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture
def known(catalog: Catalog) -> KnownPartitions:
    return KnownPartitions(catalog, table_of(*COLUMNS))  # type: ignore[arg-type]


def test_a_read_asks_for_what_its_condition_leaves(known: KnownPartitions, catalog: Catalog) -> None:
    found = known.matching(where("k = 'a' AND n < 2"))
    assert [ref.name for ref in found] == ["k=a/n=0", "k=a/n=1"]
    assert catalog.asked == [Compare("k", "=", "a")]


def test_a_write_asks_for_the_names_it_touched_and_once(known: KnownPartitions, catalog: Catalog) -> None:
    known.look_up(["k=a/n=1", "k=z/n=1"])
    known.look_up(["k=z/n=1", "k=a/n=1", "k=b/n=2"])
    assert catalog.asked == [["k=a/n=1", "k=z/n=1"], ["k=b/n=2"]]
    assert known["k=a/n=1"].location == "file:/w/t/k=a/n=1"
    assert "k=z/n=1" not in known
    assert len(catalog.asked) == 2


def test_what_the_transaction_made_is_there_for_its_next_statement(known: KnownPartitions, catalog: Catalog) -> None:
    made = PartitionRef("k=z/n=1", "file:/w/t/k=z/n=1", ("z", "1"))
    assert made.name not in known
    known.made(made)
    assert known[made.name] == made
    assert known.matching(where("k = 'z'")) == [made]
    assert made not in known.matching(where("k = 'a'"))
    assert len(known) == 201


def test_a_table_without_partitions_asks_for_none(catalog: Catalog) -> None:
    known = KnownPartitions(catalog, table_of())  # type: ignore[arg-type]
    known.look_up([""])
    assert (known.matching(KEEP_ALL), len(known), "" in known, catalog.asked) == ([], 0, False, [])


def test_what_is_too_much_for_one_statement_to_the_catalog_is_judged_here() -> None:
    found = condition_of(where(" AND ".join(f"k <> 'z' AND k > '{n}'" for n in range(2000))))
    assert isinstance(found, And)
    assert found.conditions == [Compare("k", ">", str(n)) for n in range(200)]  # a part of them keeps more
    assert condition_of(where(" OR ".join(f"k > '{n}'" for n in range(2000)))) is None
    assert condition_of(where(" OR ".join(f"k = '{n}'" for n in range(1000)))) == In("k", [str(n) for n in range(1000)])
    assert condition_of(where(" OR ".join(f"k = '{n}'" for n in range(1001)))) is None
    several = tuple(alternative for n in range(201) for alternative in where(f"k > '{n}'").alternatives)
    assert condition_of(PartitionFilter((("k", "string"),), several[:200])) is not None
    assert condition_of(PartitionFilter((("k", "string"),), several)) is None


@pytest.mark.parametrize(
    ("condition", "decided"),
    [
        ("k = 'a'", Compare("k", "=", "a")),
        ("'a' < k", Compare("k", ">", "a")),
        (r"k IN ('a', 'it\'s')", In("k", ["a", "it's"])),
        ("(k >= 'a') AND n = 3", Compare("k", ">=", "a")),
        ("k > 'a' AND k < 'c'", And([Compare("k", ">", "a"), Compare("k", "<", "c")])),
        ("k = 'a' OR k = 'b'", In("k", ["a", "b"])),
        ("k = 'a' OR (k > 'b')", Or([Compare("k", "=", "a"), Compare("k", ">", "b")])),
        ("k = 'a' OR n = 3", None),
        ("n = 3", None),
        ("NOT k = 'a'", None),
        ("k <> 'a'", None),
        ("k LIKE 'a%'", None),
        ("k = ''", None),
        ("k = 3", None),
        ("k NOT IN ('a')", None),
        ("upper(k) = 'A'", None),
        ("k IS NULL", None),
    ],
)
def test_the_catalog_decides_what_it_decides_surely(condition: str, decided: Any) -> None:
    """What it is not asked is judged while the rows are read."""
    assert condition_of(where(condition)) == decided


def test_several_reads_of_one_table_ask_for_all_of_them() -> None:
    both = where("k = 'a'").either(where("k = 'b' AND n = 1"))
    assert condition_of(both) == Or([Compare("k", "=", "a"), Compare("k", "=", "b")])
    assert condition_of(where("k = 'a'").either(where("n = 1"))) is None
    assert condition_of(KEEP_ALL) is None
