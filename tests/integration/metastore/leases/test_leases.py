"""Leases: who gets one, for how long, and what its holder and others can do with it."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import (
    ExceedsMaxLeaseTimeError,
    InvalidArgumentsError,
    LeaseAlreadyExistsError,
    LeaseEndedError,
)
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.leases.model import HiveLease, Lease, LeaseObject, LeaseType, conflicts
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.hive4("no mirrored leases")

S, X = LeaseType.SHARED, LeaseType.EXCLUSIVE


@pytest.fixture(params=["off", "on"])
def mirrored(request: pytest.FixtureRequest) -> str:
    """Both with and without locks in HIVE_LOCKS."""
    return str(request.param)


@pytest.fixture
def ann(metastore_url: str, mirrored: str) -> Any:
    with somebody(metastore_url, "ann", mirrored) as client:
        yield client


@pytest.fixture
def bob(metastore_url: str, mirrored: str) -> Any:
    with somebody(metastore_url, "bob", mirrored) as client:
        yield client


def somebody(url: str, user: str, mirrored: str = "auto", **settings: str) -> MetastoreClient:
    given = {"hive.acid.lease.mirror": mirrored, **{k.replace("_", "."): v for k, v in settings.items()}}
    return MetastoreClient(url, Settings({Source.REQUEST: given}), user=user)


@pytest.mark.rule("R7")
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, 0),
        ({"hive_txn_xlock_write": "true"}, 2),
        ({"hive_txn_xlock_write": "true", "hive_acid_lockless_reads_enabled": "true"}, 0),
    ],
)
def test_a_grab_says_that_inserts_pass_where_their_lock_is_shared(
    metastore_url: str, caplog: pytest.LogCaptureFixture, settings: dict[str, str], told: int
) -> None:
    with somebody(metastore_url, "ann", "on", **settings) as client:
        client.leases.drop_lease(client.leases.grab_lease("db.t", 60))
        assert client.leases.waiting_grab("db.t", 60).look() is not None
        client.leases.grab_lease("db.u", 60, mirror=False)
    said = [r.getMessage() for r in caplog.records if "INSERT does not wait for leases: with" in r.getMessage()]
    assert len(said) == told


def end(rows: Any, lease: Lease, by_ms: int = 10) -> None:
    """Let a lease have ended, without waiting for it."""
    with rows._client.database.transaction() as connection:
        from airflow_hive_acid.metastore.database.clock import now_ms

        now = now_ms(connection)
    rows.update("HIVE_LEASE", {"END_UTC": now - by_ms}, LEASE_ID=lease.lease_id)


def places(client: MetastoreClient) -> list[str]:
    return [each.describe() for each in client.leases.list_lease()]


# --- granting -----------------------------------------------------------------------------------------------------


def test_a_lease_has_the_documents_fields(ann: MetastoreClient) -> None:
    lease = ann.leases.grab_lease([LeaseObject("DB", "T", "P=1", S)], 60)
    (row,) = ann.leases.list_lease()
    assert row == HiveLease("ann", lease.lease_id, "db", "t", "p=1", lease.start_utc, lease.end_utc, S)
    assert row.end_utc - row.start_utc == 60_000
    assert str(row.lease_type) == "s"
    assert abs(row.start_utc / 1000 - time.time()) < 60  # the database's clock, and ours is the same machine's


def test_the_tables_need_not_exist_and_all_objects_are_leased_or_none(
    ann: MetastoreClient, bob: MetastoreClient
) -> None:
    ann.leases.grab_lease("db.b", 60)
    with pytest.raises(LeaseAlreadyExistsError, match=r"lease \d+ of ann on db.b is exclusive and ends 2"):
        bob.leases.grab_lease(["db.a", "db.b", "db.c"], 60)
    assert places(bob) == ["db.b"]
    bob.leases.grab_lease(["db.a", "db.c"], 60)
    assert places(bob) == ["db.a", "db.b", "db.c"]


@pytest.mark.parametrize(
    ("held", "wanted", "granted"),
    [
        (("db.t", "s"), ("db.t", "s"), True),
        (("db.t", "s"), ("db.t", "x"), False),
        (("db.t", "x"), ("db.t", "s"), False),
        (("db.t", "x"), ("db.u", "x"), True),
        (("db.t", "x"), ("other.t", "x"), True),
        (("db.t", "s"), ("db.t/p=1", "s"), True),
        (("db.t", "s"), ("db.t/p=1", "x"), False),
        (("db.t", "x"), ("db.t/p=1", "s"), False),
        (("db.t/p=1", "x"), ("db.t", "s"), False),
        (("db.t/p=1", "s"), ("db.t", "x"), False),
        (("db.t/p=1", "x"), ("db.t/p=2", "x"), True),
        (("db.t/p=1", "x"), ("db.t/p=1", "s"), False),
    ],
)
def test_who_excludes_whom(
    ann: MetastoreClient, bob: MetastoreClient, held: tuple[str, str], wanted: tuple[str, str], granted: bool
) -> None:
    """A lease on a table covers its partitions; a partition's puts S on its table."""
    ann.leases.grab_lease(held[0], 60, lease_type=held[1])
    if granted:
        bob.leases.grab_lease(wanted[0], 60, lease_type=wanted[1])
    else:
        with pytest.raises(LeaseAlreadyExistsError):
            bob.leases.grab_lease(wanted[0], 60, lease_type=wanted[1])


