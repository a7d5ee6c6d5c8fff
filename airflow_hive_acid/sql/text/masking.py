"""Secrets in the text of statements: found by the names they stand behind, and hidden where texts are shown or kept.

``CREATE TEMPORARY VIEW v USING jdbc OPTIONS (url '…', password 'p')`` goes to the job as it is; results, XComs, logs
and queues get ``password '***'``.
"""

from __future__ import annotations

import re

HIDDEN = "***"
_SENSITIVE = r"pass|pwd|secret|token|credential|private_?key|api_?key|access_?key|sas_?key|account\.key|encryption_?key"
_STRING = r"r'[^']*'|r\"[^\"]*\"|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
_NAME = rf"(?:[\w.\-]{{0,100}}?(?:{_SENSITIVE})[\w.\-]{{0,100}})"
_NAMED = re.compile(
    rf"(?P<name>(?<![\w.\-])(?:r?'{_NAME}'|r?\"{_NAME}\"|`{_NAME}`|{_NAME}))(?P<between>\s{{0,20}}=?\s{{0,20}})(?P<value>{_STRING})",
    re.IGNORECASE | re.DOTALL,
)
_SET = re.compile(
    rf"(?P<name>(?:^|;)\s{{0,20}}SET\s{{1,20}}(?:\w{{1,20}}:)?{_NAME}\s{{0,20}}=\s{{0,20}})(?P<value>[^\s;][^;\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_KEY = re.compile(_SENSITIVE, re.IGNORECASE)
_IN_URI = re.compile(r"(?P<before>\b[a-z][\w+.\-]{0,30}://[^\s'\"/@:]{0,200}:)[^\s'\"/@]{1,500}(?=@)", re.IGNORECASE)
_LONGEST = 1_000_000
"""Texts of more characters are not searched; they are shown by their beginning alone."""


def is_secret(name: str) -> bool:
    """Whether an option of this name holds a secret."""
    return _KEY.search(name) is not None


def hide_secrets(text: str) -> str:
    """The text with ``***`` for what stands behind names of secrets, and for passwords in URIs."""
    if len(text) > _LONGEST:
        return hide_secrets(text[:_LONGEST])
    hidden = text
    if _KEY.search(text):
        hidden = _NAMED.sub(lambda m: f"{m['name']}{m['between']}'{HIDDEN}'", text)
        hidden = _SET.sub(lambda m: m["name"] + HIDDEN, hidden)
    return _IN_URI.sub(lambda m: m["before"] + HIDDEN, hidden) if "://" in hidden else hidden


def secrets_in(text: str) -> set[str]:
    """The values that :func:`hide_secrets` hides behind names."""
    if not _KEY.search(text):
        return set()
    values = {found["value"].lstrip("rR")[1:-1] for found in _NAMED.finditer(text[:_LONGEST])}
    return values - {"", HIDDEN}
