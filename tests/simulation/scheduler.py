"""One thread, one seed: who goes on next is decided before each effect.

Actors are greenlets. Before an effect (a statement, a commit, something done to files) an actor calls ``step``; there
it may have to let others go first, or find that its process was killed. A killed process has no further effects: what
its clean-up code tries ends at the same place. Time is the world's: it moves by steps, by sleeping and by jumps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SWITCH = 0.3
"""How often another actor goes on before an effect."""
START_MS = 1_700_000_000_000
TRACE = 60


class Killed(BaseException):
    """The process of this actor has ended, as by SIGKILL."""


class Stuck(AssertionError):
    """Somebody waits without an end."""


@dataclass(eq=False)
class Process:
    """What dies together.

    :param frozen_until: it does nothing before this time (a stopped process, a long pause of a collector).
    """

    name: str
    killed: bool = False
    frozen_until: int = 0
    holds_database: bool = False


@dataclass(eq=False)
class Actor:
    """One thread of a process."""

    name: str
    process: Process
    greenlet: greenlet
    wake_at: int = 0
    condition: Callable[[], bool] | None = None
    background: bool = False

    def is_ready(self, now: int) -> bool:
        """Whether it can go on."""
        process = self.process
        if process.killed:
            return True
        if self.wake_at > now or process.frozen_until > now:
            return False
        return self.condition is None or self.condition()


@dataclass
class Scheduler:
    """Lets actors take turns.

    :param limit: a run that has not ended after so many steps never ends.
    """

    random: random.Random
    limit: int
    now: int = START_MS
    steps: int = 0
    actors: list[Actor] = field(default_factory=list)
    trace: deque[tuple[int, int, str, str]] = field(default_factory=lambda: deque(maxlen=TRACE))
    before_step: Callable[[Actor], None] = lambda _: None
    _main: greenlet = field(default_factory=getcurrent)
    _by_greenlet: dict[greenlet, Actor] = field(default_factory=dict)
    _to_wait_for: int = 0

    def spawn(self, name: str, process: Process, work: Callable[[], None], *, background: bool = False) -> Actor:
        """Begin an actor; one that works in the background does not keep the run from its end."""

        def run() -> None:
            try:
                work()
            except Killed:
                self.note("is dead")
            finally:
                self.actors.remove(actor)
                self._to_wait_for -= not background
                del self._by_greenlet[actor.greenlet]

        actor = Actor(name, process, greenlet(run, self._main), background=background)
        self._by_greenlet[actor.greenlet] = actor
        self.actors.append(actor)
        self._to_wait_for += not background
        return actor

    @property
    def current(self) -> Actor | None:
        """Who has its turn; None for the test itself."""
        return self._by_greenlet.get(getcurrent())

    def note(self, what: str) -> None:
        """A line of the trace."""
        actor = self.current
        self.trace.append((self.steps, self.now - START_MS, actor.name if actor else "-", what))

    def told(self) -> list[str]:
        """The last steps."""
        lines = [f"{step:6} {ms:9} ms  {name:<14} {what}" for step, ms, name, what in self.trace]
        return [line.replace("\n", " ").replace('"', "") for line in lines]

    def step(self, what: str) -> None:
        """In front of an effect."""
        actor = self.current
        if actor is None:
            return
        if actor.process.killed:
            raise Killed
        self.steps += 1
        self.now += self.random.randrange(3)
        self.before_step(actor)
        if self.random.random() < SWITCH or actor.process.frozen_until > self.now or actor.process.killed:
            self._leave(actor)
        self.trace.append((self.steps, self.now - START_MS, actor.name, what))

    def sleep(self, seconds: float) -> None:
        """As ``time.sleep``."""
        actor = self.current
        if actor is None:
            return
        actor.wake_at = self.now + max(1, round(seconds * 1000))
        self._leave(actor)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for another actor."""
        actor = self.current
        if actor is None or condition():
            return
        actor.condition = condition
        try:
            self._leave(actor)
        finally:
            actor.condition = None

    def _leave(self, actor: Actor) -> None:
        self._main.switch()
        if actor.process.killed:
            raise Killed

    def run(self) -> None:
        """Until all that do not work in the background are done."""
        while self._to_wait_for:
            if self.steps > self.limit:
                raise Stuck(
                    f"{', '.join(a.name for a in self.actors if not a.background)} not done: {self.limit} steps"
                )
            ready = [actor for actor in self.actors if actor.is_ready(self.now)]
            if ready:
                self.random.choice(ready).greenlet.switch()
                continue
            times = [max(a.wake_at, a.process.frozen_until) for a in self.actors if a.condition is None]
            later = [time for time in times if time > self.now]
            if not later:
                raise Stuck(f"{', '.join(a.name for a in self.actors)} wait for each other")
            self.now = min(later)

    def end(self) -> None:
        """Let nothing of the run go on."""
        for actor in list(self.actors):
            actor.process.killed = True
            while actor.greenlet:  # it has begun, and is not dead
                actor.greenlet.switch()
        self.actors.clear()
        self._to_wait_for = 0
