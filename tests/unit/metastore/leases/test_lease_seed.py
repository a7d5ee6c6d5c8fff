"""The HiveLease document's algorithm, transcribed literally, fails in seven ways; each test plays one of them.

The transcription lives in this file alone. A client is a generator that stops at every statement, so that a test says
in which order the statements of several clients reach the database.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

T = ("db", "t", "")


@dataclass(frozen=True)
class Row:
    """A row of the document's table LEASE."""

    lease_id: int
    place: tuple[str, str, str]
    start_utc: int
    end_utc: int
    lease_type: str


class Database:
    """The table, the sequence and the clock."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.last_id = 0
        self.now = 0

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id


Verb = "Generator[str, None, int | None]"


def grab(db: Database, place: tuple[str, str, str], kind: str, duration: int, tested: str = "w") -> Verb:
    """``1) grab_lease``; None is the failure.

    :param tested: the letter in the document's WHERE clause; 'x' repairs the first flaw, to show the others.
    """
    # SELECT * FROM LEASE WHERE end_utc >= cur_sys_time() AND (… AND lease_type = 'w')
    if [r for r in db.rows if r.end_utc >= db.now and r.place == place and r.lease_type == tested]:
        return None
    yield "looked"
    lease_id = db.next_id()
    start = db.now
    yield "has an id and the time"
    # INSERT INTO LEASE (…) VALUES (…); COMMIT
    db.rows.append(Row(lease_id, place, start, start + duration, kind))
    yield "inserted"
    if (yield from confirm(db, lease_id, place)):
        return lease_id
    return None


def confirm(db: Database, lease_id: int, place: tuple[str, str, str]) -> Generator[str, None, bool]:
    """``2) confirm_lease``."""
    # SELECT lease_id FROM LEASE WHERE end_utc >= cur_sys_time() AND … ORDER BY end_utc asc, lease_id asc
    found = sorted(
        (r for r in db.rows if r.end_utc >= db.now and r.place == place), key=lambda r: (r.end_utc, r.lease_id)
    )
    yield "asked who is first"
    if found and found[0].lease_id == lease_id:
        return True
    # someone else obtained the lease before we did. force drop all leases and return failure.
    db.rows = [r for r in db.rows if r.place != place]
    return False


def extend(db: Database, lease_id: int, place: tuple[str, str, str], duration: int) -> Generator[str, None, bool]:
    """``3) extend_lease``."""
    # UPDATE LEASE SET end_utc = cur_sys_time() + 1hr WHERE end_utc > cur_sys_time() AND lease_id = ?
    db.rows = [
        replace(r, end_utc=db.now + duration) if r.end_utc > db.now and r.lease_id == lease_id else r for r in db.rows
    ]
    yield "updated"
    return (yield from confirm(db, lease_id, place))


def run(verb: Generator[str, None, object], until: str | None = None) -> object:
    """Let a client go on until it has done a statement, or to its end."""
    while True:
        try:
            if next(verb) == until:
                return None
        except StopIteration as end:
            return end.value


def holders(db: Database) -> list[int]:
    """Ids of the leases in the table that have not ended."""
    return [r.lease_id for r in db.rows if r.end_utc >= db.now]


def test_flaw_1_no_lease_is_ever_in_the_way_because_the_letter_tested_is_never_written() -> None:
    """
    t1  A grabs x, confirms
    t2            B grabs x: the look for lease_type = 'w' finds nothing, B ends later, so A is first
    t3            B is refused only by its confirm, which throws A out
    """
    db = Database()
    assert run(grab(db, T, "x", 10)) == 1
    b = grab(db, T, "x", 20)
    run(b, until="inserted")  # it got past the look that should have refused it
    assert holders(db) == [1, 2]


def test_flaw_2_x_is_granted_over_a_live_s() -> None:
    """
    t1  A grabs s for 20, confirms
    t2            B grabs x for 10: only writers are looked for, and B, ending first, confirms
    """
    db = Database()
    assert run(grab(db, T, "s", 20, tested="x")) == 1
    assert run(grab(db, T, "x", 10, tested="x")) == 2
    assert [(r.lease_id, r.lease_type) for r in db.rows] == [(1, "s"), (2, "x")]


def test_flaw_3_a_second_s_never_confirms() -> None:
    """
    t1  A grabs s, confirms
    t2            B grabs s: it may share, but only the first in the order confirms
    """
    db = Database()
    assert run(grab(db, T, "s", 10, tested="x")) == 1
    assert run(grab(db, T, "s", 10, tested="x")) is None


def test_flaw_4_a_later_but_shorter_lease_wins_the_confirmation() -> None:
    """
    t1  A looks, finds nothing
    t2            B looks, finds nothing
    t3  A inserts (id 1, ends at 20)
    t4            B inserts (id 2, ends at 10), confirms: it is first by its end
    t5  A, which was there before, is refused
    """
    db = Database()
    a, b = grab(db, T, "x", 20, tested="x"), grab(db, T, "x", 10, tested="x")
    run(a, until="looked")
    run(b, until="looked")
    run(a, until="inserted")
    assert run(b) == 2
    assert run(a) is None


def test_flaw_5_a_refused_confirmation_drops_the_winner() -> None:
    """
    As in flaw 4; the loser then force drops *all* leases of the object, and the winner works on without one.
    """
    db = Database()
    a, b = grab(db, T, "x", 20, tested="x"), grab(db, T, "x", 10, tested="x")
    run(a, until="looked")
    run(b, until="looked")
    run(a, until="inserted")
    assert run(b) == 2  # B holds it, as far as it knows
    assert run(a) is None
    assert holders(db) == []
    assert run(grab(db, T, "x", 10, tested="x")) == 3  # and C holds it, too


def test_flaw_6_extending_loses_the_lease() -> None:
    """
    t1  A grabs s for 10
    t2            B inserts s for 15; A is first
    t3  A extends to 30: now B is first, A's confirm fails and drops both
    """
    db = Database()
    assert run(grab(db, T, "s", 10, tested="x")) == 1
    run(grab(db, T, "s", 15, tested="x"), until="inserted")
    db.now = 5
    assert run(extend(db, 1, T, 25)) is False
    assert holders(db) == []


def test_flaw_7_two_grabs_both_pass() -> None:
    """
    t1  A looks            (nothing there)
    t2            B looks  (nothing there)
    t3  A inserts (id 1, ends at 20), confirms: granted
    t4            B inserts (id 2, ends at 10), confirms: first by its end, granted
    """
    db = Database()
    a, b = grab(db, T, "x", 20, tested="x"), grab(db, T, "x", 10, tested="x")
    run(a, until="looked")
    run(b, until="looked")
    assert run(a) == 1
    assert run(b) == 2
    assert holders(db) == [1, 2]
    assert {r.lease_type for r in db.rows} == {"x"}
