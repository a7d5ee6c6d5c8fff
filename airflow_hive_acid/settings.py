"""Every setting, in one typed table: Hive's key, Hive's unit, our default and Hive's own beside it.

The keys and their meaning come from the Hive Transactions and Hive Concurrency Model documents and, where marked,
from Hive 4's ``MetastoreConf``. Our default is the value that Hive requires for transactions, so nothing needs to be
switched on. A value is looked up, in this order, in: request properties, table properties, connection extra, Airflow's
``[hive_acid]`` section, ``hive-site.xml``; then our default. Keys are compared without regard to case.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError, unreadable
from airflow_hive_acid.settings_table import SESSION_SETTINGS, SETTINGS, Kind, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = [
    "SESSION_SETTINGS", "SETTINGS", "Kind", "Resolved", "Setting", "Settings", "Source", "read_hive_site",
    "session_setting", "setting_of",
]  # fmt: skip

#: As Hive reads them: by the whole word, or by its beginning; ``30 seconds`` as well as ``30s``. In nanoseconds.
_UNITS = (
    ("d", "day", 86_400 * 10**9), ("h", "hour", 3_600 * 10**9), ("m", "min", 60 * 10**9), ("s", "sec", 10**9),
    ("ms", "msec", 10**6), ("us", "usec", 1000), ("ns", "nsec", 1),
)  # fmt: skip
_NS_IN_MS = 10**6
_LARGEST = 10**15
"""Largest number of a setting; in milliseconds that is 30,000 years, and may be added to any clock."""
_DURATION = re.compile(r"^(-?\d+)\s*([a-z]*)$")
_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}
#: Prefixes under which Hive itself accepts overrides in table and request properties.
THRESHOLD_PREFIX = "compactorthreshold."


class Source(Enum):
    """Where a value comes from, strongest first."""

    SESSION = "SET in the script"
    REQUEST = "request properties"
    TABLE = "table property"
    CONNECTION = "connection extra"
    AIRFLOW = "airflow.cfg [hive_acid]"
    HIVE_SITE = "hive-site.xml"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A setting with its value and where the value came from.

    :param value: int (milliseconds for durations), float, bool or str, by the setting's kind.
    :param text: the value as it was written.
    """

    setting: Setting
    value: int | float | bool | str
    text: str
    source: Source