def test_ids_grow_with_every_grant(ann: MetastoreClient, bob: MetastoreClient) -> None:
    ids = [client.leases.grab_lease(f"db.t{i}", 60).lease_id for i, client in enumerate([ann, bob, ann, ann, bob])]
    assert ids == sorted(set(ids))


def test_one_lease_may_be_on_a_table_and_its_partition(ann: MetastoreClient) -> None:
    lease = ann.leases.grab_lease(["db.t", "db.t/p=1"], 60)
    assert ann.leases.confirm_lease(lease)
    ann.leases.drop_lease(lease)
    assert places(ann) == []


def test_an_ended_lease_is_nobodys_and_the_next_grant_deletes_it(
    ann: MetastoreClient, bob: MetastoreClient, rows: Any
) -> None:
    """So that a clock that is set back does not bring it to life."""
    lease = ann.leases.grab_lease("db.t", 60)
    end(rows, lease)
    assert not ann.leases.confirm_lease(lease)
    assert places(ann) == []
    taken = bob.leases.grab_lease("db.t/p=1", 60)
    assert taken.lease_id > lease.lease_id
    assert rows.select("HIVE_LEASE", "LEASE_ID") == [(taken.lease_id,)]


# --- extending and dropping ---------------------------------------------------------------------------------------


def test_extending_moves_the_end_and_never_the_start(ann: MetastoreClient, rows: Any) -> None:
    lease = ann.leases.grab_lease(["db.t", "db.u"], 60)
    longer = ann.leases.extend_lease(lease, lease_duration_sec=600)
    assert longer.end_utc > lease.end_utc + 500_000
    assert {row[0] for row in rows.select("HIVE_LEASE", "START_UTC")} == {lease.start_utc}
    assert ann.leases.extend_lease(longer, lease_duration_sec=1).end_utc == longer.end_utc  # never shorter


def test_some_objects_can_be_extended_and_dropped_by_themselves(ann: MetastoreClient, bob: MetastoreClient) -> None:
    lease = ann.leases.grab_lease(["db.t", "db.u"], 60)
    ann.leases.extend_lease(lease, ["db.t"], lease_duration_sec=600)
    ends = {each.describe(): each.end_utc for each in ann.leases.list_lease()}
    assert ends["db.t"] > ends["db.u"] + 500_000
    rest = ann.leases.drop_lease(lease, ["db.t"])
    assert [o.describe() for o in rest.objects] == ["db.u"]
    bob.leases.grab_lease("db.t", 60)
    assert ann.leases.confirm_lease(rest)
    assert not ann.leases.confirm_lease(lease)  # the handle of all of it is no longer held
    ann.leases.drop_lease(rest)
    assert places(ann) == ["db.t"]


