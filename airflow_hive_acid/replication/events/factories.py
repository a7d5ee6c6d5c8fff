"""Finding a replication task factory: by dotted path, by entry point, or the default one.

A factory is any callable that takes :class:`~airflow_hive_acid.replication.events.tasks.TaskSettings` and returns an
object with ``create(event)``. A package offers one by name with an entry point of the group
``airflow_hive_acid.replication_task_factories``.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.replication.events.exim_tasks import EximReplicationTaskFactory
from airflow_hive_acid.replication.events.tasks import ENTRY_POINTS, ReplicationTask, ReplicationTaskFactory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.replication.events.collapse import CollapsedEvent
    from airflow_hive_acid.replication.events.event import ReplicationEvent
    from airflow_hive_acid.replication.events.tasks import TaskSettings

DEFAULT = "exim"
"""Name of the default factory, which is built in."""


def load_factory(name: str | None, settings: TaskSettings) -> ReplicationTaskFactory:
    """Make the factory of a policy.

    :param name: ``exim`` or None for the default one, the name of an entry point, or ``package.module:Class``
        (``package.module.Class`` will do).
    :raises InvalidArgumentsError: naming the factory, what is wrong with it and the remedy.
    """
    if name is None or name == DEFAULT:
        return EximReplicationTaskFactory(settings)
    made = _find(name)
    if not callable(made):
        raise InvalidArgumentsError(
            f"replication task factory {name!r} is {type(made).__name__}, nothing that can be called; name a class or "
            "function that takes TaskSettings"
        )
    try:
        factory = made(settings)
    except HiveAcidError:
        raise
    except Exception as error:
        raise InvalidArgumentsError(
            f"replication task factory {name!r} could not be made of TaskSettings: {error!r}"
        ) from error
    if not isinstance(factory, ReplicationTaskFactory):
        raise InvalidArgumentsError(
            f"replication task factory {name!r} made a {type(factory).__name__}, which has no method create(event)"
        )
    return factory


def create_task(factory: ReplicationTaskFactory, event: ReplicationEvent) -> ReplicationTask:
    """The task of an event, checked: a factory of somebody else's may forget one.

    :raises InvalidArgumentsError: when the factory returned no task, or one of other events.
    """
    task = factory.create(event)
    if not isinstance(task, ReplicationTask):
        raise InvalidArgumentsError(
            f"{type(factory).__name__} returned {type(task).__name__} for {event}; it must return a ReplicationTask, "
            "if need be one whose commands are NoOp"
        )
    if task.event_ids != (event.event_id,):
        raise InvalidArgumentsError(
            f"{type(factory).__name__} returned a task of the events {list(task.event_ids)} for {event}; "
            f"its event_ids must be ({event.event_id},)"
        )
    return task


def create_tasks(factory: ReplicationTaskFactory, items: Iterable[CollapsedEvent]) -> list[ReplicationTask]:
    """The tasks of collapsed events, in order; each stands for all the events that went into it."""
    return [replace(create_task(factory, item.event), event_ids=item.event_ids) for item in items]


def _find(name: str) -> Any:
    offered = entry_points(group=ENTRY_POINTS)
    found = [point for point in offered if point.name == name]
    if len({point.value for point in found}) > 1:
        values = ", ".join(sorted({point.value for point in found}))
        raise InvalidArgumentsError(
            f"several installed packages offer a replication task factory {name!r}: {values}; name one by its path"
        )
    path = found[0].value if found else name
    module_name, separator, attributes = path.partition(":")
    if not separator:
        module_name, _, attributes = path.rpartition(".")
    if not module_name or not attributes:
        names = ", ".join(sorted({DEFAULT, *(point.name for point in offered)}))
        raise InvalidArgumentsError(
            f"there is no replication task factory {name!r}; known are {names}. One of your own is named by its path, "
            "package.module:Class."
        )
    try:
        made: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidArgumentsError(
            f"replication task factory {name!r}: module {module_name!r} cannot be imported here ({error}); install "
            "its package where replication runs, or correct the path"
        ) from error
    for attribute in attributes.split("."):
        if not hasattr(made, attribute):
            raise InvalidArgumentsError(
                f"replication task factory {name!r}: module {module_name!r} has no {attributes!r}; correct the path"
            )
        made = getattr(made, attribute)
    return made
