"""What operators and sensors are given: said once for each field, and checked twice.

A DAG file that gives a field what it cannot be is refused when it is parsed. What a template or another task's output
will be is known when the task runs, and checked then, before anything is begun.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_GIVEN = (None, "", "None")
"""What a template makes of a value that is not there."""
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Argument:
    """What a field takes.

    :param words: what to give, for messages.
    :param fits: whether a value is that.
    :param optional: values that stand for "not given".
    """

    words: str
    fits: Callable[[Any], bool]
    optional: tuple[Any, ...] = ()

    def allows(self, value: object) -> bool:
        """Whether the field may have this value."""
        return any(value is each or (isinstance(each, str) and value == each) for each in self.optional) or bool(
            self.fits(value)
        )


Takes = Mapping[str, Argument]
"""What a class of tasks takes, by name of the field."""


def check_parsed(task: Any, takes: Takes) -> None:
    """Check the fields of a task when its DAG file is parsed; templates and outputs of tasks are left for later.

    To be called at the end of ``__init__``; fields that are not set yet are those of a subclass.

    :param takes: what it takes, by name of the field.
    :raises InvalidArgumentsError: a ``ValueError``, which names task, field and remedy.
    """
    for name, argument in takes.items():
        if hasattr(task, name):
            value = getattr(task, name)
            if not (name in task.template_fields and _is_rendered_later(task, value)):
                _check(task, name, argument, value)


def check_rendered(task: Any, takes: Takes) -> None:
    """Check the fields of a task that runs, before it begins anything.

    :param takes: what it takes, by name of the field.
    :raises InvalidArgumentsError: names task, field and remedy.
    """
    for name, argument in takes.items():
        _check(task, name, argument, getattr(task, name))


def number_of(value: object) -> float | None:
    """A number, or the text of one, as a template makes it; None for whatever is none, and for NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return None if math.isnan(number) else number


# --- kinds of fields ----------------------------------------------------------------------------------------------


def some_text(words: str) -> Argument:
    """A text that says something; a template that came out as nothing is refused."""
    return Argument(words, lambda value: isinstance(value, str) and bool(value.strip()) and value != "None")


def optional_text(words: str) -> Argument:
    """A text, or None; what an empty one means is the field's own business."""
    return Argument(f"{words}, or None", lambda value: isinstance(value, str), (None,))


def texts(words: str) -> Argument:
    """One text, or several in a list; not none at all."""

    def fits(value: Any) -> bool:
        if isinstance(value, str):
            return bool(value.strip())
        many = isinstance(value, list | tuple | set | frozenset)
        return many and bool(value) and all(isinstance(each, str) for each in value)

    return Argument(words, fits)


def optional_texts(words: str, *, none: bool = True) -> Argument:
    """One text, or a list of them; either may be empty.

    :param none: whether it may be None as well.
    """

    def fits(value: Any) -> bool:
        if isinstance(value, str):
            return True
        return isinstance(value, list | tuple | set | frozenset) and all(isinstance(each, str) for each in value)

    return Argument(f"{words}, or None" if none else words, fits, (None,) if none else ())


def mapping(words: str) -> Argument:
    """A dict with texts as keys, and something in it."""
    return Argument(f"a mapping of {words}", lambda value: _is_mapping(value) and bool(value))


def optional_mapping(words: str) -> Argument:
    """A dict with texts as keys, or None."""
    return Argument(f"a mapping of {words}, or None", _is_mapping, (None,))


def seconds(least: float = 0.0, *, optional: bool = False) -> Argument:
    """A duration: a number, the text of one, or a ``timedelta``.

    :param least: the shortest.
    """

    def fits(value: Any) -> bool:
        number = value.total_seconds() if isinstance(value, timedelta) else number_of(value)
        return number is not None and least <= number

    words = f"a number of seconds or a timedelta, {f'at least {least:g}' if least else '0 or more'}"
    return Argument(f"{words}, or None" if optional else words, fits, NOT_GIVEN if optional else ())


def count(least: int, *, optional: bool = False) -> Argument:
    """A whole number, or the text of one.

    :param least: the smallest.
    """

    def fits(value: Any) -> bool:
        if isinstance(value, float):
            return False
        number = number_of(value)
        return number is not None and not math.isinf(number) and number == int(number) and number >= least

    words = f"a whole number, {least} or more"
    return Argument(f"{words}, or None" if optional else words, fits, NOT_GIVEN if optional else ())


# --- helpers ------------------------------------------------------------------------------------------------------


def _check(task: Any, name: str, takes: Argument, value: object) -> None:
    if takes.allows(value):
        return
    remedy = f"give {takes.words}"
    if isinstance(value, str) and "mapping" in takes.words:
        remedy += (
            ". A template makes text of a mapping, unless the DAG has render_template_as_native_obj=True; or give "
            "it the output of a task"
        )
    raise InvalidArgumentsError(f"{name} of task {task.task_id} is {_shown(value, takes)}; {remedy}")


def _shown(value: object, takes: Argument) -> str:
    """A value for messages; not that of a mapping, which may hold secrets."""
    if value is None:
        return "None"
    if isinstance(value, str) and not value.strip():
        return "empty"
    if isinstance(value, list | tuple | set | frozenset | Mapping) and not value:
        return f"an empty {type(value).__name__}"
    if "mapping" in takes.words or not isinstance(value, str | int | float):
        return f"of type {type(value).__name__}"
    told = repr(value)
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}…"


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _is_rendered_later(task: Any, value: object) -> bool:
    """Whether a value of a templated field is not yet what the task will see."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value or value.endswith(tuple(task.template_ext))
    if isinstance(value, list | tuple | set | frozenset):
        return any(_is_rendered_later(task, each) for each in value)
    if isinstance(value, Mapping):
        return any(_is_rendered_later(task, each) for each in value.values())
    # Airflow asks what can resolve itself, an XComArg for example, and what renders itself.
    return callable(value) or hasattr(value, "resolve") or hasattr(value, "template_fields")
