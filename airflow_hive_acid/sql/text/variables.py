"""``${hivevar:x}``, ``${hiveconf:x}`` and ``${x}`` in a script: exchanged as text, as Hive does, before it is parsed.

A value can be a name, a number or a piece of SQL; what it becomes is decided by the text around it. Two things that
Hive lets happen do not happen here: a value cannot end its statement, and a value that stands in quotes cannot end
those quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import TokenType

from airflow_hive_acid.errors import InvalidArgumentsError, SqlSyntaxError
from airflow_hive_acid.sql.text.source import SourceText, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlglot.tokenizer_core import Token

_PLACE = re.compile(r"\$\{(?:(?P<space>[A-Za-z]+):)?(?P<name>[^${}\s']+)\}")
_SET = re.compile(
    r"SET\s+(?:(?P<space>hiveconf|hivevar):)?(?P<name>[^\s=:]+)\s*=(?P<value>.*)", re.IGNORECASE | re.DOTALL
)
_RESET = re.compile(r"RESET(?P<names>(?:\s+\S+)*)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_GIVEN = (None, "hivevar", "hiveconf")
_NOT_GIVEN = ("env", "system", "metaconf")
_COMMENTS = {"--", "/*"}
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_PAIRS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}


def _nothing(_name: str) -> None:
    """No setting has a value."""


@dataclass(slots=True)
class Variables:
    """What a script may name in ``${…}``.

    :param hivevar: variables by name.
    :param setting: value of a setting by its key, None for what is no setting.
    :param hiveconf: other keys that were set, in lower case.
    """

    hivevar: dict[str, str] = field(default_factory=dict)
    setting: Callable[[str], str | None] = _nothing
    hiveconf: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.hivevar:
            if not _NAME.fullmatch(name):
                raise InvalidArgumentsError(f"a variable cannot be called {name!r}: letters, digits, _ . - are allowed")

    def value(self, space: str | None, name: str) -> str | None:
        """The value of a name, None when it has none."""
        if space != "hiveconf":
            found = self.hivevar.get(name)
            if found is not None or space == "hivevar":
                return found
        found = self.hiveconf.get(name.lower())
        return self.setting(name) if found is None else found


def substitute(text: str, variables: Variables) -> str:
    """A script with its variables exchanged; SET in it gives values to what stands below.

    :raises SqlSyntaxError: at its place, for a variable without a value, one of a kind that is not given out, and a
        value that does not fit where it stands.
    """
    if "${" not in text:
        return text
    known = Variables(dict(variables.hivevar), variables.setting, dict(variables.hiveconf))
    # What stands in the place of a variable has its length, so that places stay places of the script.
    masked = SourceText(_PLACE.sub(lambda place: "x" * len(place[0]), text))
    done: list[str] = []
    position = 0
    for tokens in _statements(masked):
        begin, end = tokens[0].start, tokens[-1].end + 1
        edited = "".join(_edited(text, masked.text, tokens, known))
        done += [text[position:begin], edited]
        position = end
        _remember(edited, known)
    return "".join([*done, text[position:]])


def _statements(source: SourceText) -> Iterator[list[Token]]:
    tokens: list[Token] = []
    for token in source.tokens:
        if token.token_type is not TokenType.SEMICOLON:
            tokens.append(token)
        elif tokens:
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def _edited(text: str, masked: str, tokens: list[Token], known: Variables) -> Iterator[str]:
    """The pieces of a statement."""
    position, end = tokens[0].start, tokens[-1].end + 1
    for place in _PLACE.finditer(text, position, end):
        token = next((token for token in tokens if token.start <= place.start() <= token.end), None)
        if token is None:
            continue  # in a comment
        quote = masked[token.end] if token.token_type in _QUOTED else ""
        space, name = place["space"] and place["space"].lower(), place["name"]
        value = known.value(space, name) if space in _GIVEN else None
        if value is None and quote and space not in ("hivevar", "hiveconf", *_NOT_GIVEN):
            continue  # as in Hive: it may be meant
        problem = _problem(space, name, value, quote, is_raw=masked[token.start] in "rR")
        before, after = text[place.start() - 1 : place.start()], text[place.end() : place.end() + 1]
        if not quote and value and {before + value[0], value[-1] + after} & _COMMENTS:
            problem = f"with the value of {name} a comment would begin here; put a blank beside it"
        if problem or value is None:
            raise SqlSyntaxError(describe(text, problem, place.start(), place.end() - 1))
        yield text[position : place.start()]
        yield value
        position = place.end()
    yield text[position:end]


def _problem(space: str | None, name: str, value: str | None, quote: str, *, is_raw: bool) -> str:
    """Why a value cannot stand there; empty when it can.

    :param quote: in which quotes, empty outside of any; ``is_raw``: in a text without escapes.
    """
    if space not in _GIVEN:
        return f"${{{space}:…}} is not supported: a script does not see the environment of the process that runs it"
    if value is None:
        how = f"SET {space or 'hivevar'}:{name}=…"
        given = "" if space == "hiveconf" else f", variables={{'{name}': …}}, or hive-acid sql --hivevar {name}=…"
        return f"{space or 'hivevar'} {name} has no value; give it one: {how}{given}"
    if quote:
        if quote in value or ("\\" in value and not is_raw):
            what = quote if is_raw else f"{quote} or a backslash"
            return f"the value of {name} holds a {what}, and would end the quotes that it stands in"
        return ""
    try:
        tokens = SourceText(value).tokens
    except SqlSyntaxError:
        return f"the value of {name} has a quote or comment that is never closed"
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        return f"the value of {name} holds a semicolon, and would end the statement"
    if any(token.comments for token in tokens) or (value.strip() and not tokens):
        return f"the value of {name} holds a comment, and would hide what follows it"
    depth = 0
    for token in tokens:
        depth += _PAIRS.get(token.token_type, 0)
        if depth < 0:
            break
    return f"the value of {name} has parentheses that do not match" if depth else ""


def _remember(statement: str, known: Variables) -> None:
    """What SET and RESET do to the statements below them."""
    found = _SET.fullmatch(statement)
    if found is not None:
        space = known.hivevar if (found["space"] or "").lower() == "hivevar" else known.hiveconf
        name = found["name"] if space is known.hivevar else found["name"].lower()
        space[name] = found["value"].strip()
    found = _RESET.fullmatch(statement)
    if found is not None:
        for name in found["names"].lower().split() or list(known.hiveconf):
            known.hiveconf.pop(name, None)