def test_a_lease_cannot_last_longer_than_the_setting_says(metastore_url: str, mirrored: str) -> None:
    with somebody(metastore_url, "ann", mirrored, hive_acid_lease_max_time="100s") as ann:
        with pytest.raises(ExceedsMaxLeaseTimeError, match="101; the longest a lease may last is 100 s"):
            ann.leases.grab_lease("db.t", 101)
        lease = ann.leases.grab_lease("db.t", 50)
        with ann.database.transaction() as connection:  # it began 60 s ago
            from airflow_hive_acid.metastore.schema.leases import HIVE_LEASE

            connection.execute(HIVE_LEASE.update().values(START_UTC=HIVE_LEASE.c.START_UTC - 60_000))
        with pytest.raises(ExceedsMaxLeaseTimeError, match=r"it would last longer than 100 s.*Drop it and grab a new"):
            ann.leases.extend_lease(lease)
        assert ann.leases.extend_lease(lease, lease_duration_sec=30).lease_id == lease.lease_id


def test_dropping_again_is_refused_and_so_is_everything_after_the_end(ann: MetastoreClient, rows: Any) -> None:
    lease = ann.leases.grab_lease("db.t", 60)
    end(rows, lease, by_ms=3200)
    for verb in (ann.leases.extend_lease, ann.leases.drop_lease, ann.leases.require_lease):
        with pytest.raises(LeaseEndedError, match=rf"lease {lease.lease_id} on db.t ended 3\.\d s ago"):
            verb(lease)
    other = ann.leases.grab_lease("db.t", 60)
    ann.leases.drop_lease(other)
    with pytest.raises(LeaseEndedError, match="is not held with this secret"):
        ann.leases.drop_lease(other)


@pytest.mark.rule("R7")
def test_a_drop_gives_back_what_is_left_though_a_part_has_ended(
    ann: MetastoreClient, bob: MetastoreClient, rows: Any
) -> None:
    """
    t1  a lease on two tables; somebody drops one of them by force
    t2  its holder drops it: that it was not held to the end is an error, and nobody waits for the other table
    """
    lease = ann.leases.grab_lease(["db.t", "db.u"], 600)
    bob.leases.force_drop_lease("db.u", "bob", "test")
    with pytest.raises(LeaseEndedError, match=rf"lease {lease.lease_id} on db\.u is not held with this secret"):
        ann.leases.drop_lease(lease)
    assert (places(ann), rows.count("HIVE_LOCKS")) == ([], 0)
    bob.leases.grab_lease("db.t", 60)
    # What is dropped by itself need not wait for the others to be held.
    lease = ann.leases.grab_lease(["db.v", "db.w"], 600)
    ann.leases.drop_lease(lease, ["db.v"])
    ann.leases.drop_lease(lease, ["db.w"])
    assert places(ann) == ["db.t"]


def test_a_token_opens_the_lease_in_another_process(ann: MetastoreClient, bob: MetastoreClient) -> None:
    lease = ann.leases.grab_lease(["db.t", LeaseObject("db", "u", "p=1", S)], 60)
    again = bob.leases.resume_lease(lease.token)
    assert (again.lease_id, again.objects, again.user) == (lease.lease_id, lease.objects, "ann")
    assert Lease.from_document(lease.to_document()) == lease
    bob.leases.drop_lease(again)
    with pytest.raises(LeaseEndedError):
        bob.leases.resume_lease(lease.token)


# --- force --------------------------------------------------------------------------------------------------------


def test_a_forced_drop_is_recorded_and_its_holder_refused(
    ann: MetastoreClient, bob: MetastoreClient, rows: Any
) -> None:
    lease = ann.leases.grab_lease(["db.t", "db.t/p=1", "db.u"], 60)
    dropped = bob.leases.force_drop_lease("db.t", "bob", "its worker died")
    assert [each.describe() for each in dropped] == ["db.t", "db.t/p=1"]  # the table and its partitions
    assert not ann.leases.confirm_lease(lease)
    bob.leases.grab_lease("db.t", 60)
    columns = ("HLA_WHO", "HLA_WHY", "HLA_LEASE_ID", "HLA_USER", "HLA_TABLE", "HLA_PARTITION")
    assert rows.select("HIVE_ACID_LEASE_AUDIT", *columns) == [
        ("bob", "its worker died", lease.lease_id, "ann", "t", ""),
        ("bob", "its worker died", lease.lease_id, "ann", "t", "p=1"),
    ]


