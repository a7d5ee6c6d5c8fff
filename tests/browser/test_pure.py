"""The page's pure functions, called in the browser from the very modules that the page loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

    from tests.browser.conftest import World

HOUR = 3_600_000
NOTHING = "\u2013"


@pytest.fixture(scope="module")
def call(world: World, browser: Browser) -> Iterator[Callable[..., Any]]:
    """Call an exported function of a module with JSON values."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{world.airflow.url}/hive-acid/static/icon.svg")
        script = "async ([module, name, values]) => (await import(`/hive-acid/static/${module}.js`))[name](...values)"
        yield lambda module, name, *values: page.evaluate(script, [module, name, list(values)])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1024, "1.0 KB"), (1_048_575, "1.0 MB"), (36_000_000, "34 MB"),
     (None, NOTHING), (-2048, "-2.0 KB")],
)  # fmt: skip
def test_bytes_have_units(call: Callable[..., Any], value: float | None, text: str) -> None:
    assert call("format", "bytes", value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.44, "0.4 s"), (9.96, "10 s"), (59.4, "59 s"), (60, "1 min"), (200, "3 min 20 s"),
        (7500, "2 h 5 min"), (273_600, "3 d 4 h"), (None, NOTHING),
    ],
)  # fmt: skip
def test_durations_have_their_two_largest_units(call: Callable[..., Any], seconds: float | None, text: str) -> None:
    assert call("format", "duration", seconds) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0, "1 h ago"),
        (HOUR - 500, "just now"),
        (HOUR - 12_000, "12 s ago"),
        (HOUR + 180_000, "in 3 min"),
        (None, NOTHING),
    ],
)
def test_times_are_relative_to_the_metastores_clock(call: Callable[..., Any], time: int | None, text: str) -> None:
    assert call("format", "relative", time, HOUR) == text


def test_absolute_times_are_utc(call: Callable[..., Any]) -> None:
    assert call("format", "absolute", 1_795_338_329_000) == "2026-11-22 09:05:29 UTC"
    assert call("format", "absolute", "2026-11-22T09:05:29+01:00") == "2026-11-22 08:05:29 UTC"
    assert call("format", "absolute", "no time") == ""


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.004, "0.4%"), (0.0996, "10%"), (0.5, "50%"), (1, "100%"), (None, NOTHING)]
)
def test_shares_are_percentages(call: Callable[..., Any], share: float | None, text: str) -> None:
    assert call("format", "percent", share) == text


def test_long_names_are_shortened_in_the_middle_and_never_within_a_character(call: Callable[..., Any]) -> None:
    assert call("format", "shorten", "abcdefghij", 5) == "ab…ij"
    assert call("format", "shorten", "short", 5) == "short"
    assert call("format", "shorten", "🐝" * 9, 4) == "🐝🐝…🐝"


def test_rows_that_did_not_change_stay_the_same_objects(world: World, browser: Browser) -> None:
    """So React does not draw them anew, wherever in the list they are now."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{world.airflow.url}/hive-acid/static/icon.svg")
        same = page.evaluate("""async () => {
            const { merged } = await import("/hive-acid/static/state.js");
            const old = { now: 1, items: [{ txn_id: 1, task: { dag_id: "d" } }, { txn_id: 2, state: "open" }] };
            const next = merged(old, {
                now: 2, items: [{ txn_id: 3 }, { txn_id: 2, state: "aborted" }, { txn_id: 1, task: { dag_id: "d" } }],
            });
            return [next.items[2] === old.items[0], next.items[1] === old.items[1], next.items[1].state,
                    merged(old, structuredClone(old)) === old, next.items.length];
        }""")
    assert same == [True, False, "aborted", True, 3]


def test_what_is_shown_stays_while_newer_data_is_asked_for_and_under_an_error(call: Callable[..., Any]) -> None:
    shown = {"data": {"items": [1]}, "error": None, "loading": False, "at": 5}
    assert call("state", "afterFetch", shown, {"type": "asked"})["data"] == {"items": [1]}
    failed = call("state", "afterFetch", shown, {"type": "failed", "error": {"kind": "unreachable"}})
    assert (failed["data"], failed["loading"]) == ({"items": [1]}, False)
    assert call("state", "afterFetch", shown, {"type": "failed", "error": {"kind": "forbidden"}})["data"] is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(0, "offline"), (401, "login"), (403, "forbidden"), (404, "gone"), (409, "conflict"), (422, "refused"),
     (500, "failed"), (502, "failed"), (503, "unreachable")],
)  # fmt: skip
def test_errors_are_told_apart_by_their_status(call: Callable[..., Any], status: int, kind: str) -> None:
    told = call("state", "describeError", status, {"error": {"code": "x", "message": "what happened"}})
    assert (told["kind"], told["message"]) == (kind, "what happened")
    assert call("state", "describeError", status, None)["title"] == told["title"]


def test_failures_are_retried_less_and_less_often(call: Callable[..., Any]) -> None:
    delays = [call("state", "nextDelay", 5000, failures) for failures in range(6)]
    assert delays == [5000, 10000, 20000, 40000, 60000, 60000]


def test_filters_go_through_the_address_and_back(call: Callable[..., Any]) -> None:
    defaults = {"view": "locks", "table": "", "limit": 100}
    query = call("state", "toQuery", {"view": "locks", "table": "a&b=ü/%", "limit": 100}, defaults)
    assert query == "?table=a%26b%3D%C3%BC%2F%25"
    assert call("state", "fromQuery", query + "&limit=x&unknown=1", defaults) == {**defaults, "table": "a&b=ü/%"}


def chain(length: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A queue for one table: each waits for the one before."""
    nodes = [{"id": f"txn:{i}", "waiting": i > 0, "objects": ["shop.orders"]} for i in range(length)]
    return nodes, [{"from": f"txn:{i}", "to": f"txn:{i - 1}", "object": "shop.orders"} for i in range(1, length)]


