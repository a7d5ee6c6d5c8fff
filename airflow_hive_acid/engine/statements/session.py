"""What holds for the rest of a script: its settings, its variables and its database.

``settings={…}`` of an operator, ``--hiveconf`` of the CLI and SET in the script are one thing: the first two are there
when the script begins. All of it ends with the script.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.choice import locking_of
from airflow_hive_acid.engine.outcomes.events import SettingUnread
from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.settings import Source, session_setting, setting_of
from airflow_hive_acid.sql.model.session import Reset, SetValue, ShowValues, Space, Use
from airflow_hive_acid.sql.text.masking import HIDDEN, is_secret
from airflow_hive_acid.sql.text.variables import Variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.model.session import SessionStatement
    from airflow_hive_acid.sql.model.statements import Statement

_UNDEFINED = "{} is undefined"
"""Hive's words."""


class Session:
    """The settings and variables of one script.

    :param settings: what is set when it begins, by Hive's key or as ``metastore.*``.
    :param variables: its ``hivevar`` variables.
    :raises InvalidArgumentsError: for a setting that a script cannot set, and for a value that is not of its type.
    """

    def __init__(
        self,
        context: Context,
        settings: Mapping[str, object] | None = None,
        variables: Mapping[str, object] | None = None,
    ) -> None:
        self._context = context
        self._own, self._locking = context.settings, context.locking
        self._begins: dict[str, str] = {}
        self._unread: dict[str, str] = {}
        for key, value in (settings or {}).items():
            _keep(self._begins, self._unread, key, _text(value))
        self._begins_unread = dict(self._unread)
        self._set = dict(self._begins)
        self._hivevar = {str(name): _text(value) for name, value in (variables or {}).items()}
        self._in_force = self._own.in_session(self._set)

    def variables(self) -> Variables:
        """What the script may name in ``${…}`` when it begins."""
        return Variables(dict(self._hivevar), self._setting_text, dict(self._unread))

    @staticmethod
    def check(statements: Iterable[Statement]) -> None:
        """Refuse what a script sets and cannot set, before its first statement runs.

        :raises InvalidArgumentsError: names the setting and its line.
        """
        for statement in statements:
            if isinstance(statement, SetValue) and statement.space is Space.HIVECONF:
                try:
                    session_setting(statement.name, statement.value)
                except InvalidArgumentsError as error:
                    raise InvalidArgumentsError(f"line {statement.line}: {error}") from None

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Around the script: what it sets is in force inside, for its thread alone."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._leave)
            self._stack = stack
            self._enforce(self._in_force)
            for key in self._unread:
                self._context.emit(SettingUnread(key))
            yield

    def run(self, statement: SessionStatement) -> Rows | None:
        """Run USE, SET or RESET.

        :return: what SET prints.
        :raises NoSuchObjectError: for a database that is not there.
        """
        match statement:
            case Use(database=database):
                self._context.client.catalog.get_database(database)
            case SetValue(space=Space.HIVEVAR, name=name, value=value):
                self._hivevar[name] = value
            case SetValue(name=name, value=value):
                if not _keep(self._set, self._unread, name, value):
                    self._context.emit(SettingUnread(name))
                self._enforce(self._own.in_session(self._set))
            case Reset(names=names):
                self._reset(names)
            case ShowValues():
                found = self._shown(statement)
                return Rows((Column("set", "string"),), [[line] for line in found])
        return None

    def _reset(self, names: tuple[str, ...]) -> None:
        for name in names or [*self._set, *self._unread]:
            setting = setting_of(name)
            key, values, begins = (
                (name.lower(), self._unread, self._begins_unread)
                if setting is None
                else (setting.key, self._set, self._begins)
            )
            if key in begins:
                values[key] = begins[key]
            else:
                values.pop(key, None)
        self._enforce(self._own.in_session(self._set))

    def _shown(self, statement: ShowValues) -> list[str]:
        name = statement.name
        if name is None:
            values = {
                found.setting.key: found.text
                for found in self._in_force
                if statement.everything or found.source is not Source.DEFAULT
            }
            values |= self._unread | {f"{Space.HIVEVAR.value}:{key}": text for key, text in self._hivevar.items()}
            return [_line(key, values[key]) for key in sorted(values)]
        if statement.space is Space.HIVEVAR:
            text = self._hivevar.get(name)
            name = f"{Space.HIVEVAR.value}:{name}"
        else:
            text = self._unread.get(name.lower(), self._setting_text(name))
        return [_UNDEFINED.format(name) if text is None else _line(name, text)]

    def _setting_text(self, key: str) -> str | None:
        setting = setting_of(key)
        return None if setting is None else self._in_force[setting.key].text

    def _enforce(self, settings: Settings) -> None:
        context = self._context
        if settings is context.settings:
            return
        self._in_force = context.settings = settings
        context.locking = locking_of(context.client, settings, context.tables, context.agent_info)
        self._stack.enter_context(context.client.with_settings(settings))

    def _leave(self) -> None:
        self._context.settings, self._context.locking = self._own, self._locking


def _keep(settings: dict[str, str], unread: dict[str, str], key: str, value: str) -> bool:
    """Keep a value where it belongs.

    :return: whether something reads it.
    """
    setting = session_setting(key, value)
    if setting is None:
        unread[key.lower()] = value
        return False
    settings[setting.key] = value
    return True


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _line(key: str, text: str) -> str:
    return f"{key}={HIDDEN if is_secret(key) else text}"
