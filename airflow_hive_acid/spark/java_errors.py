"""Exceptions of the JVM, as Python sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError


def is_java(error: Py4JJavaError, class_name: str) -> bool:
    """Whether a Java exception is of a class or of one derived from it."""
    kind = error.java_exception.getClass()
    while kind is not None:
        if kind.getName() == class_name:
            return True
        kind = kind.getSuperclass()
    return False


def java_message(error: Py4JJavaError) -> str:
    """The first line of what a Java exception says."""
    return str(error.java_exception.toString()).partition("\n")[0]