def test_a_small_graph_is_drawn_as_it_is_blockers_on_the_left(call: Callable[..., Any]) -> None:
    nodes, edges = chain(4)
    small = call("graph", "folded", nodes, edges)
    placed = call("graph", "layout", small["nodes"], small["edges"])
    assert [node["id"] for node in sorted(placed["nodes"], key=lambda node: node["x"])] == [n["id"] for n in nodes]
    assert len({node["x"] for node in placed["nodes"]}) == 4
    assert all(edge["path"].startswith("M") for edge in placed["edges"])


def test_a_queue_of_2000_is_one_holder_and_one_group(call: Callable[..., Any]) -> None:
    nodes, edges = chain(2000)
    small = call("graph", "folded", nodes, edges)
    group = next(node for node in small["nodes"] if node.get("group"))
    assert (len(small["nodes"]), group["count"], len(small["edges"])) == (2, 1999, 1)
    assert call("graph", "layout", small["nodes"], small["edges"])["width"] < 700


def test_a_deadlock_is_found_in_a_queue_of_2000_and_never_folded(call: Callable[..., Any]) -> None:
    nodes, edges = chain(2000)
    edges.append({"from": "txn:5", "to": "txn:7", "object": "shop.customers"})
    assert [sorted(cycle) for cycle in call("graph", "cycles", nodes, edges)] == [["txn:5", "txn:6", "txn:7"]]
    small = call("graph", "folded", nodes, edges)
    assert {node["id"] for node in small["nodes"] if node["cycle"]} == {"txn:5", "txn:6", "txn:7"}
    placed = call("graph", "layout", small["nodes"], small["edges"])
    assert len({(node["x"], node["y"]) for node in placed["nodes"]}) == len(placed["nodes"])


def test_waiters_for_different_objects_are_different_groups(call: Callable[..., Any]) -> None:
    nodes = [{"id": "txn:0", "waiting": False, "objects": ["a", "b"]}]
    nodes += [{"id": f"txn:{i}", "waiting": True, "objects": ["a" if i % 2 else "b"]} for i in range(1, 101)]
    edges = [{"from": node["id"], "to": "txn:0", "object": node["objects"][0]} for node in nodes[1:]]
    groups = [node for node in call("graph", "folded", nodes, edges)["nodes"] if node.get("group")]
    assert sorted((group["objects"], group["count"]) for group in groups) == [(["a"], 50), (["b"], 50)]


@pytest.mark.parametrize(
    ("most", "binary", "expected"),
    [(7, False, [0, 2, 4, 6, 8]), (0, False, [0, 1]), (0.3, False, [0, 0.1, 0.2, 0.3]),
     (3000, True, [0, 1024, 2048, 3072])],
)  # fmt: skip
def test_ticks_are_round(call: Callable[..., Any], most: float, binary: bool, expected: list[float]) -> None:
    assert call("chart", "ticks", most, 4, binary) == expected


def test_ticks_of_time_are_whole_hours_or_days(call: Callable[..., Any]) -> None:
    assert call("chart", "timeTicks", 1, 6 * HOUR, 6) == [n * HOUR for n in range(1, 7)]
    assert call("chart", "timeTicks", 0, 5 * 24 * HOUR, 6) == [n * 24 * HOUR for n in range(6)]


def test_a_line_is_interrupted_where_nothing_is_known(call: Callable[..., Any]) -> None:
    assert call("chart", "linePath", [[0, 1], [1, 2], [2, None], [3, 4]]) == "M0 1L1 2M3 4"


def test_layers_stand_on_each_other(call: Callable[..., Any]) -> None:
    points = [{"time": 1, "a": 2, "b": 3}, {"time": 2, "a": None, "b": 1}]
    assert call("chart", "stacked", points, ["a", "b"]) == [[[1, 0, 2], [2, 0, 0]], [[1, 2, 5], [2, 0, 1]]]


def test_2000_waiters_for_700_objects_are_still_few_boxes(call: Callable[..., Any]) -> None:
    nodes = [{"id": "txn:0", "waiting": False, "objects": ["o1"]}]
    nodes += [{"id": f"txn:{i}", "waiting": True, "objects": [f"o{i % 700}"]} for i in range(1, 2001)]
    edges = [{"from": node["id"], "to": "txn:0", "object": node["objects"][0]} for node in nodes[1:]]
    small = call("graph", "folded", nodes, edges)
    assert len(small["nodes"]) <= 25
    assert sum(node.get("count", 1) for node in small["nodes"]) == 2001


def test_what_is_small_beside_a_large_queue_is_drawn_as_it_is(call: Callable[..., Any]) -> None:
    nodes, edges = chain(40)
    nodes += [{"id": f"lock:{i}", "waiting": True, "objects": ["shop.returns"]} for i in range(4)]
    edges += [{"from": f"lock:{i}", "to": "txn:0", "object": "shop.returns"} for i in range(4)]
    small = call("graph", "folded", nodes, edges)
    assert sorted(node["id"] for node in small["nodes"] if not node.get("group")) == [
        "lock:0", "lock:1", "lock:2", "lock:3", "txn:0",
    ]  # fmt: skip
