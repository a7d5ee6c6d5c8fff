"""Who may do what on the page, what is written down, and what becomes of it when it is done twice or too late (S4)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.metastore.compaction.model import CompactionState
from airflow_hive_acid.metastore.database.codes import LockType, Operation, TxnState
from airflow_hive_acid.metastore.locks.interface import LockComponent

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi.testclient import TestClient

    from airflow_hive_acid.metastore import MetastoreClient

sqlite = pytest.mark.backends("sqlite")
CONN = "hive_acid_default"
BASE = f"/api/v1/connections/{CONN}"
HEADER = {"X-Hive-Acid": "1"}
ROLES = ("anonymous", "viewer", "user", "op", "admin")
READ = (
    "/api/v1/connections", "/api/v1/openapi.json", "/api/v1/docs", f"{BASE}/overview", f"{BASE}/transactions",
    f"{BASE}/locks", f"{BASE}/locks/graph", f"{BASE}/compactions", f"{BASE}/compactions/durations", f"{BASE}/leases",
    f"{BASE}/leases/waiting", f"{BASE}/leases/drops", f"{BASE}/tables", f"{BASE}/tables/detail?database=db&table=t",
    f"{BASE}/tables/partitions?database=db&table=t", f"{BASE}/tables/series?database=db&table=t",
    f"{BASE}/tables/explain?database=db&table=t", f"{BASE}/pins", f"{BASE}/pins?ended=true", f"{BASE}/replications",
    f"{BASE}/replications/tables?policy=x", f"{BASE}/replications/events", f"{BASE}/mirrors",
    f"{BASE}/mirrors?table=db.t",
)  # fmt: skip


@sqlite
def test_the_metastore_of_a_team_is_read_by_its_members_alone(
    page: TestClient, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a product of who asks, whose the connection is, and every route that reads."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from airflow_hive_acid.plugins import server_database

    def statuses(team: str | None, teams: list[str], role: str) -> set[int]:
        monkeypatch.setattr(server_database, "team_of", lambda conn_id: team)
        user = SimpleAuthManagerUser(username="u", role=role, teams=teams)
        headers = {"Authorization": f"Bearer {get_auth_manager().generate_jwt(user)}"}
        found = page.get("/api/v1/connections", headers=headers).json()["items"]
        of_metastore = [path for path in READ if path.startswith(BASE)]
        answers = {page.get(path, headers=headers).status_code for path in of_metastore}
        assert (CONN in [one["conn_id"] for one in found]) is (403 not in answers)
        return answers - {404}  # there is no policy x

    assert statuses("red", ["blue"], "viewer") == {403}
    assert statuses("red", [], "op") == {403}
    assert statuses("red", ["blue", "red"], "viewer") == {200}
    assert statuses("red", [], "admin") == {200}
    assert statuses(None, [], "viewer") == {200}


def lock(client: MetastoreClient, txn_id: int = 0, place: str = "t", type: LockType = LockType.EXCLUSIVE) -> int:
    return client.lock(LockComponent("db", place, None, type, Operation.NO_TXN), txn_id=txn_id).lock_id


def prepared(client: MetastoreClient, verb: str) -> tuple[str, dict[str, Any], Callable[[], bool]]:
    """What to post for a verb, and whether it has happened."""
    if verb == "abort_txn":
        txn = client.open_txn()
        return f"/transactions/{txn}/abort", {"reason": "r"}, lambda: _state(client, txn) is TxnState.ABORTED
    if verb == "request_compaction":
        return "/compactions", {"database": "db", "table": "t"}, lambda: bool(client.compactions.show(table="t"))
    if verb == "cancel_compaction":
        asked = client.compactions.enqueue("db.t").id
        return (
            f"/compactions/{asked}/cancel", {"reason": "r"},
            lambda: client.compactions.get(asked).state is CompactionState.ABORTED,
        )  # fmt: skip
    if verb == "force_drop_lease":
        lease = client.leases.grab_lease("db.t", 600).lease_id
        return f"/leases/{lease}/force-drop", {"reason": "r"}, lambda: not client.leases.list_lease("db.t")
    if verb == "drop_pin":
        pin = client.pins.pin("books", ["db.t"], expires=600)
        return f"/pins/{pin.id}/drop", {"reason": "r"}, lambda: not client.pins.show()
    held = lock(client)
    return f"/locks/{held}/withdraw", {"reason": "r"}, lambda: not client.show_locks("db.t")


def _state(client: MetastoreClient, txn_id: int) -> TxnState:
    return next(t.state for t in client.show_transactions(include_committed=True) if t.txn_id == txn_id)


VERBS = ("abort_txn", "request_compaction", "cancel_compaction", "force_drop_lease", "drop_pin", "withdraw_lock")


@sqlite
def test_everybody_who_is_logged_in_may_look_and_nobody_else(ask: Callable[..., Any]) -> None:
    for role in ROLES:
        answers = {path: ask(path, role).status_code for path in READ}
        assert set(answers.values()) == {401 if role == "anonymous" else 200}, (role, answers)
        if role != "anonymous":
            listed = ask("/api/v1/connections", role).json()
            assert [one["can_act"] for one in listed["items"]] == [role in ("op", "admin")]


@pytest.mark.parametrize("verb", VERBS)
def test_only_op_and_admin_may_act_and_every_try_is_in_the_audit_log(
    verb: str, metastore: MetastoreClient, act: Callable[..., Any], audit: Callable[[], Any]
) -> None:
    expected = []
    for role in ROLES:
        path, body, happened = prepared(metastore, verb)
        answer = act(path, body, role)
        allowed = role in ("op", "admin")
        status = 200 if allowed else 401 if role == "anonymous" else 403
        assert (answer.status_code, happened()) == (status, allowed), (role, answer.text)
        if not allowed:
            assert answer.json()["error"]["code"] == ("forbidden" if status == 403 else "unauthenticated")
        owner = role if role == "anonymous" else f"a_{role}"
        expected.append((f"hive_acid.{verb}", owner, "done" if allowed else "refused", status))
        _clear(metastore)
    found = [(event, owner, extra["outcome"], extra["status"]) for event, owner, extra in audit()]
    assert found == expected


def _clear(client: MetastoreClient) -> None:
    """What a refused verb left standing would be in the next one's way."""
    for held in client.leases.list_lease():
        client.leases.force_drop_lease([held], "test", "next")
    for pin in client.pins.show():
        client.pins.unpin(pin.name)
    for row in client.show_locks():
        client.unlock(row.lock_id)
    client.compactions.abort([c.id for c in client.compactions.show() if c.queued])


