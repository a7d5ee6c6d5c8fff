"""Bad input on the page: parameters, bodies, hostile names, connections that are none; and no secret is shown (S6)."""

from __future__ import annotations

import json
import urllib.parse
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.metastore import MetastoreClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fastapi.testclient import TestClient


pytestmark = pytest.mark.backends("sqlite")

CONN = "hive_acid_default"
BASE = f"/api/v1/connections/{CONN}"
HEADER = {"X-Hive-Acid": "1"}
ROLES = ("anonymous", "viewer", "user", "op", "admin")


BAD_PARAMETERS = {
    "/locks?limit=0": "limit", "/locks?limit=501": "limit", "/locks?state=x": "state", "/locks?cursor=x": "cursor",
    "/locks?txn_id=-1": "txn_id", "/locks?txn_id=9223372036854775808": "txn_id", "/transactions/0": "txn_id",
    "/transactions/x": "txn_id", "/tables?order=size": "order", "/tables/detail?database=db": "table",
    "/tables/detail?database=d-b&table=t": "d-b", "/tables/explain?database=db&table=t&partition=p%3D1": "partition",
    "/transactions?state=x": "state", "/compactions/durations?hours=0": "hours", f"/locks?user={'x' * 800}": "user",
}  # fmt: skip


def test_a_bad_parameter_is_named(ask: Callable[..., Any]) -> None:
    for path, words in BAD_PARAMETERS.items():
        answer = ask(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), answer.text
        assert words in answer.json()["error"]["message"]


BAD_BODIES = (
    ("/compactions", {"database": "db"}, "table"),
    ("/compactions", {"database": "db", "table": "t", "type": "huge"}, "type"),
    ("/compactions", {"database": "db", "table": "t", "wait": True}, "wait"),
    ("/compactions", [], "body"),
    ("/compactions", "text", "body"),
    ("/transactions/1/abort", {"reason": 5}, "reason"),
    ("/transactions/1/abort", {"reason": "x" * 1001}, "reason"),
    ("/transactions/0/abort", {}, "txn_id"),
    ("/leases/1/force-drop", {"reason": "  "}, "reason is empty"),
)


def test_a_bad_body_is_refused_and_nothing_is_done(
    metastore: MetastoreClient, act: Callable[..., Any], audit: Callable[[], Any], counts: Callable[[], dict[str, int]]
) -> None:
    metastore.open_txn()
    metastore.leases.grab_lease("db.t", 600)
    before = counts()
    for path, body, words in BAD_BODIES:
        answer = act(path, body)
        assert answer.status_code == 422, answer.text
        assert words in answer.json()["error"]["message"]
    assert counts() == before
    assert [extra["outcome"] for _, _, extra in audit()] == ["failed"] * len(BAD_BODIES)


