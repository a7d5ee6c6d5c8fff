"""Policies: what they select, and what is refused with which words."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.replication.policies.policy import (
    Pattern,
    _matches,
    _meet,
    named,
    policies,
    policy,
    read_policies,
    read_policy_file,
)

if TYPE_CHECKING:
    from pathlib import Path

SALES = {"name": "sales", "source": "berlin", "destination": "madrid", "databases": ["sales"]}
PEOPLE = {"name": "people", "source": "madrid", "destination": "berlin", "tables": ["hr.people"]}
ROME = {**SALES, "name": "b", "source": "rome"}


def with_(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {k: v for k, v in {**document, **changes}.items() if v is not ...}


def test_a_policy_says_what_goes_where_under_which_name() -> None:
    one = policy(
        with_(SALES, tables=["shop_*.Orders"], exclude=["sales.tmp_*"], rename={"sales": "copy"}, schedule="@daily")
    )
    chosen = ["sales.orders", "sales.tmp_1", "shop_1.orders", "shop_1.others", "hr.people"]
    assert [t for t in chosen if one.selects(table_name(t))] == ["sales.orders", "shop_1.orders"]
    assert one.target(table_name("sales.orders")) == table_name("copy.orders")
    assert one.target(table_name("shop_1.orders")) == table_name("shop_1.orders")
    assert (one.bootstrap, one.schedule, one.event_store) == (True, "@daily", None)


def test_a_database_is_dropped_as_a_whole_only_by_the_policy_of_all_its_tables() -> None:
    assert policy(SALES).owns("sales")
    assert not policy(SALES).owns("hr")
    assert not policy(with_(SALES, exclude=["sales.tmp_*"])).owns("sales")
    partly = policy(with_(SALES, databases=[], tables=["sales.a*"]))
    assert partly.touches("sales")
    assert not partly.owns("sales")


def test_a_policy_survives_the_way_through_its_document() -> None:
    one = policy(with_(SALES, exclude=["sales.a"], rename={"sales": "b"}, bootstrap=False, event_store="s3://b/events"))
    assert policy(one.to_document()) == one


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("sales", "must be a table of fields"),
        (with_(SALES, name=...), "name None: .* named by at most 64 letters"),
        (with_(SALES, name="../x"), r"name '\.\./x'"),
        (with_(SALES, name="x" * 65), "at most 64"),
        (with_(SALES, source=...), "policy 'sales': source is missing; name a connection"),
        (with_(SALES, destination=7), "destination must be text that is not empty, not 7"),
        (with_(SALES, databases=[]), r"tables names nothing: give databases \['sales'\]"),
        (with_(SALES, databases=["a.b"]), "databases has 'a.b': .* tables stand under tables"),
        (with_(SALES, tables=["orders"]), "tables has 'orders': write database.table"),
        (with_(SALES, tables=["a.b/../c"]), "tables has 'a.b/../c'"),
        (with_(SALES, tables=[1]), r"tables must be a list of names, not \[1\]"),
        (with_(SALES, exclude={"a": 1}), "exclude must be a list of names"),
        (with_(SALES, rename={"hr": "x"}), "rename names database 'hr', of which nothing is replicated"),
        (with_(SALES, rename={"sales": "a.b"}), "rename: "),
        (with_(SALES, rename=["sales"]), "rename must give the destination's name of databases"),
        (with_(SALES, databases=["a", "b"], rename={"a": "x", "b": "x"}), "rename gives two databases one name"),
        (with_(SALES, bootstrap="yes"), "bootstrap must be true or false, not 'yes'"),
        (with_(SALES, privileges="all"), "privileges must be one of none, follow, mirror, not 'all'"),
        (with_(SALES, bootstap=True), "unknown field 'bootstap'; did you mean 'bootstrap'"),
        (with_(SALES, destination="berlin"), "destination is the source, and tables would be written onto themselves"),
    ],
)
def test_what_is_wrong_is_named_with_its_field_and_the_remedy(document: Any, says: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=says):
        policy(document)


def test_within_one_metastore_a_policy_needs_other_names() -> None:
    inside = policy(with_(SALES, destination="berlin", rename={"sales": "sales_copy"}))
    assert inside.target(table_name("sales.a")) == table_name("sales_copy.a")
    with pytest.raises(InvalidArgumentsError, match="onto themselves"):
        policy(with_(SALES, destination="berlin", databases=["sales*"], rename={"sales": "sales_copy"}))


def test_tables_may_go_in_different_directions() -> None:
    both = policies([SALES, PEOPLE])
    assert [(p.source, p.destination) for p in both] == [("berlin", "madrid"), ("madrid", "berlin")]


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (SALES, with_(PEOPLE, name="Sales"), "two replication policies are named 'Sales'"),
        (SALES, with_(PEOPLE, destination="madrid", source="rome", tables=["sales.orders"]),
         "'sales' and 'people' both write sales.orders at madrid; a table is written by one policy"),
        (with_(SALES, databases=["s*"]), with_(ROME, databases=["*s"]), "both write"),
        (with_(SALES, rename={"sales": "copy"}), with_(ROME, databases=["copy"]),
         r"both write copy\.\* at madrid"),
        (with_(SALES, exclude=["sales.a*"]),
         with_(ROME, databases=[], tables=["sales.b"]), r"both write sales\.b"),
        (SALES, with_(PEOPLE, tables=["sales.orders"]), "sales -> people -> sales send tables round in a circle"),
    ],
)  # fmt: skip
def test_policies_that_cannot_be_in_force_together_are_refused(
    first: dict[str, Any], second: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidArgumentsError, match=says):
        policies([first, second])


@pytest.mark.parametrize(
    "documents",
    [
        [SALES, with_(ROME, databases=["sales"], destination="oslo")],
        [with_(SALES, exclude=["sales.orders"]), with_(ROME, databases=[], tables=["sales.orders"])],
        [with_(SALES, exclude=["sales.o*"]), with_(ROME, databases=[], tables=["sales.ord*"])],
        [with_(SALES, rename={"sales": "one"}), with_(ROME, rename={"sales": "two"})],
        # A chain is no circle.
        [SALES, with_(SALES, name="b", source="madrid", destination="oslo")],
        # A wide pattern of which one database goes elsewhere.
        [with_(SALES, databases=["*"], rename={"sales": "copy"}, exclude=["copy.*"]),
         ROME],
    ],
)  # fmt: skip
def test_policies_that_do_not_meet_are_fine_together(documents: list[dict[str, Any]]) -> None:
    assert len(policies(documents)) == 2


def test_policies_are_read_from_json_and_from_toml(tmp_path: Path) -> None:
    toml = '[[policy]]\nname = "sales"\nsource = "berlin"\ndestination = "madrid"\ndatabases = ["sales"]\n'
    file = tmp_path / "policies.toml"
    file.write_text(toml)
    assert read_policy_file(file) == policies([SALES])
    json = '[{"name": "sales", "source": "berlin", "destination": "madrid", "databases": ["sales"]}]'
    assert read_policies(json, "x") == read_policies(f'{{"policy": {json}}}', "x") == policies([SALES])
    assert named(policies([SALES]), "sales").name == "sales"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[{", "here: neither JSON nor TOML"),
        ("[" * 100_000, "here: neither JSON nor TOML"),
        ("a = " + "[" * 100_000, "here: neither JSON nor TOML"),
        ('{"policies": []}', r"here: policies are a list, or stand under \[\[policy\]\]; found policies"),
        ('[{"name": "x", "source": 1}]', "here: replication policy 'x': tables names nothing"),
        ("[7]", "here: a replication policy must be a table of fields"),
    ],
)
def test_an_unreadable_text_names_its_place(text: str, says: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=says):
        read_policies(text, "here")


def test_a_file_that_is_not_there_and_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentsError, match="cannot be read"):
        read_policy_file(tmp_path / "none.toml")
    with pytest.raises(InvalidArgumentsError, match="did you mean 'sales'"):
        named(policies([SALES]), "sale")


WORDS = ["".join(letters) for n in range(5) for letters in itertools.product("ab", repeat=n)]
PATTERNS = st.text("ab*", max_size=4)


@given(PATTERNS, PATTERNS)
def test_two_patterns_meet_when_a_name_matches_both(one: str, other: str) -> None:
    """Two patterns of at most four characters that meet at all meet in a word of at most eight; four are enough to
    refute a "no"."""
    texts = [
        [w for w in WORDS if re.fullmatch(p.replace("*", ".*"), w)]
        for p in (one, other)
    ]  # fmt: skip
    assert all(_matches(one, w) for w in texts[0])
    assert not any(_matches(one, w) for w in set(WORDS) - set(texts[0]))
    if set(texts[0]) & set(texts[1]):
        assert _meet(one, other)
    if not ("*" in one and "*" in other):
        literal, pattern = (one, other) if "*" not in one else (other, one)
        assert _meet(one, other) == _matches(pattern, literal)


@given(PATTERNS, PATTERNS)
def test_what_a_pattern_covers_matches_it(one: str, other: str) -> None:
    wide, narrow = Pattern("d", one or "*"), Pattern("d", other or "*")
    if wide.covers(narrow):
        found = [w for w in WORDS if w and narrow.matches(table_name(f"d.{w}"))]
        assert all(wide.matches(table_name(f"d.{w}")) for w in found)
