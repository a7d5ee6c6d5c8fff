"""A model of the lease protocol, without a database, whose every interleaving can be walked through.

One step is what one client does between two points at which others may come between: wait for the table's row, read,
write and commit. What is decided is decided by the product's own ``judge`` and ``check_held``; the model has the rows,
the row lock, the clock and the order of statements. Time passes by itself, at any moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import LeaseEndedError
from airflow_hive_acid.metastore.database.backend import Result
from airflow_hive_acid.metastore.leases.grants import Blocked, Request, judge
from airflow_hive_acid.metastore.leases.holders import check_held
from airflow_hive_acid.metastore.leases.model import HiveLease, Lease, LeaseObject, conflicts
from airflow_hive_acid.metastore.leases.rows import LeaseRow

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIVE = 1
"""Ticks for which a place in the queue is kept; the model has few, and everything can happen between two."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of HIVE_LEASE."""

    lease_id: int
    owner: int
    wanted: LeaseObject
    end: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A row of HIVE_ACID_LEASE_QUEUE."""

    ticket: int
    owner: int
    wanted: LeaseObject
    until: int


@dataclass(frozen=True, slots=True)
class Client:
    """Where a client is.

    :param at: index into its program.
    :param step: 0 before a verb, 1 with the row locked, 2 having read, 3 (of a commit) having waited for the rest.
    :param read: what it read: the verb is to go on with it.
    """

    at: int = 0
    step: int = 0
    read: object = None
    lease_id: int | None = None
    ticket: int | None = None
    tries: int = 0


_NEW = Client()


@dataclass(frozen=True, slots=True)
class State:
    """Everything that is committed, and where everybody is.

    :param granted: ids and objects of all leases ever granted, with their owners.
    :param commits: lease ids under which something was committed, with what had been granted by then.
    """

    now: int
    guard: int | None
    next_id: int
    leases: tuple[Row, ...]
    queue: tuple[Waiting, ...]
    clients: tuple[Client, ...]
    granted: tuple[tuple[int, int], ...] = ()
    stolen: bool = False


@dataclass(frozen=True, slots=True)
class Model:
    """Three clients, each with what it wants and what it does.

    :param wants: objects of each client.
    :param programs: verbs of each: grab, extend, commit, drop.
    :param guarded: whether verbs lock the row of the table.
    :param commit_guarded: whether a commit does (R8).
    :param forgets: whether a grant deletes the ended leases that it takes over.
    """

    wants: tuple[tuple[LeaseObject, ...], ...]
    programs: tuple[tuple[str, ...], ...]
    duration: int = 1
    horizon: int = 2
    guarded: bool = True
    commit_guarded: bool = True
    clock_goes_back: bool = False
    forgets: bool = True

    def start(self) -> State:
        return State(0, None, 1, (), (), tuple(Client() for _ in self.wants))

    def next(self, state: State) -> Iterator[State]:
        """All states that one more step of anybody leads to."""
        if state.now < self.horizon:
            yield replace(state, now=state.now + 1)
        if self.clock_goes_back and 0 < state.now:
            yield replace(state, now=state.now - 1)
        for number, client in enumerate(state.clients):
            if client.at < len(self.programs[number]) and not self._waits_for_a_twin(state, number):
                yield from self._step(state, number, client, self.programs[number][client.at])

    def _waits_for_a_twin(self, state: State, me: int) -> bool:
        """Of clients that want and do the same, the first ones begin first: with other names the rest is no other."""
        return state.clients[me] == _NEW and any(
            state.clients[other] == _NEW
            and (self.wants[other], self.programs[other]) == (self.wants[me], self.programs[me])
            for other in range(me)
        )

    def _step(self, state: State, me: int, client: Client, verb: str) -> Iterator[State]:
        guarded = self.commit_guarded if verb == "commit" else self.guarded
        if client.step == 0:
            if verb != "grab" and client.lease_id is None:
                yield _moved(state, me, replace(client, at=client.at + 1))  # there was no lease to do it with
            elif not guarded:
                yield _moved(state, me, replace(client, step=1))
            elif state.guard is None:
                yield _moved(replace(state, guard=me), me, replace(client, step=1))
            return  # else: it waits for the row
        if client.step == 1:
            # R3: the clock and the rows in one later statement.
            read = self._read(state, me, client, verb)
            yield _moved(state, me, replace(client, step=2, read=read))
            return
        if verb == "commit" and client.step == 2 and client.read == "held":
            # The open-txn lock: somebody else may have it for as long as it likes.
            yield _moved(state, me, replace(client, step=3))
            return
        done = replace(client, at=client.at + 1, step=0, read=None)
        released = replace(state, guard=None) if state.guard == me else state
        yield self._write(released, me, client, done, verb)

    def _read(self, state: State, me: int, client: Client, verb: str) -> object:
        if verb != "grab":
            mine = [_lease_row(r) for r in state.leases if r.lease_id == client.lease_id]
            handle = Lease(client.lease_id or 0, "", self.wants[me], "", 0, 0, 1)
            try:
                check_held(handle, mine, state.now)
            except LeaseEndedError:
                return "ended"
            return "held" if verb != "extend" else ("held", state.now)
        ticket, ticket_lives = client.ticket, True
        if ticket is not None:
            ticket_lives = any(w.ticket == ticket and w.until > state.now for w in state.queue)
            ticket = ticket if ticket_lives else None
        found = []
        for wanted in self.wants[me]:
            held = [_columns(r) for r in state.leases if conflicts(wanted, r.wanted)]
            ahead = [
                (w.ticket, *w.wanted.place, w.wanted.lease_type.value, str(w.owner))
                for w in state.queue
                if (ticket is None or w.ticket < ticket) and w.until > state.now and w.ticket != client.ticket
                if conflicts(wanted, w.wanted)
            ]
            found += [Result(held, len(held)), Result(ahead, len(ahead))]
        request = Request(self.wants[me], self.duration, str(me), "", "", mirrored=False)
        answer = judge(request, found, state.now)
        if isinstance(answer, Blocked):
            return ("blocked", ticket, state.now)
        return ("free", tuple(row.lease.lease_id for row in answer.ended), state.now, ticket)

    def _write(self, state: State, me: int, client: Client, done: Client, verb: str) -> State:
        read = client.read
        if verb == "grab":
            return self._write_grab(state, me, client, done)
        if read == "ended":
            return _moved(state, me, replace(done, lease_id=None))
        match verb:
            case "extend":
                _, now = read  # type: ignore[misc]
                leases = tuple(
                    replace(r, end=max(r.end, now + self.duration)) if r.lease_id == client.lease_id else r
                    for r in state.leases
                )
                return _moved(replace(state, leases=leases), me, done)
            case "drop":
                leases = tuple(r for r in state.leases if r.lease_id != client.lease_id)
                return _moved(replace(state, leases=leases), me, replace(done, lease_id=None))
            case _:
                stolen = any(
                    lease_id > (client.lease_id or 0)
                    and owner != me
                    and any(conflicts(a, b) for a in self.wants[me] for b in self.wants[owner])
                    for lease_id, owner in state.granted
                )
                return _moved(replace(state, stolen=state.stolen or stolen), me, done)

    def _write_grab(self, state: State, me: int, client: Client, done: Client) -> State:
        read = client.read
        assert isinstance(read, tuple)
        others = tuple(w for w in state.queue if w.owner != me)
        if read[0] == "blocked":
            if client.tries == 1:  # it gives up, and leaves the queue
                return _moved(replace(state, queue=others), me, replace(done, ticket=None))
            ticket, now = read[1] or state.next_id, read[2]
            rows = tuple(Waiting(ticket, me, wanted, now + ALIVE) for wanted in self.wants[me])
            again = replace(client, step=0, read=None, ticket=ticket, tries=client.tries + 1)
            return _moved(replace(state, queue=(*others, *rows), next_id=state.next_id + 1), me, again)
        _, ended, now, _ = read
        lease_id = state.next_id
        kept = tuple(r for r in state.leases if r.lease_id not in ended or not self.forgets)
        rows_ = tuple(Row(lease_id, me, wanted, now + self.duration) for wanted in self.wants[me])
        granted = (*state.granted, (lease_id, me))
        return _moved(
            replace(state, leases=(*kept, *rows_), queue=others, next_id=lease_id + 1, granted=granted),
            me,
            replace(done, lease_id=lease_id, ticket=None),
        )


def broken(model: Model, state: State) -> str | None:
    """Which promise a state breaks."""
    live = [r for r in state.leases if r.end > state.now]
    for one in live:
        for other in live:
            if one.owner < other.owner and conflicts(one.wanted, other.wanted):
                return f"leases {one.lease_id} and {other.lease_id} exclude each other, and both are live"
    if state.stolen:
        return "something was committed under a lease that somebody else had taken over"
    ids = [lease_id for lease_id, _ in state.granted]
    if ids != sorted(set(ids)):
        return f"ids were granted out of order: {ids}"
    for lease_id in {r.lease_id for r in state.leases}:
        rows = [r for r in state.leases if r.lease_id == lease_id]
        if len(rows) != len(model.wants[rows[0].owner]) or len({r.end for r in rows}) != 1:
            return f"lease {lease_id} is on some of its objects only"
    if not list(_unfinished(model, state)) and state.queue:
        return "somebody who has left still stands in the queue"
    return None


def explore(model: Model) -> tuple[int, str | None]:
    """Walk through all interleavings; the number of states, and the first promise broken."""
    first = model.start()
    seen, waiting = {first}, [first]
    while waiting:
        state = waiting.pop()
        problem = broken(model, state)
        if problem is not None:
            return len(seen), problem
        for after in model.next(state):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return len(seen), None


def _unfinished(model: Model, state: State) -> Iterator[int]:
    return (n for n, client in enumerate(state.clients) if client.at < len(model.programs[n]))


def _moved(state: State, me: int, client: Client) -> State:
    clients = list(state.clients)
    clients[me] = client
    return replace(state, clients=tuple(clients))


def _lease_row(row: Row) -> LeaseRow:
    lease = HiveLease("", row.lease_id, *row.wanted.place, 0, row.end, row.wanted.lease_type)
    return LeaseRow(lease, 1, None, True)


def _columns(row: Row) -> tuple[object, ...]:
    kind, number = row.wanted.lease_type.value, hash(row.wanted)
    return (str(row.owner), row.lease_id, *row.wanted.place, 0, row.end, kind, number, None, None, 1)
