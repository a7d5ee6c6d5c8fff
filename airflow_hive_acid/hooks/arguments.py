"""What operators and sensors are given: said once for each field, and checked twice.

A DAG file that gives a field what it cannot be is refused when it is parsed. What a template or another task's output
will be is known when the task runs, and checked then, before anything is begun. So is what a mapped task is given, and
what a class of somebody's own is: it may set its fields as late as that.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_hive_acid.airflow_versions import AirflowFailException, is_made_of_mapped
from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_GIVEN = (None, "", "None")
"""What a template makes of a value that is not there."""
_SHOWN = 60
_OURS = __name__.partition(".")[0]
_STARTS = ("{{", "{%", "{#")
#: Where a DAG says that its templates begin with something else.
_OTHER_STARTS = ("variable_start_string", "block_start_string", "comment_start_string", "line_statement_prefix")


@dataclass(frozen=True, slots=True)
class Argument:
    """What a field takes.

    :param words: what to give, for messages.
    :param fits: whether a value is that.
    :param optional: values that stand for "not given".
    :param made: what the field is then, where no template makes it; by default what it was given.
    """

    words: str
    fits: Callable[[Any], bool]
    optional: tuple[Any, ...] = ()
    made: Callable[[Any], Any] | None = None

    def allows(self, value: object) -> bool:
        """Whether the field may have this value."""
        given = value is not None and not isinstance(value, str)
        return (not given and value in self.optional) or bool(self.fits(value))


Takes: TypeAlias = "Mapping[str, Argument]"
"""What a class of tasks takes, by name of the field."""


def check_parsed(task: Any, takes: Takes) -> None:
    """Check the fields of a task when its DAG file is parsed; templates and outputs of tasks are left for later.

    To be called at the end of ``__init__``; fields that are not set yet are those of a subclass. Numbers and durations
    that no template makes are numbers from then on.

    :param takes: what it takes, by name of the field.
    :raises InvalidArgumentsError: a ``ValueError``, which names task, field and remedy.
    """
    # A mapped task is made when it runs, where Airflow would try it again for an error of its making.
    known = type(task).__module__.partition(".")[0] == _OURS and not is_made_of_mapped(task)
    for name, argument in takes.items():
        if not hasattr(task, name):
            continue
        value, templated = getattr(task, name), name in task.template_fields
        if known and not (templated and _is_rendered_later(task, value)):
            _check(task, name, argument, value)
        if not templated and argument.made is not None and argument.allows(value):
            setattr(task, name, argument.made(value))


def refused(task: Any, text: str) -> Exception:
    """What the making of a task raises when its arguments do not go together.

    :return: a ``ValueError``; of a mapped task, which is made when it runs, what Airflow does not try again.
    """
    error = InvalidArgumentsError(text)
    return AirflowFailException(f"{type(error).__name__}: {text}") if is_made_of_mapped(task) else error


def check_rendered(task: Any, takes: Takes) -> None:
    """Check the fields of a task that runs, before it begins anything.

    :param takes: what it takes, by name of the field.
    :raises InvalidArgumentsError: names task, field and remedy.
    """
    for name, argument in takes.items():
        _check(task, name, argument, getattr(task, name))


def number_of(value: object) -> float | None:
    """A number, or the text of one, as a template makes it; None for whatever is none, and for NaN."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal | str):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return None if math.isnan(number) else number


def whole_of(value: object) -> int | None:
    """A whole number, or the text of one; None for whatever is none."""
    if isinstance(value, bool) or not isinstance(value, Integral | str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def names_of(value: Any) -> list[str]:
    """One name or several, as a list; none where nothing is given."""
    if isinstance(value, str):
        return [value] if value else []
    return list(value or ())


# --- kinds of fields ----------------------------------------------------------------------------------------------


def some_text(words: str) -> Argument:
    """A text that says something; a template that came out as nothing is refused."""
    return Argument(words, lambda value: isinstance(value, str) and bool(value.strip()) and value != "None")


def optional_text(words: str) -> Argument:
    """A text, or None; what an empty one means is the field's own business."""
    return Argument(f"{words}, or None", lambda value: isinstance(value, str), (None,))


def place(words: str) -> Argument:
    """A path or URI, as text or as an object that is one."""
    text = some_text(words)
    return Argument(words, lambda value: text.fits(value) or _is_path(value))


def optional_place(words: str) -> Argument:
    """A path or URI, or None."""
    return Argument(f"{words}, or None", lambda value: isinstance(value, str) or _is_path(value), (None,))


def many(words: str, each: Callable[[Any], bool], *, least: int = 0, none: bool = False) -> Argument:
    """A list, or what several tasks have put out; no text.

    :param each: whether a value may be in it.
    :param least: how many there must be.
    :param none: whether it may be None.
    """

    def fits(value: Any) -> bool:
        return _is_many(value) and len(value) >= least and all(each(one) for one in value)

    return Argument(f"{words}, or None" if none else words, fits, (None,) if none else ())


def texts(words: str) -> Argument:
    """One text, or several in a list; not none at all."""
    several = many(words, _is_text, least=1)
    return Argument(words, lambda value: bool(value.strip()) if isinstance(value, str) else several.fits(value))


def optional_texts(words: str, *, none: bool = True) -> Argument:
    """One text, or a list of them; either may be empty.

    :param none: whether it may be None as well.
    """
    several = many(words, _is_text, none=none)
    return Argument(several.words, lambda value: isinstance(value, str) or several.fits(value), several.optional)


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

    def made(value: Any) -> float | None:
        if isinstance(value, timedelta):
            return value.total_seconds()
        return value if isinstance(value, int | float) and not isinstance(value, bool) else number_of(value)

    def fits(value: Any) -> bool:
        number = made(value)
        return number is not None and least <= number

    words = f"a number of seconds or a timedelta, {f'at least {least:g}' if least else '0 or more'}"
    return Argument(f"{words}, or None" if optional else words, fits, NOT_GIVEN if optional else (), made)


def count(least: int, *, optional: bool = False) -> Argument:
    """A whole number, or the text of one.

    :param least: the smallest.
    """

    def fits(value: Any) -> bool:
        number = whole_of(value)
        return number is not None and number >= least

    words = f"a whole number, {least} or more"
    return Argument(f"{words}, or None" if optional else words, fits, NOT_GIVEN if optional else (), whole_of)


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


def _is_many(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_path(value: object) -> bool:
    """Whether it is a path; those of object stores, Airflow's among them, are no ``PathLike``."""
    return isinstance(value, os.PathLike) or hasattr(value, "joinpath")


def _is_rendered_later(task: Any, value: object) -> bool:
    """Whether a value of a templated field is not yet what the task will see."""
    if isinstance(value, str):
        return any(start in value for start in _starts(task)) or value.endswith(tuple(task.template_ext))
    if isinstance(value, list | tuple | set | frozenset):
        return any(_is_rendered_later(task, each) for each in value)
    if isinstance(value, Mapping):
        return any(_is_rendered_later(task, each) for each in value.values())
    # Airflow asks what can resolve itself, an XComArg for example, and what renders itself; a path resolves otherwise.
    resolves = hasattr(value, "resolve") and not isinstance(value, os.PathLike)
    return resolves or callable(value) or hasattr(value, "template_fields")


def _starts(task: Any) -> tuple[str, ...]:
    """With what a template may begin in the DAG of a task."""
    dag = task.get_dag()
    given = (None if dag is None else dag.jinja_environment_kwargs) or {}
    return (*_STARTS, *(str(given[name]) for name in _OTHER_STARTS if given.get(name)))
