"""Faces of packages: public names that are imported when they are first used, and names of before that still work.

A DAG file that imports one operator pays for that operator's module alone, and a package that is only looked into costs
nothing. ``docs/reference/api.md`` lists every name of every face, and says how long a name of before is kept.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


GONE_WITH = "0.3"
"""Release that has the names of before no more."""


class HiveAcidDeprecationWarning(DeprecationWarning):
    """A public name or parameter that goes; the text says what to use."""


def lazily(package: str, homes: Mapping[str, str], renamed: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that gives names of its modules as its own.

    :param package: full name of the package.
    :param homes: module of each name, relative to the package.
    :param renamed: names of before with those of today; using one warns with :class:`HiveAcidDeprecationWarning`.
    """
    before = renamed or {}

    def get(name: str) -> Any:
        today = before.get(name, name)
        if today not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if name in before:
            _warn(package, name, today)
        return getattr(importlib.import_module(f"{package}.{homes[today]}"), today)

    return get


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose names have changed.

    :param module: full name of the module.
    :param names: names of before with those of today; using one warns with :class:`HiveAcidDeprecationWarning`.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(module, name, names[name])
        return getattr(importlib.import_module(module), names[name])

    return get


def _warn(place: str, name: str, today: str) -> None:
    warnings.warn(
        f"{place}.{name} is called {today} now; the name of before goes with release {GONE_WITH}",
        HiveAcidDeprecationWarning,
        stacklevel=3,
    )
