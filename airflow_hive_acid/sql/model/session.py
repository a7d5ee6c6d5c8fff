"""Statements about the script itself: USE, SET and RESET. They last until its end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_hive_acid.sql.model.origins import Origin


class Space(Enum):
    """Where a name of SET lies; the value is Hive's prefix."""

    HIVECONF = "hiveconf"
    HIVEVAR = "hivevar"


@dataclass(frozen=True, slots=True)
class SessionStatement(Origin):
    """A statement that changes or prints what holds for the rest of the script."""


@dataclass(frozen=True, slots=True)
class Use(SessionStatement):
    """``USE database``: names without a database belong to it from here on."""

    database: str


@dataclass(frozen=True, slots=True)
class SetValue(SessionStatement):
    """``SET [hiveconf:]key=value`` and ``SET hivevar:name=value``.

    :param value: as it is written, quotes included, as in Hive.
    """

    space: Space
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ShowValues(SessionStatement):
    """``SET``, ``SET -v`` and ``SET key``.

    :param name: None for all.
    :param everything: SET -v: those too that nobody has set.
    """

    space: Space = Space.HIVECONF
    name: str | None = None
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Reset(SessionStatement):
    """``RESET [key …]``: what the script has set is forgotten.

    :param names: none for all.
    """

    names: tuple[str, ...] = ()