@sqlite
def test_what_another_sites_page_could_send_is_refused(
    metastore: MetastoreClient, act: Callable[..., Any], audit: Callable[[], Any]
) -> None:
    txn = metastore.open_txn()
    foreign: tuple[dict[str, str], ...] = (
        {}, {"X-Hive-Acid": "0"}, {**HEADER, "Content-Type": "text/plain"},
        {**HEADER, "Content-Type": "application/x-www-form-urlencoded"},
    )  # fmt: skip
    for headers in foreign:
        answer = act(f"/transactions/{txn}/abort", {}, "admin", headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "csrf")
    assert _state(metastore, txn) is TxnState.OPEN
    assert [(extra["outcome"], extra["status"]) for _, _, extra in audit()] == [("refused", 403)] * len(foreign)


@sqlite
def test_with_the_cookie_only_airflows_own_pages_may_act(
    metastore: MetastoreClient, page: TestClient, tokens: dict[str, str]
) -> None:
    """Airflow's cookie is the caller here; a token in a header is nobody's by accident."""
    page.cookies.set("_token", tokens["op"])
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), (None, 200)):
        txn = metastore.open_txn()
        headers = HEADER if site is None else {**HEADER, "Sec-Fetch-Site": site}
        assert page.post(f"{BASE}/transactions/{txn}/abort", json={}, headers=headers).status_code == status


