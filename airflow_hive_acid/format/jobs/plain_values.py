"""Frozen dataclasses out of the plain values that JSON holds: every value is checked against its field's type.

What a class does not know is refused, and a message names the place (``JobSpec.step.insert.write_id``).
"""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any, Literal

_LARGEST = (1 << 63) - 1
_LONGEST = 100


def build(kind: Any, value: Any, where: str) -> Any:
    """Rebuild a value of a type from plain JSON.

    Of a union of dataclasses the value's ``kind`` names the one: each says its own in a class variable ``kind``.

    :param kind: a dataclass, a union of dataclasses, or what their fields are made of: text, numbers, truth values,
        ``dict``, ``tuple``, ``Literal`` and ``X | None``.
    :param where: the place, for messages.
    :raises ValueError: when the value is none of that type; names the place.
    """
    origin = typing.get_origin(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        return _build_dataclass(kind, value, where)
    if origin is tuple:
        return _build_tuple(kind, value, where)
    if origin in (typing.Union, types.UnionType):
        return _build_one_of(kind, value, where)
    if origin is dict:
        return _build_dict(kind, value, where)
    if origin is Literal:
        if not isinstance(value, str) or value not in typing.get_args(kind):
            raise ValueError(f"{where} must be one of {typing.get_args(kind)}, not {shown(value)}")
        return value
    if kind is Any:
        return value
    if kind is float and type(value) is int and abs(value) < _LARGEST:
        return float(value)
    # True is no number here, as in JSON.
    if type(value) is not kind or (kind is int and abs(value) > _LARGEST):
        raise ValueError(f"{where} must be {getattr(kind, '__name__', kind)}, not {shown(value)}")
    return value


def shown(value: Any) -> str:
    """A value in a message: the beginning of it, whatever it is."""
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value)}"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a number of more than 64 bits"
    return ascii(value[:_LONGEST] if isinstance(value, str) else value)


def _build_one_of(union: Any, value: Any, where: str) -> Any:
    members = typing.get_args(union)
    if type(None) in members:
        inner = next(member for member in members if member is not type(None))
        return None if value is None else build(inner, value, where)
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object, not {shown(value)}")
    value = dict(value)
    name = value.pop("kind", None)
    for member in members:
        if member.kind == name:
            return build(member, value, f"{where}.{name}")
    raise ValueError(f"{where}: unknown {where.rpartition('.')[2]} {shown(name)}")


def _build_dict(kind: Any, value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object, not {shown(value)}")
    _, of = typing.get_args(kind)
    return {key: build(of, one, f"{where}.{key[:_LONGEST]}") for key, one in value.items()}


def _build_tuple(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    args = typing.get_args(kind)
    if not isinstance(value, list):
        raise ValueError(f"{where} must be a list, not {shown(value)}")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(build(args[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if len(value) != len(args):
        raise ValueError(f"{where} must be a list of {len(args)}, not of {len(value)}")
    return tuple(build(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(args, value, strict=True)))


def _build_dataclass(kind: type[Any], value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object, not {shown(value)}")
    hints = typing.get_type_hints(kind)
    known = {f.name for f in fields(kind)}
    unknown = sorted(set(value) - known)
    if unknown:
        names = ", ".join(shown(name) for name in unknown[:5])
        raise ValueError(f"{where} has unknown fields [{names}]")
    built = {k: build(hints[k], v, f"{where}.{k}") for k, v in value.items()}
    try:
        return kind(**built)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from None
