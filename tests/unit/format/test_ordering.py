"""ORDER BY of a rebalance: whoever writes it, it is a list of columns or an error, never text that runs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.format.ordering import OrderTerm, order_text, read_order
from tests.examples import examples

NOT_COLUMNS = (
    "",
    "ORDER BY",
    "a,",
    ",a",
    "1",
    "a b",
    "a ASC DESC",
    "a NULLS",
    "a NULLS MIDDLE",
    "a.b",
    "a + 1",
    "-a",
    "a -- ",
    "a /* x */",
    "a) --",
    "a; DROP TABLE w.t",
    "a LIMIT 1",
    "lower(a)",
    "rand()",
    "java_method('java.lang.System', 'getenv', 'SECRET')",
    "raise_error(java_method('java.lang.System', 'getenv', 'SECRET'))",
    "(SELECT max(value) FROM text.`file:/etc/passwd`)",
    "IDENTIFIER('a')",
    "`a",
    "``",
    "'a'",
    '"a"',
    "a\0b",
    "ORDER BY ORDER BY a",
    "CASE WHEN a THEN b END",
    "a DESC NULLS LAST NULLS FIRST",
    "${hiveconf:x}",
    ":a",
    "a" * 5000,
)
_names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
_terms = st.lists(
    st.builds(OrderTerm, _names, st.sampled_from([None, True, False]), st.sampled_from([None, True, False])),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("text", NOT_COLUMNS)
def test_what_is_no_list_of_columns_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="ORDER BY of a rebalance"):
        read_order(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a", "ORDER BY a"),
        (" order\n by A desc , `b``c d` asc nulls  last", "ORDER BY A DESC, `b``c d` ASC NULLS LAST"),
        ("ORDER BY é NULLS FIRST", "ORDER BY `é` NULLS FIRST"),
        ("`order by`", "ORDER BY `order by`"),
        ("`1`", "ORDER BY `1`"),
    ],
)
def test_columns_and_their_directions_are_kept_as_the_queue_holds_them(text: str, kept: str) -> None:
    assert order_text(read_order(text)) == kept
    assert order_text(read_order(kept)) == kept


@given(_terms)
@settings(deadline=None)
def test_what_is_written_is_read_again(terms: list[OrderTerm]) -> None:
    assert list(read_order(order_text(terms))) == terms


@given(st.text(max_size=60))
@settings(max_examples=examples(300), deadline=None)
def test_any_text_is_columns_or_an_error_of_ours(text: str) -> None:
    try:
        terms = read_order(text, ["a", "b"])
    except HiveAcidError:
        return
    assert {term.column.lower() for term in terms} <= {"a", "b"}


def test_a_column_must_be_one_of_the_table() -> None:
    with pytest.raises(InvalidArgumentsError, match="names 'c', which is no column of the table; it has a, b"):
        read_order("a, c", ["b", "A"])
    assert read_order("B, a DESC", ["b", "A"]) == (OrderTerm("B"), OrderTerm("a", ascending=False))


def test_what_is_wrong_with_an_order_is_said_with_its_beginning() -> None:
    with pytest.raises(InvalidArgumentsError) as none:
        read_order("ORDER BY a,  " + "(" * 70)
    assert str(none.value) == (
        "ORDER BY of a rebalance is a list of columns, each with ASC or DESC and NULLS FIRST or NULLS LAST; "
        f"this is none: {'(' * 58!r}"
    )
    with pytest.raises(InvalidArgumentsError) as long:
        read_order("a" * 4001)
    assert str(long.value) == "ORDER BY of a rebalance has 4001 characters; at most 4000 are kept"
    assert read_order("a" * 4000) == (OrderTerm("a" * 4000),)
    with pytest.raises(InvalidArgumentsError) as unknown:
        read_order("z", ["b", "A"])
    assert str(unknown.value) == "ORDER BY of a rebalance names 'z', which is no column of the table; it has a, b"
    with pytest.raises(InvalidArgumentsError) as many:
        read_order("z", ["a" * 400, "b" * 400])
    assert str(many.value).endswith(f"it has {'a' * 400}, {'b' * 98}")
