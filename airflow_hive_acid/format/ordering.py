"""What may follow ORDER BY of a rebalance: columns with their directions, and nothing else.

The text stands in a queue that others write as well (a real Hive, whoever may edit the database), and a Worker runs
it with its own rights. So it is never handed on: it is read into a value here, by everybody who meets it, and the
value is what is run. Hive keeps it in ``COMPACTION_QUEUE.CQ_ORDER_BY``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.identifiers import quoted_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 4000
"""Characters that ``CQ_ORDER_BY`` holds."""
_BEGIN = re.compile(r"\s*(?:order\s+by\b)?", re.IGNORECASE)
_TERM = re.compile(
    r"\s*(?:(?P<plain>\w+)|`(?P<quoted>(?:[^`]|``)+)`)(?P<direction>\s+asc\b|\s+desc\b|)"
    r"(?P<nulls>\s+nulls\s+first\b|\s+nulls\s+last\b|)\s*(?P<end>,|\Z)",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One column to order by.

    :param column: its name, as it was written.
    :param ascending: None: nothing was said, which means ascending.
    :param nulls_first: None: nothing was said.
    """

    column: str
    ascending: bool | None = None
    nulls_first: bool | None = None

    def __str__(self) -> str:
        name = self.column if _PLAIN.fullmatch(self.column) else quoted_name(self.column)
        direction = {None: "", True: " ASC", False: " DESC"}[self.ascending]
        nulls = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[self.nulls_first]
        return f"{name}{direction}{nulls}"


def read_order(text: str, columns: Iterable[str] | None = None) -> tuple[OrderTerm, ...]:
    """Read what somebody wants rows to be ordered by.

    :param text: ``a, b DESC NULLS LAST``, with or without ``ORDER BY`` before it.
    :param columns: those of the table; None: not known here.
    :return: the columns in their order.
    :raises InvalidArgumentsError: for anything that is no list of columns; names what is none.
    """
    begin = _BEGIN.match(text)
    position = begin.end() if begin is not None else 0
    if len(text) > _LONGEST:
        raise InvalidArgumentsError(f"ORDER BY of a rebalance has {len(text)} characters; at most {_LONGEST} are kept")
    terms: list[OrderTerm] = []
    more = True
    while more:
        term = _TERM.match(text, position)
        if term is None or (term["plain"] or "").isdecimal():
            raise InvalidArgumentsError(
                f"ORDER BY of a rebalance is a list of columns, each with ASC or DESC and NULLS FIRST or NULLS LAST; "
                f"this is none: {text[position : position + 60].strip()!r}"
            )
        more = term["end"] == ","
        position = term.end()
        terms.append(_term(term))
    _require_columns(terms, columns)
    return tuple(terms)


def order_text(terms: Iterable[OrderTerm]) -> str:
    """The text that the queue holds, from ORDER BY on; a real Hive reads it too."""
    return f"ORDER BY {', '.join(map(str, terms))}"


def _term(found: re.Match[str]) -> OrderTerm:
    direction, nulls = found["direction"].strip().lower(), " ".join(found["nulls"].lower().split())
    return OrderTerm(
        found["plain"] or found["quoted"].replace("``", "`"),
        None if not direction else direction == "asc",
        None if not nulls else nulls == "nulls first",
    )


def _require_columns(terms: Iterable[OrderTerm], columns: Iterable[str] | None) -> None:
    if columns is None:
        return
    known = {name.lower() for name in columns}
    for term in terms:
        if term.column.lower() not in known:
            raise InvalidArgumentsError(
                f"ORDER BY of a rebalance names {term.column!r}, which is no column of the table; it has "
                f"{', '.join(sorted(known))[:500]}"
            )