def test_a_forced_drop_of_nothing_named_drops_all(ann: MetastoreClient, bob: MetastoreClient, rows: Any) -> None:
    ann.leases.grab_lease("db.t", 60)
    bob.leases.grab_lease("other.u/p=1", 60)
    assert len(ann.leases.force_drop_lease([], "root", "maintenance")) == 2
    assert (places(ann), rows.count("HIVE_LOCKS")) == ([], 0)
    for who, why in (("", "why"), ("who", "  ")):
        with pytest.raises(InvalidArgumentsError, match="is empty; a forced drop is recorded"):
            ann.leases.force_drop_lease([], who, why)


# --- waiting ------------------------------------------------------------------------------------------------------


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_somebody_who_waits_is_granted_when_the_holder_drops(
    ann: MetastoreClient, bob: MetastoreClient, rows: Any
) -> None:
    lease = ann.leases.grab_lease("db.t", 60)
    got: list[Lease] = []
    thread = threading.Thread(target=lambda: got.append(bob.leases.grab_lease("db.t/p=1", 60, 30)))
    thread.start()
    wait_for(lambda: rows.count("HIVE_ACID_LEASE_QUEUE") == 1)
    ann.leases.drop_lease(lease)
    thread.join(30)
    assert got[0].lease_id > lease.lease_id
    assert rows.count("HIVE_ACID_LEASE_QUEUE") == 0


def test_somebody_who_waits_is_granted_when_the_lease_ends(ann: MetastoreClient, bob: MetastoreClient) -> None:
    lease = ann.leases.grab_lease("db.t", 0.4)
    taken = bob.leases.grab_lease("db.t", 60, 30)
    assert taken.start_utc >= lease.end_utc


def test_giving_up_leaves_nothing_behind(ann: MetastoreClient, bob: MetastoreClient, rows: Any) -> None:
    ann.leases.grab_lease("db.t", 60)
    locks = rows.count("HIVE_LOCKS")
    with pytest.raises(LeaseAlreadyExistsError, match=r"no lease on db.t after 0.3 s: lease \d+ of ann"):
        bob.leases.grab_lease("db.t", 60, 0.3)
    assert (rows.count("HIVE_ACID_LEASE_QUEUE"), rows.count("HIVE_LOCKS")) == (0, locks)


def test_readers_that_come_later_do_not_overtake_a_writer_that_waits(
    ann: MetastoreClient, bob: MetastoreClient, rows: Any, metastore_url: str, mirrored: str
) -> None:
    """
    t1  A holds s
    t2            B wants x, waits
    t3                      C wants s: would be compatible, but B was there before
    t4  A drops
    t5            B is granted
    """
    lease = ann.leases.grab_lease("db.t", 60, lease_type="s")
    got: list[Lease] = []
    thread = threading.Thread(target=lambda: got.append(bob.leases.grab_lease("db.t", 60, 30)))
    thread.start()
    wait_for(lambda: rows.count("HIVE_ACID_LEASE_QUEUE") == 1)
    with somebody(metastore_url, "cid", mirrored) as cid:
        with pytest.raises(LeaseAlreadyExistsError, match=r"bob waits for db.t \(exclusive\) and was there before"):
            cid.leases.grab_lease("db.t", 60, lease_type="s")
        ann.leases.drop_lease(lease)
        thread.join(30)
        assert got
        with pytest.raises(LeaseAlreadyExistsError, match=r"of bob on db\.t is exclusive"):
            cid.leases.grab_lease("db.t", 60, lease_type="s")


