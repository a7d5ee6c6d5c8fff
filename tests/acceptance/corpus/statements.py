"""The corpus as text: files of statements, each with a name, and with what plain Spark does in its place.

Lines of comment in front of a statement say what it is::

    -- name: prices go up
    -- becomes items: SELECT id, name, price * 1.1 AS price FROM items
    UPDATE items SET price = price * 1.1;

``name``
    what it is about; unique within its file
``ordered``
    its ORDER BY leaves nothing to chance: rows are compared in order
``empty``
    it is right that there are no rows
``plain``
    what plain Spark runs instead; without it, it runs the same text, with ``USING parquet`` for ``STORED AS ORC``
``becomes <table>``
    what plain Spark's table holds afterwards, for what plain Spark cannot do or does otherwise
``refused``
    part of the message with which the statement is refused
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_HEADER = re.compile(r"--\s(name|ordered|empty|plain|refused|becomes (\w+))(?::\s*(.*))?$")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of the corpus.

    :param plain: what plain Spark runs, with semicolons at the ends of lines between statements; None for nothing.
    :param becomes: for tables of plain Spark, the query for their new rows.
    """

    file: str
    name: str
    text: str
    plain: str | None
    becomes: tuple[tuple[str, str], ...] = ()
    ordered: bool = False
    empty: bool = False
    refused: str = ""

    @property
    def id(self) -> str:
        """For lists of tests."""
        return f"{self.file}: {self.name}"


def read(path: Path) -> list[Statement]:
    """The statements of a file.

    :raises ValueError: a header that is not known, or a name that is there twice.
    """
    blocks = re.split(r"^(?=-- name:)", path.read_text(), flags=re.MULTILINE)[1:]
    found = [_statement(path.stem, block) for block in blocks]
    names = [statement.name for statement in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"{path.name}: these names are there twice: {', '.join(sorted(twice))}")
    return found


def words_of(text: str) -> set[str]:
    """Everything in a text that could be the name of a table."""
    return set(re.findall(r"\w+", text.lower()))


def in_plain_spark(text: str) -> str:
    """The same statement about Parquet tables, which plain Spark has without a metastore of Hive."""
    match = re.match(r"CREATE TABLE (IF NOT EXISTS )?\w+", text)
    if match is None or " STORED AS " not in text:
        return text
    end = match.end()
    if text[end:].startswith(" ("):
        depth = 0
        for end in range(match.end(), len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0 and text[end] == ")":
                end += 1
                break
    return f"{text[:end]} USING parquet{re.sub(r' STORED AS [A-Z]+', '', text[end:])}"


def _statement(file: str, block: str) -> Statement:
    headers: list[list[str]] = []
    lines = block.splitlines()
    while lines and lines[0].startswith("--"):
        line = lines.pop(0)
        if line.startswith("--   ") and headers:
            headers[-1][1] += f"\n{line.removeprefix('--   ')}"
            continue
        match = _HEADER.match(line)
        if match is None:
            raise ValueError(f"{file}: no header is written like this: {line}")
        headers.append([match.group(1), match.group(3) or ""])
    given = dict(headers)
    text = "\n".join(lines).strip().removesuffix(";")
    becomes = tuple((key.split()[1], value) for key, value in headers if key.startswith("becomes"))
    own = None if becomes or "refused" in given else in_plain_spark(text)
    return Statement(
        file, given["name"], text, given.get("plain", own), becomes, "ordered" in given, "empty" in given,
        given.get("refused", ""),
    )  # fmt: skip
