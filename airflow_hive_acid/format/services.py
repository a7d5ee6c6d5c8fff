"""What a Spark service says of itself, and the names of the files in its directory (decision 62).

A service is a Spark application that serves any number of callers. Its directory holds ``state.json``, what it says of
itself, and a directory of each time that it was started, an *incarnation*. A caller makes a session directory in there,
which is a spool as that of an application of its own (decision 1) with three files more: the service answers ``left``
when it has let go of it, and ``refused`` instead of ``ready.json``; the caller writes ``cancel`` to stop what runs.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, fields

from airflow_hive_acid.errors import InvalidArgumentsError

STATE, LEFT, REFUSED, CANCEL, CALLER = "state.json", "left", "refused", "cancel", "caller"
SESSION = "session-"
SERVES = "serves"
"""In the directory of each incarnation, as long as it takes callers: an object store has no empty directories."""
STORE_SECONDS = 60.0
"""So long may the storage of a service take to its first answer. Clients of object stores try for minutes."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whom a service serves.

    :param who: as the caller calls itself.
    :param running: name of the step that runs; empty between two.
    :param waits: whether that step waits for its turn.
    """

    who: str
    running: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What a service says of itself.

    :param incarnation: this start of it; no two are called the same.
    :param beat: changes as long as it lives.
    :param package: version of this package.
    :param python: its Python, without the last number.
    :param spark: version of its Spark.
    :param place: the operating system's name of the machine and the processes that can see it; equal: the same.
    :param pid: its process there.
    :param birth: when that process began, see :func:`birth`; empty when unknown.
    :param started: milliseconds since 1970, by its own clock; for display only.
    :param places: steps at a time.
    :param max_callers: callers at a time.
    :param idle_seconds: how long nobody has asked for anything.
    """

    incarnation: str
    beat: int
    application_id: str
    package: str
    python: str
    spark: str
    place: str
    pid: int
    started: int
    places: int
    max_callers: int
    idle_seconds: float
    callers: tuple[Caller, ...] = ()
    birth: str = ""

    def to_json(self) -> str:
        """The document."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> ServiceState:
        """Read such a document.

        :raises ValueError: when it is none.
        """
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("what the service says of itself is no JSON object")
        known = {field.name for field in fields(cls)}
        try:
            callers = tuple(Caller(**caller) for caller in found.pop("callers", ()))
            return cls(**{key: value for key, value in found.items() if key in known}, callers=callers)
        except TypeError as error:
            raise ValueError(f"what the service says of itself lacks something: {error}") from None


def service_name(text: str) -> str:
    """A checked name of a service, which becomes the name of a directory.

    :raises InvalidArgumentsError: when it cannot be one.
    """
    if not _NAME.fullmatch(text):
        raise InvalidArgumentsError(
            f"{text[:100]!r} cannot be the name of a Spark service: a name has letters, digits, '.', '_' and '-', "
            "begins with a letter or a digit, and has at most 64 of them"
        )
    return text


def birth(pid: int) -> str | None:
    """When a process of this machine began, as the system counts: another process of the same number has another one.

    :return: empty when the system does not say, None when there is no such process.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            about = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return ""
    # The name of the program, in parentheses, may hold anything; the 22nd field of proc(5) is the 20th behind it.
    return about.rpartition(")")[2].split()[19]


def place() -> str:
    """A name of this machine's processes: whoever has the same one sees the same processes; empty when unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