def test_a_place_in_the_queue_that_nobody_keeps_does_not_count(
    ann: MetastoreClient, bob: MetastoreClient, rows: Any
) -> None:
    """Its owner died while it waited; the reaper's pass removes what is left of it."""
    from airflow_hive_acid.metastore.leases.grants import Blocked, Request, grab

    lease = ann.leases.grab_lease("db.t", 60)
    wanted = (LeaseObject("db", "t"),)
    request = Request(wanted, 1000, "dead", "h", "0" * 64, mirrored=ann.leases.mirrors())
    answer = ann.database.run(lambda connection: grab(connection, request, queue=True))
    assert isinstance(answer, Blocked)
    ann.leases.drop_lease(lease)
    with pytest.raises(LeaseAlreadyExistsError, match=r"dead waits for db\.t"):
        bob.leases.grab_lease("db.t", 60)
    rows.update("HIVE_ACID_LEASE_QUEUE", {"HLQ_ALIVE_UNTIL": 1})
    ann.leases.drop_lease(ann.leases.grab_lease("db.t", 60))
    assert ann.housekeeping.run_house_keeper().done["leases"] == 1
    assert (rows.count("HIVE_ACID_LEASE_QUEUE"), rows.count("HIVE_LOCKS")) == (0, 0)


def test_the_reapers_pass_removes_what_has_ended(ann: MetastoreClient, rows: Any) -> None:
    kept, gone = ann.leases.grab_lease("db.t", 60), ann.leases.grab_lease(["db.u", "db.v"], 60)
    end(rows, gone)
    assert ann.housekeeping.expire_leases() == 2
    assert rows.select("HIVE_LEASE", "LEASE_ID") == [(kept.lease_id,)]
    assert rows.count("HIVE_LOCKS") == (1 if ann.leases.mirrors() else 0)


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duration", "wait", "message"),
    [
        (0, 0, "lease_duration_sec is 0; give at least"),
        (-1, 0, "lease_duration_sec is -1; give at least"),
        (float("nan"), 0, "lease_duration_sec is nan; give a number"),
        (float("inf"), 0, "lease_duration_sec is inf; give a number"),
        ("60", 0, "lease_duration_sec is '60'; give a number"),
        (True, 0, "lease_duration_sec is True; give a number"),
        (60, -1, "lease_wait_duration_sec is -1; give 0"),
        (60, 1e12, "lease_wait_duration_sec is 1000000000000.0; give 0"),
        (60, None, "lease_wait_duration_sec is None; give a number"),
    ],
)
def test_durations_that_are_none_are_refused(client: MetastoreClient, duration: Any, wait: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        client.leases.grab_lease("db.t", duration, wait)
    assert message in str(caught.value)
    with pytest.raises(ExceedsMaxLeaseTimeError):
        client.leases.grab_lease("db.t", 1e15)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], "a lease on nothing"),
        (["db.t", "DB.T"], "db.t is named twice"),
        ([LeaseObject("db", "t", "", S), LeaseObject("db", "t", "", X)], "db.t is named with two types"),
        (["t"], "'t' is no table name"),
        (["db.t/"], "names no partition behind the slash"),
        (["db.t/1"], "1"),
        (["db.t; DROP TABLE x"], "is no table name"),
        (["db.tabellé"], "is no table name"),
        (["db.t/p=a\x00b"], "control character"),
        (["db." + "t" * 300], "has 300 characters"),
        (["db.t/p=" + "v" * 900], "characters; the limit is 767"),
        ([42], "must be text, not int"),
    ],
)
def test_objects_that_are_none_are_refused(
    client: MetastoreClient, rows: Any, objects: list[Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentsError, match=message.replace("|", r"\|")):
        client.leases.grab_lease(objects, 60)
    assert rows.count("HIVE_LEASE") == 0


@pytest.mark.parametrize("kind", ["w", "", "S", "xx", None, 1])
def test_unknown_types_are_refused(client: MetastoreClient, kind: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"no lease type; use 's' \(shared\) or 'x' \(exclusive\)"):
        client.leases.grab_lease("db.t", 60, lease_type=kind)


def test_non_ascii_and_hostile_partitions_and_users(ann: MetastoreClient, backend: str) -> None:
    place = "db.t/städt=Köln '; DROP TABLE HIVE_LEASE --"
    lease = ann.leases.grab_lease(place, 60, user="Zoë'--\n")
    assert ann.leases.confirm_lease(lease)
    assert ann.leases.list_lease()[0].user == "Zoë'-- "
    ann.leases.drop_lease(lease)
    if backend in ("mariadb", "mysql"):
        with pytest.raises(InvalidArgumentsError, match="hold latin1 only"):
            ann.leases.grab_lease("db.t/p=北京", 60)
    else:
        ann.leases.drop_lease(ann.leases.grab_lease("db.t/p=北京", 60))


def test_objects_of_somebody_else_are_refused(ann: MetastoreClient, bob: MetastoreClient) -> None:
    mine, theirs = ann.leases.grab_lease("db.t", 60), bob.leases.grab_lease("db.u", 60)
    with pytest.raises(InvalidArgumentsError, match=rf"lease {mine.lease_id} is not on db.u"):
        ann.leases.drop_lease(mine, ["db.u"])
    with pytest.raises(InvalidArgumentsError, match="by the handle that grab_lease returned"):
        ann.leases.drop_lease(theirs.lease_id)  # type: ignore[arg-type]
    assert ann.leases.confirm_lease(mine)
    assert bob.leases.confirm_lease(theirs)


def test_ten_thousand_guesses_open_nothing(client: MetastoreClient, rows: Any) -> None:
    """Every id there could be, with secrets that are guessed, the stored hash among them."""
    from dataclasses import replace

    from airflow_hive_acid.metastore.database.backend import execute_batch
    from airflow_hive_acid.metastore.database.clock import now_ms
    from airflow_hive_acid.metastore.leases.holders import check_held, held_step
    from airflow_hive_acid.metastore.leases.model import new_secret
    from airflow_hive_acid.metastore.leases.rows import lease_rows

    lease = client.leases.grab_lease("db.t", 600)
    stored = rows.select("HIVE_LEASE", "SECRET_HASH")[0][0]
    assert lease.secret not in repr(rows.select("HIVE_LEASE"))
    assert lease.secret not in repr(lease)
    thieves = [replace(lease, secret=guess) for guess in ("", stored, lease.secret[:-1], lease.secret.swapcase(), "%")]
    for thief in thieves:
        for verb in (client.leases.extend_lease, client.leases.drop_lease, client.leases.require_lease):
            with pytest.raises(LeaseEndedError, match="is not held with this secret"):
                verb(thief)
    opened = 0

    def guess_all(connection: Any) -> None:
        nonlocal opened
        now = now_ms(connection)
        for number in range(10_000):
            thief = replace(lease, lease_id=number % 100, secret=new_secret())
            with contextlib.suppress(LeaseEndedError):
                check_held(thief, lease_rows(execute_batch(connection, [held_step(thief)])), now)
                opened += 1

    client.database.read(guess_all)
    assert opened == 0
    assert client.leases.confirm_lease(lease)


@pytest.mark.rule("R8")
def test_many_clients_never_hold_what_excludes_each_other(metastore_url: str, backend: str) -> None:
    """Real clients at once, on a table and its partitions; whoever is granted looks whether it is alone."""
    places = ["db.t", "db.t/p=1", "db.t/p=2"]
    held: dict[int, LeaseObject] = {}
    crowds: list[tuple[LeaseObject, LeaseObject]] = []
    guard = threading.Lock()
    rounds = 6 if backend == "postgresql" else 3

    def work(number: int) -> list[int]:
        ids = []
        mirror = Settings({Source.REQUEST: {"hive.acid.lease.mirror": "on" if number % 2 else "off"}})
        with MetastoreClient(metastore_url, mirror, user=f"client {number}") as client:
            for turn in range(rounds):
                wanted = LeaseObject.parse(places[(number + turn) % 3], "s" if (number + turn) % 4 == 0 else "x")
                lease = client.leases.grab_lease(wanted, 60, 60)
                ids.append(lease.lease_id)
                with guard:
                    crowds.extend((wanted, other) for other in held.values() if conflicts(wanted, other))
                    held[lease.lease_id] = wanted
                with guard:
                    del held[lease.lease_id]
                client.leases.drop_lease(lease)
        return ids

    with ThreadPoolExecutor(6) as pool:
        ids = [i for each in pool.map(work, range(6)) for i in each]
    assert crowds == []
    assert len(set(ids)) == 6 * rounds