class Settings:
    """The settings in force; immutable, made once at the edge and handed down.

    :param sources: values by source; keys are Hive's names or their ``metastore.*`` spellings. Keys that are no
        setting of ours are ignored: the same places hold other programs' settings.
    :raises InvalidArgumentsError: when a known key has a value that is not of its type; names key, value and source.
    """

    __slots__ = ("_sources", "_values")

    def __init__(self, sources: Mapping[Source, Mapping[str, str]] | None = None) -> None:
        self._sources = {s: dict(v) for s, v in (sources or {}).items()}
        given = _given(self._sources)
        self._values = {
            s.key: _resolved(s, *given[s.key]) if s.key in given else _default(s) for s in SETTINGS.values()
        }
        self._check_together()

    def __getitem__(self, key: str) -> Resolved:
        try:
            return self._values[key]
        except KeyError:
            raise InvalidArgumentsError(f"{key!r} is no setting; 'hive-acid settings' prints them all") from None

    def __iter__(self) -> Iterator[Resolved]:
        return iter(self._values.values())

    def milliseconds(self, key: str) -> int:
        """A duration in milliseconds."""
        return int(self._typed(key, Kind.DURATION))

    def seconds(self, key: str) -> float:
        """A duration in seconds."""
        return self.milliseconds(key) / 1000

    def integer(self, key: str) -> int:
        """A whole number."""
        return int(self._typed(key, Kind.INTEGER))

    def number(self, key: str) -> float:
        """A number with a fraction."""
        return float(self._typed(key, Kind.NUMBER))

    def flag(self, key: str) -> bool:
        """A switch."""
        return bool(self._typed(key, Kind.FLAG))

    def string(self, key: str) -> str:
        """A text."""
        return str(self._typed(key, Kind.TEXT))

    def with_overrides(self, source: Source, properties: Mapping[str, str]) -> Settings:
        """The same settings with the properties of a table or request laid over them.

        :param source: ``Source.TABLE`` or ``Source.REQUEST``; thresholds may carry Hive's prefix
            ``compactorthreshold.``.
        """
        stripped = {_without_prefix(k): v for k, v in properties.items()}
        return Settings({**self._sources, source: stripped})

    def in_session(self, properties: Mapping[str, str]) -> Settings:
        """The same settings as a script has them that has set these.

        :param properties: by key, those of :data:`SESSION_SETTINGS` alone.
        """
        return Settings({**self._sources, Source.SESSION: dict(properties)}) if properties else self

    def _typed(self, key: str, kind: Kind) -> Any:
        resolved = self[key]
        if resolved.setting.kind is not kind:
            raise TypeError(f"{key} is a {resolved.setting.kind.value}, not a {kind.value}")
        return resolved.value

    def _check_together(self) -> None:
        """The document's rule: scheduling counts failures in the history, so the history must hold more of them."""
        threshold = self.integer("hive.compactor.initiator.failed.compacts.threshold")
        kept = self.integer("hive.compactor.history.retention.failed")
        if threshold >= kept:
            raise InvalidArgumentsError(
                f"hive.compactor.initiator.failed.compacts.threshold is {threshold} and must be less than the failed "
                f"compactions kept in history; raise hive.compactor.history.retention.failed (now {kept})"
            )


def read_hive_site(path: Path, what: str = "the configuration") -> dict[str, str]:
    """The properties of a ``hive-site.xml``, or of another file of Hadoop's settings.

    :param what: the option or setting that names the file, for messages.
    :raises InvalidArgumentsError: when the file cannot be read or is no Hadoop configuration.
    """
    from xml.etree import ElementTree

    try:
        text = path.read_text(encoding="utf-8")
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise InvalidArgumentsError(f"{what} {path} holds a document type or entity, which is not accepted")
        root = ElementTree.fromstring(text)  # noqa: S314 - documents that could expand entities are refused above
    except (OSError, UnicodeDecodeError, ElementTree.ParseError) as error:
        raise unreadable(f"{what} {path}", error) from error
    if root.tag != "configuration":
        raise InvalidArgumentsError(
            f"{what} {path} is no Hadoop configuration: its root element is <{root.tag}>, not <configuration>"
        )
    properties = {}
    for entry in root.iter("property"):
        name, value = entry.findtext("name"), entry.findtext("value")
        if name is not None and value is not None:
            properties[name.strip()] = value.strip()
    return properties


