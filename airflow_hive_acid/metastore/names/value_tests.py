"""Comparisons of partition values in ``DROP PARTITION (k < 10, …)``: decided here, because what is dropped is gone.

Values compare as those of their column's type, and NULL as in Hive's ``BaseSemanticAnalyzer``: by ``=`` and ``<>`` of
``__HIVE_DEFAULT_PARTITION__`` alone.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.metastore.names.partition_values import comparable, is_text_type, normal_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal

_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ValueTest:
    """``column <sign> value``.

    :param type: of the column, as the catalog holds it.
    :param wanted: what values are compared with; None for NULL.
    """

    type: str
    sign: str
    wanted: Decimal | str | None

    @classmethod
    def of(cls, column: str, type_text: str, sign: str, value: str) -> ValueTest:
        """The test that a clause means.

        :param column: for messages.
        :param sign: one of ``= <> < <= > >=``.
        :raises InvalidArgumentsError: for what is no value of the type, and for the order of NULL.
        """
        if value == DEFAULT_PARTITION:
            if sign not in ("=", "<>"):
                raise InvalidArgumentsError(
                    f"partition column {column}: nothing is {sign} {DEFAULT_PARTITION}, which stands for NULL; it is "
                    "compared by = and <>"
                )
            return cls(type_text, sign, None)
        stored = normal_value(column, type_text, value)
        # Equal is what INSERT would put there; 1.555 is between 1.55 and 1.56, however a decimal is rounded.
        same = sign in ("=", "<>") and not is_text_type(type_text)
        wanted = comparable(type_text, stored if same else value)
        if wanted is None:
            raise InvalidArgumentsError(f"partition column {column} is {type_text}; {value!r} is no value of that type")
        return cls(type_text, sign, wanted)

    def holds(self, value: str) -> bool | None:
        """Whether it is true of a value of the catalog; None when that is no value of the type.

        NULL fulfils no comparison with a value.
        """
        if self.wanted is None or value == DEFAULT_PARTITION:
            return self.wanted is None and (value == DEFAULT_PARTITION) == (self.sign == "=")
        own = comparable(self.type, value)
        return None if own is None else _SIGNS[self.sign](own, self.wanted)
