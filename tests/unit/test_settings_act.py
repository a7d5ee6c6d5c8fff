"""Every setting of the table is read by some code, and changes what that code does."""

from __future__ import annotations

import ast
import functools
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine.streams.budget import Budget
from airflow_hive_acid.maintenance.measures import health
from airflow_hive_acid.maintenance.reaper.history import retention
from airflow_hive_acid.maintenance.thresholds import CleanerThresholds, InitiatorThresholds
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.locks import legacy_lock_manager
from airflow_hive_acid.metastore.protocol.back_off import total_ms
from airflow_hive_acid.settings import SETTINGS, Kind, Setting, Settings, Source
from airflow_hive_acid.settings_table import ZOOKEEPER_LOCK_MANAGER
from airflow_hive_acid.sql.locks.rules import LockSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = Path(health.__file__).parents[2]
TESTS = Path(__file__).parents[1]
#: Where keys are listed, not read.
_LISTS = {"settings_table.py", "provider_settings.py"}
#: Its description says that it changes nothing.
_ACCEPTED = {"hive.enforce.bucketing"}
#: Nothing is asked there, so no file comes into being.
_URL = f"sqlite:///{Path(tempfile.gettempdir()) / 'nobody-asks-this-metastore.db'}"


@functools.cache
def _texts() -> frozenset[str]:
    """The string constants of the package outside the lists, docstrings left out; what is put in is a ``*``."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name in _LISTS or not any(f"{first}." in text for first in {key.partition(".")[0] for key in SETTINGS}):
            continue
        docstrings = set()
        for node in ast.walk(ast.parse(text)):  # a statement comes before what is in it
            if isinstance(node, ast.Expr):
                docstrings.add(id(node.value))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                found.add(node.value)
    return frozenset(found)


class _Reads(Settings):
    """Settings that remember what was asked for."""

    __slots__ = ("asked",)

    def __init__(self, sources: Any = None) -> None:
        self.asked: set[str] = set()
        super().__init__(sources)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)


def _picture(value: Any, depth: int = 3) -> Any:
    """What an object was made with: its plain values, and those of what it holds."""
    if value is None or isinstance(value, str | int | float | bool | frozenset | re.Pattern):
        return value
    if isinstance(value, Settings) or depth == 0:
        return type(value).__name__
    if isinstance(value, list | tuple):
        return [_picture(one, depth - 1) for one in value]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    held = {**{name: getattr(value, name, None) for name in slots}, **getattr(value, "__dict__", {})}
    return {name: _picture(one, depth - 1) for name, one in sorted(held.items()) if name != "_client"}


def _client(settings: Settings) -> Any:
    with MetastoreClient(_URL, settings, user="ann", host="here") as client:
        parts = (client, client.heartbeats, client.database, client.notifications, client.housekeeping, client.leases)
        return [*map(_picture, parts), _picture(client.cache)]


def _legacy(settings: Settings) -> Any:
    settings = _with(settings, {"hive.zookeeper.quorum": settings.string("hive.zookeeper.quorum") or "one,two"})
    with MetastoreClient(_URL, settings, user="ann", host="here") as client:
        return _picture(legacy_lock_manager(client.database, settings), 2)


def _with(settings: Settings, over: dict[str, str]) -> Settings:
    """The same with more; what is read of it counts as read of the first."""
    changed = _Reads({**settings._sources, Source.REQUEST: {**settings._sources.get(Source.REQUEST, {}), **over}})
    if isinstance(settings, _Reads):
        changed.asked = settings.asked
    return changed


def _zookeeper(settings: Settings) -> Any:
    return _legacy(_with(settings, {"hive.lock.manager": ZOOKEEPER_LOCK_MANAGER}))


def _limits(settings: Settings) -> list[Any]:
    return [list(rule.limits(settings)) for rule in health._RULES.values()]


def _delayed(settings: Settings) -> CleanerThresholds:
    if settings.flag("hive.compactor.delayed.cleanup.enabled"):
        return CleanerThresholds.of(settings)
    return CleanerThresholds.of(_with(settings, {"hive.compactor.delayed.cleanup.enabled": "true"}))


_PROBES: dict[str, Callable[[Settings], Any]] = {
    "Initiator": InitiatorThresholds.of,
    "Cleaner": CleanerThresholds.of,
    "Cleaner, delayed": _delayed,
    "history": retention,
    "stream": Budget.of,
    "locks of statements": LockSettings.of,
    "health": _limits,
    "client": _client,
    "legacy locks": _legacy,
    "ZooKeeper": _zookeeper,
    "back-off": lambda s: total_ms(
        s.integer("hive.lock.numretries"), s.milliseconds("hive.lock.sleep.between.retries")
    ),
}


def _other(setting: Setting) -> str:
    """Another value of a setting, as it would be written."""
    default = Settings()[setting.key].value
    match setting.kind:
        case Kind.FLAG:
            return str(not default).lower()
        case Kind.DURATION:
            return f"{int(default) + 7_000}ms"
        case Kind.NUMBER:
            return str(float(default) + 0.25)
        case Kind.INTEGER:
            return str(int(default) - 1 if setting.key.endswith("failed.compacts.threshold") else int(default) + 7)
        case Kind.TEXT:
            return next((choice for choice in setting.choices if choice != default), "something,else")


def _changed(setting: Setting) -> Settings:
    return _Reads({Source.AIRFLOW: {setting.key: _other(setting)}})


def _probed() -> set[str]:
    read: set[str] = set()
    for probe in _PROBES.values():
        settings = _Reads()
        settings.asked.clear()
        probe(settings)
        read |= settings.asked
    return read


def test_every_setting_is_read_by_some_code_outside_the_table() -> None:
    named = _texts() | _probed()
    assert [key for key in SETTINGS if key not in named and key not in _ACCEPTED] == []


def test_a_setting_that_is_read_by_nothing_would_be_found() -> None:
    assert "hive.exim.uri.scheme.whitelist" not in _texts() | _probed()
    assert not _ACCEPTED & _texts()


@functools.cache
def _keys_of_probes() -> list[tuple[str, str]]:
    """Each probe with the settings that it reads; what only another setting of its own chooses counts there."""
    pairs = []
    for name, probe in _PROBES.items():
        settings = _Reads()
        settings.asked.clear()
        probe(settings)
        pairs += [(key, name) for key in sorted(settings.asked)]
    return pairs


#: Asked for only to see whether they agree with another one, or by what the picture does not show.
_ONLY_CHECKED = {
    "hive.compactor.history.retention.failed", "hive.compactor.initiator.failed.compacts.threshold",
    # Files, and what goes together; tests/unit/metastore/locks/test_zookeeper_access.py has them.
    "hive.acid.zookeeper.ssl.ca", "hive.acid.zookeeper.ssl.certificate", "hive.acid.zookeeper.ssl.key",
    "hive.acid.zookeeper.ssl.key.password.file", "hive.acid.zookeeper.user", "hive.acid.zookeeper.password.file",
}  # fmt: skip


@pytest.mark.parametrize("key", sorted({key for key, _ in _keys_of_probes()} - _ONLY_CHECKED))
def test_another_value_of_a_setting_changes_what_is_made_with_it(key: str) -> None:
    names = [name for found, name in _keys_of_probes() if found == key]
    default, changed = Settings(), _changed(SETTINGS[key])
    assert any(_PROBES[name](default) != _PROBES[name](changed) for name in names), (
        f"{key} is read for {', '.join(names)} and changes none of them"
    )


@functools.cache
def _marked(folder: Path) -> dict[str, list[str]]:
    """The tests that carry the mark ``setting``, by the keys that they change."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "setting(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for key in _keys_of_mark(node):
                    found.setdefault(key, []).append(f"{path.name}::{node.name}")
    return found


def _keys_of_mark(test: ast.FunctionDef) -> Iterator[str]:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) in ("pytest.mark.setting", "setting"):
            yield from (argument.value for argument in mark.args if isinstance(argument, ast.Constant))


def _tried(folder: Path) -> set[str]:
    return set(_marked(folder)) | ({key for key, _ in _keys_of_probes()} - _ONLY_CHECKED)


def test_every_setting_is_tried_with_another_value() -> None:
    """By a probe here, or by a test with the mark ``setting``: it changes the setting and sees something else done."""
    untried = sorted(set(SETTINGS) - _tried(TESTS) - _ACCEPTED)
    assert untried == [], "write a test that changes it, and give it @pytest.mark.setting(key)"


def test_what_is_marked_is_a_setting() -> None:
    unknown = {key: tests for key, tests in _marked(TESTS).items() if key not in SETTINGS}
    assert unknown == {}


def test_a_setting_without_a_test_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        'import pytest\n\n@pytest.mark.setting("hive.acid.commit.events")\ndef test_it(): ...\n'
    )
    assert _marked(tmp_path) == {"hive.acid.commit.events": ["test_some.py::test_it"]}
    assert "hive.acid.cache.enabled" not in _tried(tmp_path)