def parse_duration(text: str, default_unit: str) -> int:
    """A duration in milliseconds from Hive's form: a number with an optional unit.

    :param default_unit: unit of a bare number, as Hive defines it for the key.
    :raises ValueError: when the text is no duration.
    """
    match = _DURATION.match(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is no duration; write for example 300, 300s, 5m or 12h")
    number, given = int(match.group(1)), match.group(2)
    unit = default_unit if given in ("", "l") else given
    for whole, beginning, nanoseconds in _UNITS:
        if unit == whole or unit.startswith(beginning):
            return number * nanoseconds // _NS_IN_MS
    raise ValueError(f"{text!r} has the unknown unit {given!r}; known are ms, s, m, h and d")


def setting_of(key: str) -> Setting | None:
    """The setting that a key means, in Hive's spelling or as ``metastore.*``, in any case; None for none of ours."""
    return _BY_NAME.get(key.strip().lower())


def check_keys(keys: Iterable[str], what: str) -> None:
    """Refuse keys that are no settings.

    :param what: the option that they were given with, for the message.
    :raises InvalidArgumentsError: naming the first, and the setting that was probably meant.
    """
    for key in keys:
        if setting_of(key) is None:
            near = _nearly(key)
            hint = f"did you mean {near}?" if near else "'hive-acid settings' prints those there are"
            raise InvalidArgumentsError(f"{what} {key}: there is no such setting; {hint}")


def _nearly(key: str) -> str | None:
    # The keys are long and much alike: only what differs in a letter or two is taken for a slip.
    return next(iter(difflib.get_close_matches(key.strip().lower(), list(_BY_NAME), 1, cutoff=0.94)), None)


def session_setting(key: str, value: str) -> Setting | None:
    """The setting that a script may set by this key; None for a key that nothing here reads.

    :raises InvalidArgumentsError: when a script cannot set it, when the value is not of its type, and for a key that is
        spelt nearly as a setting.
    """
    setting = setting_of(key)
    if setting is None:
        near = _nearly(key)
        if near is not None:
            raise InvalidArgumentsError(f"there is no setting {key}; did you mean {near}?")
        return None
    if setting.key not in SESSION_SETTINGS:
        raise InvalidArgumentsError(
            f"{setting.key} cannot be set in a script: it holds for all who use the connection or the metastore. Set "
            "it in the connection's extra, in [hive_acid] of airflow.cfg, in hive-site.xml, or with hive-acid --set"
        )
    _parse(setting, value, Source.SESSION.value)
    return setting


def _without_prefix(key: str) -> str:
    return key[len(THRESHOLD_PREFIX) :] if key.lower().startswith(THRESHOLD_PREFIX) else key


def _given(sources: Mapping[Source, Mapping[str, str]]) -> dict[str, tuple[str, Source]]:
    """What the strongest source says of each setting that any names."""
    found: dict[str, tuple[str, Source]] = {}
    for source in Source:
        for name, text in sources.get(source, {}).items():
            setting = _BY_NAME.get(name.lower())
            if setting is not None:
                found.setdefault(setting.key, (str(text), source))
    return found


def _resolved(setting: Setting, text: str, source: Source) -> Resolved:
    return Resolved(setting, _parse(setting, text, source.value), text, source)


@cache
def _default(setting: Setting) -> Resolved:
    """Made once: there are many settings, every hook reads them all, and hardly any is given."""
    return _resolved(setting, setting.default, Source.DEFAULT)


def _parse(setting: Setting, text: str, origin: str) -> int | float | bool | str:
    try:
        value = _convert(setting, text.strip())
    except ValueError as error:
        raise InvalidArgumentsError(f"{setting.key} = {text!r} ({origin}): {error}") from None
    if not isinstance(value, str) and not -_LARGEST <= value <= _LARGEST:  # NaN is neither
        raise InvalidArgumentsError(f"{setting.key} = {text[:80]!r} ({origin}): is out of range")
    if setting.minimum is not None and not isinstance(value, str) and value < setting.minimum:
        raise InvalidArgumentsError(f"{setting.key} = {text!r} ({origin}): must be at least {setting.minimum}")
    if setting.choices and value not in setting.choices:
        raise InvalidArgumentsError(f"{setting.key} = {text!r} ({origin}): must be one of {', '.join(setting.choices)}")
    return value


def _convert(setting: Setting, text: str) -> int | float | bool | str:
    match setting.kind:
        case Kind.DURATION:
            return parse_duration(text, setting.unit)
        case Kind.INTEGER:
            return _number(int, text, "a whole number")
        case Kind.NUMBER:
            return _number(float, text, "a number")
        case Kind.FLAG:
            if text.lower() in _TRUE | _FALSE:
                return text.lower() in _TRUE
            raise ValueError("must be true or false")
        case Kind.TEXT:
            return text


def _number(kind: type[int] | type[float], text: str, what: str) -> int | float:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"must be {what}") from None


_BY_NAME = {name.lower(): setting for setting in SETTINGS.values() for name in (setting.key, *setting.aliases)}
