"""What a query may say of one look at a table, behind its name in FROM.

``t('acid.fetch.deleted.rows'='true')`` is Hive's; ``t FOR SYSTEM_VERSION AS OF PIN 'month_end'`` reads what a pin
sees, ``t VERSION AS OF 5`` and ``t TIMESTAMP AS OF '…'`` what there was, ``t [NET] CHANGES BETWEEN 5 AND 9 [KEY (id)]``
what those write ids have changed. sqlglot knows few of them, so they are taken out of the tokens before it parses, and
put beside the table's name in its tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokenizer_core import Token

OPTIONS = "hive_acid_options"
"""Key of a table's ``meta``: its option."""
_OPTION_PREFIX = "acid."
_PROPERTY = (TokenType.L_PAREN, TokenType.STRING, TokenType.EQ, TokenType.STRING, TokenType.R_PAREN)
_VERSIONS, _TIMES = ("VERSION", "SYSTEM_VERSION"), ("TIMESTAMP", "SYSTEM_TIME")
_PIN = ("FOR", "SYSTEM_VERSION", "AS", "OF", "PIN")
_FIRST_WORDS = frozenset((_PIN[0], "NET", "CHANGES", *_VERSIONS, *_TIMES))


@dataclass(frozen=True, slots=True)
class PropertyOption:
    """A table property for one look at the table.

    :param end: place of the last character.
    """

    key: str
    value: str
    end: int

    @property
    def shown(self) -> str:
        """For messages."""
        return f"'{self.key}'"


@dataclass(frozen=True, slots=True)
class PinOption:
    """The table as a pin sees it."""

    name: str
    end: int

    @property
    def shown(self) -> str:
        """For messages."""
        return f"FOR SYSTEM_VERSION AS OF PIN '{self.name}'"


@dataclass(frozen=True, slots=True)
class AsOfOption:
    """The table as it was.

    :param moment: a write id, or a time as its text.
    """

    moment: int | str
    end: int

    @property
    def shown(self) -> str:
        """For messages."""
        version = isinstance(self.moment, int)
        return f"VERSION AS OF {self.moment}" if version else f"TIMESTAMP AS OF '{self.moment}'"


@dataclass(frozen=True, slots=True)
class ChangesOption:
    """What a range of write ids has changed; see :class:`~airflow_hive_acid.format.changes.Changes`."""

    first: int
    last: int
    net: bool
    key: tuple[str, ...]
    end: int

    @property
    def shown(self) -> str:
        """For messages."""
        return f"CHANGES BETWEEN {self.first} AND {self.last}"


Option = PropertyOption | PinOption | AsOfOption | ChangesOption


def table_options(tokens: Sequence[Token]) -> tuple[dict[int, Option], list[Token]]:
    """Options by the place of the table's name, and the tokens without them."""
    options: dict[int, Option] = {}
    left: list[Token] = []
    at = 0
    while at < len(tokens):
        left.append(tokens[at])
        at += 1
        if at == len(tokens):
            break
        found = None
        # Once for each value of a long VALUES: the first token decides what it can be.
        if tokens[at].token_type is TokenType.L_PAREN:
            found = _property(tokens, at)
        elif tokens[at].text.upper() in _FIRST_WORDS:
            found = _pin(tokens, at) or _as_of(tokens, at) or _changes(tokens, at)
        if found is not None:
            option, length = found
            options[left[-1].start] = option
            at += length
    return options, left


def _property(tokens: Sequence[Token], at: int) -> tuple[Option, int] | None:
    following = tokens[at : at + len(_PROPERTY)]
    if tuple(token.token_type for token in following) != _PROPERTY:
        return None
    if not following[1].text.lower().startswith(_OPTION_PREFIX):
        return None
    return PropertyOption(following[1].text.lower(), following[3].text, following[-1].end), len(_PROPERTY)


def _pin(tokens: Sequence[Token], at: int) -> tuple[Option, int] | None:
    if _words(tokens, at, len(_PIN)) != _PIN or at + len(_PIN) >= len(tokens):
        return None
    name = tokens[at + len(_PIN)]
    if name.token_type is not TokenType.STRING:
        return None
    return PinOption(name.text, name.end), len(_PIN) + 1


def _as_of(tokens: Sequence[Token], at: int) -> tuple[Option, int] | None:
    """``[FOR] VERSION AS OF 5`` or ``'pin'``; ``[FOR] TIMESTAMP AS OF '…'``; Hive's words with SYSTEM_."""
    start = at
    at += _words(tokens, at, 1) == ("FOR",)
    word = _words(tokens, at, 1)
    if _words(tokens, at + 1, 2) != ("AS", "OF") or len(tokens) <= at + 3:
        return None
    at += 3
    if word[0] in _TIMES:
        at += _words(tokens, at, 1)[0] in ("TIMESTAMP", "DATE") and len(tokens) > at + 1
        value = tokens[at]
        if value.token_type is not TokenType.STRING:
            return None
        return AsOfOption(value.text, value.end), at + 1 - start
    value = tokens[at]
    if word[0] not in _VERSIONS:
        return None
    if value.token_type is TokenType.STRING:
        return PinOption(value.text, value.end), at + 1 - start
    if value.token_type is TokenType.NUMBER and value.text.isdecimal():
        return AsOfOption(int(value.text), value.end), at + 1 - start
    return None


def _changes(tokens: Sequence[Token], at: int) -> tuple[Option, int] | None:
    start = at
    net = _words(tokens, at, 1) == ("NET",)
    at += net
    if _words(tokens, at, 2) != ("CHANGES", "BETWEEN") or len(tokens) < at + 5:
        return None
    first, middle, last = tokens[at + 2 : at + 5]
    if middle.token_type is not TokenType.AND or not all(t.text.isdecimal() for t in (first, last)):
        return None
    at += 5
    key: list[str] = []
    end = last.end
    if _words(tokens, at, 2) == ("KEY", "("):
        at += 1
        while tokens[at].token_type is not TokenType.R_PAREN:
            # A bracket or a comma, then a name; what is no list of names is no option, and refused where it stands.
            if len(tokens) < at + 3 or (key and tokens[at].token_type is not TokenType.COMMA):
                return None
            key.append(tokens[at + 1].text.lower())
            at += 2
        end = tokens[at].end
        at += 1
    return ChangesOption(int(first.text), int(last.text), net, tuple(key), end), at - start


def _words(tokens: Sequence[Token], at: int, number: int) -> tuple[str, ...]:
    quoted = (TokenType.STRING, TokenType.IDENTIFIER)
    return tuple("" if t.token_type in quoted else t.text.upper() for t in tokens[at : at + number])
