"""What makes the rows of a query others each time it is read, as far as its words tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokenizer_core import Token

_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_WITHOUT_SEED = {
    "RAND": 0, "RANDOM": 0, "RANDN": 0, "UUID": 0, "MONOTONICALLY_INCREASING_ID": 0, "SHUFFLE": 1, "RANDSTR": 1,
    "UNIFORM": 2,
}  # fmt: skip
"""Functions that are the same twice only when they are given a seed: how many arguments they have without one."""
_OF_JAVA = ("REFLECT", "TRY_REFLECT", "JAVA_METHOD")
"""Of these nobody knows: ``reflect('java.util.UUID', 'randomUUID')``."""


def chance_in(tokens: Sequence[Token]) -> tuple[str, Token] | None:
    """The first thing in a query by which two readers of it can get different rows.

    :return: what it is, in the query's words, and where it stands; None where nothing is found.
    """
    words = ["" if token.token_type in _QUOTED else token.text.upper() for token in tokens]
    for at, (token, word) in enumerate(zip(tokens, words, strict=True)):
        if at and words[at - 1] == ".":
            continue
        if word in _OF_JAVA or word in _WITHOUT_SEED:
            given = _arguments(words, at + 1)
            if given is not None and given == _WITHOUT_SEED.get(word, given):
                return f"{word.lower()}()", token
        if word == "TABLESAMPLE" and not _has_seed(words, at):
            return "TABLESAMPLE without REPEATABLE (seed)", token
        if word == "LIMIT" and tokens[at].token_type is TokenType.LIMIT and _takes_any(words, at):
            return "LIMIT without ORDER BY", token
    return None


def _arguments(words: Sequence[str], opening: int) -> int | None:
    """How many arguments stand in the parentheses that are opened there; None when none are."""
    if words[opening : opening + 1] != ["("]:
        return None
    inside = words[opening + 1 : _closing(words, opening)]
    depth, commas = 0, 0
    for word in inside:
        depth += (word in ("(", "[")) - (word in (")", "]"))
        commas += word == "," and depth == 0
    return commas + 1 if inside else 0


def _has_seed(words: Sequence[str], at: int) -> bool:
    """Whether a TABLESAMPLE is the same each time; so many ROWS are the first that come, whatever the seed is."""
    end = _closing(words, at + 1)
    return words[end + 1 : end + 2] == ["REPEATABLE"] and "ROWS" not in words[at:end]


def _closing(words: Sequence[str], opening: int) -> int:
    """Where the parenthesis is closed that is opened there."""
    depth = 0
    for at in range(opening, len(words)):
        depth += (words[at] == "(") - (words[at] == ")")
        if depth == 0:
            return at
    return len(words)


def _takes_any(words: Sequence[str], limit: int) -> bool:
    """Whether a LIMIT takes whichever rows come first; EXISTS asks for any, and all or no rows are always the same."""
    if words[limit + 1 : limit + 2] in (["ALL"], ["0"]):
        return False
    depth = 0
    for at in range(limit - 1, -1, -1):
        if words[at] == "(" and depth == 0:
            return at == 0 or words[at - 1] != "EXISTS"
        depth += (words[at] == ")") - (words[at] == "(")
        if depth == 0 and words[at].split()[:1] == ["ORDER"]:
            return False
    return True
