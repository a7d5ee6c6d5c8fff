"""Spark services that are there: where they lie, what they say of themselves, and whether a caller would use them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import airflow_hive_acid
from airflow_hive_acid.engine.applications.package_zip import cache_directory
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.format.services import STATE, ServiceState, birth, place, service_name

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import StreamingFilesystem

_FOLDER = "services"


def services_directory(spool: str | None) -> str:
    """URI below which services lie.

    :param spool: where the spools of a connection are; None: on this machine, for this user.
    """
    return f"{spool.rstrip('/')}/{_FOLDER}" if spool else (cache_directory() / _FOLDER).as_uri()


def service_directory(service: str, spool: str | None) -> str:
    """URI of a service.

    :param service: its name, or this URI itself.
    :raises InvalidArgumentsError: when it cannot be a name.
    """
    return service.rstrip("/") if ":/" in service else f"{services_directory(spool)}/{service_name(service)}"


def read_state(filesystem: StreamingFilesystem, uri: str) -> ServiceState | None:
    """What a service says of itself; None where there is none. Some storage has no state for a moment at each beat."""
    for pause in (0.02, 0.05, 0.1, None):
        try:
            return ServiceState.of(filesystem.read_text(f"{uri}/{STATE}"))
        except FileNotFoundError:
            if pause is None or not filesystem.exists(uri):
                return None
            time.sleep(pause)
        except ValueError:
            return None
    return None


@dataclass(frozen=True, slots=True)
class FoundService:
    """A service that somebody has started.

    :param problem: why a caller here would not use it; None when it would.
    """

    name: str
    uri: str
    state: ServiceState
    problem: str | None


def find_services(spool: str | None, *, look_again: float | None = None) -> list[FoundService]:
    """The services below a spool, by name; those that have ended without a word among them.

    :param look_again: seconds after which those whose process cannot be seen from here are looked at once more: a state
        that stands still is of one that has ended. None: once is enough.
    """
    above = services_directory(spool)
    filesystem = open_filesystem(above)
    try:
        names = [entry.name for entry in filesystem.list_files(above) if entry.is_dir]
    except FileNotFoundError:
        return []
    found = [(name, f"{above}/{name}") for name in names]
    states = [(name, uri, state) for name, uri in found if (state := read_state(filesystem, uri)) is not None]
    found_services = [FoundService(name, uri, state, unfit(state) or gone(state)) for name, uri, state in states]
    unseen = {one.uri: one.state for one in found_services if one.problem is None and one.state.place != place()}
    if look_again is None or not unseen:
        return found_services
    time.sleep(look_again)
    still = [uri for uri, state in unseen.items() if (read_state(filesystem, uri) or state).beat == state.beat]
    silent = f"it has given no sign of life for {look_again:.0f} s"
    return [replace(one, problem=silent) if one.uri in still else one for one in found_services]


def unfit(state: ServiceState) -> str | None:
    """Why a service cannot run what this version of the package asks for; None when it can."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if state.package != airflow_hive_acid.__version__:
        return f"it is of airflow-hive-acid {state.package}, and this is {airflow_hive_acid.__version__}"
    if state.python != python:
        return f"its Python is {state.python}, and this one is {python}"
    return None


def gone(state: ServiceState) -> str | None:
    """Why its process is known to have ended; None where it lives, or cannot be seen."""
    if not state.place or state.place != place():
        return None
    found = birth(state.pid)
    lives = found is not None and (not found or not state.birth or found == state.birth)
    return None if lives else f"its process {state.pid} has ended"
