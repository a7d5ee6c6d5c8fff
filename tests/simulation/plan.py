"""What happens in a run, drawn from a seed: what each process does, and what goes wrong when."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITERS, READERS = 3, 2
WRITES = ("insert", "insert", "update", "update", "delete", "overwrite", "abort", "two", "compact")
READS = ("read", "read", "pin")
SQL = (
    "sql insert", "sql insert", "sql insert", "sql update", "sql update", "sql delete", "sql overwrite", "sql rewrite",
    "sql truncate", "sql program", "sql program", "sql drop", "sql add", "sql lease", "sql lease", "sql shared",
    "sql shared", "sql rename", "sql drop table", "sql create", "sql create", "compact", "insert", "two",
)  # fmt: skip
SQL_READS = ("sql read", "sql read", "read", "pin")
FAULTS = ("absent", "broken", "empty", "full", "slow", "stale")


@dataclass(frozen=True)
class Op:
    """One thing a client does.

    :param kind: insert, update, delete, overwrite, abort, two (tables in one txn), compact (ask for it), read, pin
        (keep a state and read it), or "sql" and what the engine is to run (``statements``).
    :param pick: a number from which it draws its rows and tables.
    :param pause: seconds it does nothing before its commit, or between two reads.
    """

    kind: str
    pick: int
    pause: float


@dataclass(frozen=True)
class Trouble:
    """Something that goes wrong.

    :param step: in which step it begins.
    :param kind: kill, freeze, jump, or a fault of the warehouse.
    :param which: of which process, as a number; a time in milliseconds for a jump.
    :param lasts: milliseconds.
    """

    step: int
    kind: str
    which: int
    lasts: int


@dataclass(frozen=True)
class Plan:
    """A run.

    :param trash: the Cleaner moves files away instead of deleting them.
    :param retries: a client that dies or stops is started again, as Airflow starts a task, and so is what fails.
    """

    seed: int
    clients: tuple[tuple[Op, ...], ...]
    troubles: tuple[Trouble, ...]
    retries: bool = False
    trash: bool = False

    @classmethod
    def of(cls, seed: int, *, sql: bool = False) -> Plan:
        """The run of a seed.

        :param sql: most of what is done are statements, which the engine runs; who dies is started again.
        """
        dice = random.Random(seed)
        kinds, reads = (SQL, SQL_READS) if sql else (WRITES, READS)
        pauses = [0, 0, 0, 0.5, 20, 400]
        clients = [
            tuple(
                Op(dice.choice(kinds if n < WRITERS else reads), dice.getrandbits(32), dice.choice(pauses))
                for _ in range(dice.randint(2, 8))
            )
            for n in range(WRITERS + READERS)
        ]
        troubles = []
        for _ in range(dice.choice([0, 2, 5, 9])):
            kind = dice.choice(["kill", "kill", "kill", "freeze", "freeze", "jump", *FAULTS])
            lasts = dice.choice([10, 300, 10_000, 400_000])
            troubles.append(Trouble(dice.randrange(4000), kind, dice.getrandbits(16), lasts))
        return cls(seed, tuple(clients), tuple(sorted(troubles, key=lambda t: t.step)), sql, sql and seed % 2 == 1)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}"]
        lines += [
            f"  client {n}: {', '.join(f'{o.kind}({o.pause:g} s)' for o in c)}" for n, c in enumerate(self.clients)
        ]
        return "\n".join([*lines, *(f"  {t}" for t in self.troubles)])

    def smaller(self) -> Iterator[Plan]:
        """The same with one thing less."""
        for n, client in enumerate(self.clients):
            if client:
                yield replace(self, clients=(*self.clients[:n], (), *self.clients[n + 1 :]))
        for n in range(len(self.troubles)):
            yield replace(self, troubles=self.troubles[:n] + self.troubles[n + 1 :])
        for n, client in enumerate(self.clients):
            for m in range(len(client)):
                less = client[:m] + client[m + 1 :]
                yield replace(self, clients=(*self.clients[:n], less, *self.clients[n + 1 :]))


def smallest(plan: Plan, fails: Callable[[Plan], bool], tries: int = 200) -> Plan:
    """A plan that still fails and has as little in it as can be found."""
    while tries > 0:
        for candidate in plan.smaller():
            tries -= 1
            if fails(candidate):
                plan = candidate
                break
            if tries <= 0:
                break
        else:
            return plan
    return plan