@sqlite
def test_a_token_that_is_none_is_told_apart_from_none_at_all(page: TestClient) -> None:
    for token, status in (("x", 403), ("", 401)):
        answer = page.get(f"{BASE}/locks", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == status
        assert answer.json()["error"]["message"]


@sqlite
def test_an_expired_login_is_told_as_such(page: TestClient, tokens: dict[str, str]) -> None:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    user = SimpleAuthManagerUser(username="late", role="ADMIN")
    late = get_auth_manager().generate_jwt(user, expiration_time_in_seconds=-3600)
    answer = page.get(f"{BASE}/locks", headers={"Authorization": f"Bearer {late}"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (401, "Token Expired")


@sqlite
def test_reading_changes_nothing(
    metastore: MetastoreClient, ask: Callable[..., Any], audit: Callable[[], Any], counts: Any
) -> None:
    metastore.open_txn()
    metastore.compactions.enqueue("db.t")
    before = counts()
    for path in READ:
        assert ask(path, "admin").status_code == 200
    assert counts() == before
    assert audit() == []


def test_a_double_click_does_it_once_and_says_so(metastore: MetastoreClient, act: Callable[..., Any]) -> None:
    for verb in VERBS[:4]:
        path, body, happened = prepared(metastore, verb)
        first, second = act(path, body).json(), act(path, body).json()
        assert (first["done"], first["already"], second["done"], second["already"]) == (True, False, True, True)
        assert happened()
        if verb == "request_compaction":
            assert len(metastore.compactions.show(table="t")) == 1
            assert [item["id"] for item in first["items"]] == [item["id"] for item in second["items"]]
        _clear(metastore)


def test_two_clicks_at_once_do_it_once(metastore: MetastoreClient, act: Callable[..., Any]) -> None:
    """Both requests are at the door when the first goes in."""
    start = threading.Barrier(2)
    answers: list[Any] = []

    def click() -> None:
        start.wait(60)
        answers.append(act("/compactions", {"database": "db", "table": "t"}))

    threads = [threading.Thread(target=click) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answer.json()["already"] for answer in answers) == [False, True]
    assert len(metastore.compactions.show(table="t")) == 1


@sqlite
def test_what_has_vanished_is_answered_with_words(act: Callable[..., Any]) -> None:
    for path, words in {
        "/transactions/77/abort": "txn 77 is not there",
        "/compactions/77/cancel": "compaction 77 is not there",
        "/leases/77/force-drop": "lease 77 is not held",
        "/locks/77/withdraw": "lock 77 is not there",
    }.items():
        answer = act(path, {"reason": "r"})
        assert answer.status_code == 404
        assert words in answer.json()["error"]["message"]


@sqlite
def test_what_cannot_be_done_says_what_can(metastore: MetastoreClient, act: Callable[..., Any]) -> None:
    with metastore.transaction({"db.t": "insert"}) as done:
        pass
    txn = metastore.open_txn()
    held = lock(metastore, txn)
    ended = metastore.compactions.enqueue("db.other").id
    metastore.compactions.claim("a-hive")
    metastore.compactions.mark_failed(metastore.compactions.get(ended), "broken")
    answers = {
        "is committed, and stays so": act(f"/transactions/{done.txn_id}/abort"),
        "commit or abort the txn": act(f"/locks/{held}/withdraw"),
        f"compaction {ended} has ended: it is failed": act(f"/compactions/{ended}/cancel"),
    }
    for words, answer in answers.items():
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
        assert words in answer.json()["error"]["message"]


@sqlite
def test_the_lock_of_a_lease_is_not_taken_from_under_it(metastore: MetastoreClient, act: Callable[..., Any]) -> None:
    lease = metastore.leases.grab_lease("db.t", 600, mirror=True)
    (row,) = metastore.show_locks("db.t")
    answer = act(f"/locks/{row.lock_id}/withdraw")
    assert answer.status_code == 409
    assert f"stands for lease {lease.lease_id}" in answer.json()["error"]["message"]
    assert metastore.leases.confirm_lease(lease)


@sqlite
def test_an_old_page_does_not_drop_the_next_holders_lease(metastore: MetastoreClient, act: Callable[..., Any]) -> None:
    """
    t1  the page shows lease 1 of alice
    t2  alice gives it back, bob gets lease 2 on the same table
    t3  somebody drops lease 1
    """
    old = metastore.leases.grab_lease("db.t", 600, user="alice")
    metastore.leases.drop_lease(old)
    new = metastore.leases.grab_lease("db.t", 600, user="bob")
    assert act(f"/leases/{old.lease_id}/force-drop", {"reason": "stuck"}).status_code == 404
    assert metastore.leases.confirm_lease(new)


@sqlite
def test_a_waiting_request_is_withdrawn_from_the_queue(
    metastore: MetastoreClient, act: Callable[..., Any], ask: Callable[..., Any]
) -> None:
    txn = metastore.open_txn()
    lock(metastore, txn)
    waits = lock(metastore)
    (shown,) = ask("/locks?state=waiting").json()["items"]
    assert (shown["lock_id"], shown["can_withdraw"]) == (waits, True)
    assert act(f"/locks/{waits}/withdraw").json()["done"]
    assert [row.lock_id for row in metastore.show_locks("db.t")] != []
    assert ask("/locks?state=waiting").json()["items"] == []


def test_who_did_it_and_why_is_kept_in_the_metastore(metastore: MetastoreClient, act: Callable[..., Any]) -> None:
    path, body, _ = prepared(metastore, "abort_txn")
    act(path, {"reason": "it hangs"})
    (txn,) = metastore.show_transactions()
    assert txn.abort_reason == "abort by a_op on Airflow's page: it hangs"
    path, body, _ = prepared(metastore, "cancel_compaction")
    act(path, body)
    assert metastore.compactions.show()[0].error == "cancelled by a_op: r"