def test_a_body_that_is_no_json_or_holds_half_a_character_is_refused(page: TestClient, tokens: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {tokens['op']}", **HEADER, "Content-Type": "application/json"}
    for body in (b"{", b"[" * 60_000, b" " * 70_000, b'{"database": "db", "table": "t\\ud800"}', b"\xff", b""):
        answer = page.post(f"{BASE}/compactions", content=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), (body[:20], answer.text)
        if body == b"{":
            assert answer.json()["error"]["message"] == "body: it is no JSON"


HOSTILE = (
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'; DROP TABLE TXNS;--", "x' OR '1'='1", "100%_\\",
    "javascript:alert(1)", "{{7*7}}", "\u202eevil", "a\u2028b",
)  # fmt: skip


def test_hostile_names_come_back_as_they_are_and_match_only_themselves(
    metastore: MetastoreClient, ask: Callable[..., Any]
) -> None:
    """Whoever can write to the metastore can write anything; the API answers JSON, and browsers are told so."""
    for text in HOSTILE:
        metastore.open_txn(user=text, host=text, agent_info=text)
    for text in HOSTILE:
        answer = ask(f"/transactions?user={urllib.parse.quote(text)}")
        assert [(one["user"], one["agent_info"], one["task"]) for one in answer.json()["items"]] == [(text, text, None)]
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'self'; frame-ancestors 'self'")
        assert answer.headers["cache-control"] == "no-store"
    for text in HOSTILE:
        for name in ("database", "table", "user"):
            assert ask(f"/locks?{name}={urllib.parse.quote(text)}").json()["items"] == []
        answer = ask(f"/locks?partition={urllib.parse.quote(text)}")
        if "=" in text:
            assert answer.json()["items"] == []
        else:
            assert (answer.status_code, "column=value" in answer.text) == (422, True), text
    assert len(metastore.show_transactions()) == len(HOSTILE)


def test_a_connection_of_another_type_is_not_there(
    ask: Callable[..., Any], act: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps({"conn_type": "postgres", "host": "secret-host"}))
    for connection in ("other", "no_such", "%2e%2e", "a%00b"):
        answer = ask(f"/api/v1/connections/{connection}/locks", "admin")
        assert (answer.status_code, "secret-host" in answer.text) == (404, False), answer.text


def test_a_connection_that_is_unusable_is_listed_with_the_reason(
    ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"conn_type": "hive_acid", "host": "relative.db"}
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", json.dumps(broken))
    answer = ask("/api/v1/connections", "op").json()
    found = {one["conn_id"]: (one["default"], one["can_act"], one["error"]) for one in answer["items"]}
    assert found[CONN] == (True, True, None)
    assert "absolute path" in found["broken"][2]
    assert ask("/api/v1/connections/broken/locks").status_code == 422


def test_passwords_are_never_shown(ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """S6: not in the list, not when the metastore cannot be reached, not in what is shown of URIs."""
    extra = {"dialect": "postgresql", "warehouse": "s3://key:hunter3@bucket/w"}
    hidden = {"conn_type": "hive_acid", "host": "127.0.0.1", "port": 1, "schema": "ms", "login": "hive",
              "password": "hunter2", "extra": extra}  # fmt: skip
    monkeypatch.setenv("AIRFLOW_CONN_HIDDEN", json.dumps(hidden))
    texts = [ask("/api/v1/connections", "admin").text]
    for path in ("locks", "locks", "overview"):
        answer = ask(f"/api/v1/connections/hidden/{path}", "admin")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "metastore_unavailable")
        assert answer.json()["error"]["retryable"] is True
        texts.append(answer.text)
    assert not any("hunter" in text for text in texts)
    assert "postgresql://hive:***@127.0.0.1:1/ms" in texts[0]
    assert "s3://bucket/w" in texts[0]


def test_a_metastore_that_is_away_is_told_of_and_left_alone_for_a_moment(
    metastore: MetastoreClient, connections: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  no database: 503 in words; asked again at once: the same, without a try
    t2  three seconds later it is there
    """
    from airflow_hive_acid.errors import MetastoreUnavailableError
    from airflow_hive_acid.plugins import metastores as room

    now = [100.0]
    metastores = room.Metastores(lambda: now[0])
    tries = []
    check = MetastoreClient.check_schema

    def checked(client: MetastoreClient) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise MetastoreUnavailableError("the metastore is away")
        return check(client)

    monkeypatch.setattr(MetastoreClient, "check_schema", checked)
    for _ in range(3):
        with pytest.raises(MetastoreUnavailableError, match="is away"), metastores.client(CONN):
            pass
    assert len(tries) == 1
    now[0] += 3.5
    for _ in range(2):
        with metastores.client(CONN) as client:
            assert client.show_transactions() == []
    assert len(tries) == 2
    metastores.close()


def test_an_empty_database_is_no_metastore(
    ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty.db").touch()
    empty = {"conn_type": "hive_acid", "host": str(tmp_path / "empty.db")}
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY", json.dumps(empty))
    answer = ask("/api/v1/connections/empty/locks")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "metastore_unusable")
    assert "schema create" in answer.json()["error"]["message"]
