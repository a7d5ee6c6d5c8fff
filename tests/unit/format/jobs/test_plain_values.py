"""Dataclasses out of JSON's plain values: each message names the place, and what was found there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest

from airflow_hive_acid.format.jobs.plain_values import build, shown


@dataclass(frozen=True)
class Left:
    kind: ClassVar[str] = "left"
    number: int


@dataclass(frozen=True)
class Right:
    kind: ClassVar[str] = "right"
    text: str = ""


@dataclass(frozen=True)
class Document:
    side: Left | Right
    choice: Literal["a", "b"] = "a"
    maybe: int | None = None
    share: float = 0.0
    anything: Any = None
    numbers: tuple[int, ...] = ()
    pairs: tuple[tuple[str, int], ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)


LEFT = {"kind": "left", "number": 1}


def test_every_kind_of_field_is_rebuilt() -> None:
    value = {
        "side": {"kind": "right", "text": "x"}, "choice": "b", "maybe": 7, "share": 2, "anything": [1, {"k": None}],
        "numbers": [1, 2], "pairs": [["a", 1], ["b", 2]], "sizes": {"k": 3},
    }  # fmt: skip
    built = build(Document, value, "D")
    assert built == Document(Right("x"), "b", 7, 2.0, [1, {"k": None}], (1, 2), (("a", 1), ("b", 2)), {"k": 3})
    assert type(built.share) is float
    assert build(Document, {"side": LEFT, "maybe": None}, "D") == Document(Left(1))
    assert value["side"] == {"kind": "right", "text": "x"}, "what was given stays as it is"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"side": 7}, "D.side must be an object, not 7"),
        ({"side": {"kind": "up"}}, "D.side: unknown side 'up'"),
        ({"side": {}}, "D.side: unknown side None"),
        ({"side": {"kind": "left", "number": "1"}}, "D.side.left.number must be int, not '1'"),
        ({"choice": "c"}, "D.choice must be one of ('a', 'b'), not 'c'"),
        ({"choice": 1}, "D.choice must be one of ('a', 'b'), not 1"),
        ({"maybe": True}, "D.maybe must be int, not True"),
        ({"maybe": 2**63}, "D.maybe must be int, not a number of more than 64 bits"),
        ({"maybe": -(2**63)}, "D.maybe must be int, not a number of more than 64 bits"),
        ({"share": "x"}, "D.share must be float, not 'x'"),
        ({"share": 2**63 - 1}, f"D.share must be float, not {2**63 - 1}"),
        ({"numbers": {}}, "D.numbers must be a list, not a object of 0"),
        ({"numbers": [1, "x"]}, "D.numbers[1] must be int, not 'x'"),
        ({"pairs": [["a", 1], ["b"]]}, "D.pairs[1] must be a list of 2, not of 1"),
        ({"pairs": [["a", "b"]]}, "D.pairs[0][1] must be int, not 'b'"),
        ({"sizes": [1, 2]}, "D.sizes must be an object, not a list of 2"),
        ({"sizes": {"k": "x"}}, "D.sizes.k must be int, not 'x'"),
        ({"sizes": {"k" * 101: "x"}}, f"D.sizes.{'k' * 100} must be int, not 'x'"),
        ({"z": 1, "y": 2}, "D has unknown fields ['y', 'z']"),
        (dict.fromkeys("uvwxyz", 0), "D has unknown fields ['u', 'v', 'w', 'x', 'y']"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"^D") as refused:
        build(Document, {"side": LEFT, **more}, "D")
    assert str(refused.value) == message


def test_a_field_that_is_missing_and_a_value_that_is_no_object_are_told() -> None:
    with pytest.raises(ValueError, match=r"^D: .*missing 1 required positional argument: 'side'"):
        build(Document, {}, "D")
    with pytest.raises(ValueError, match=r"^D must be an object, not 'x'$"):
        build(Document, "x", "D")


def test_the_largest_numbers_of_64_bits_are_numbers() -> None:
    largest = 2**63 - 1
    assert build(int, largest, "n") == largest
    assert build(int, -largest, "n") == -largest
    assert build(float, largest - 1, "n") == float(largest - 1)


def test_a_value_is_shown_short_and_in_plain_letters() -> None:
    assert shown([1, 2, 3]) == "a list of 3"
    assert shown({"a": 1}) == "a object of 1"
    assert shown(2**63) == "a number of more than 64 bits"
    assert shown(2**63 - 1) == str(2**63 - 1)
    assert shown("é") == "'\\xe9'"
    assert shown("x" * 100) == repr("x" * 100)
    assert shown("x" * 101) == repr("x" * 100)
    assert shown(None) == "None"


def test_an_unknown_kind_is_told_by_the_last_name_of_its_place() -> None:
    with pytest.raises(ValueError, match="unknown") as refused:
        build(Left | Right, {"kind": "up"}, "JobSpec.step.side")
    assert str(refused.value) == "JobSpec.step.side: unknown side 'up'"
