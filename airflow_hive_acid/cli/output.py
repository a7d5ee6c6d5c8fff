"""Rows on standard output, messages on standard error."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.python_versions import StrEnum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

    from airflow_hive_acid.engine.outcomes.results import Rows


_LOOK_AHEAD = 1000
"""Rows of a stream that decide how wide its columns are."""


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def say(text: str) -> None:
    """A message for the person at the terminal."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def print_rows(rows: Rows, form: Format, file: TextIO | None = None) -> None:
    """Print rows.

    :param file: standard output by default.
    """
    out = file or sys.stdout
    names = [column.name for column in rows.columns]
    if form is Format.JSON:
        out.write(_compact(rows.to_dicts()) + "\n")
    elif form is Format.CSV:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_csv_value(v) for v in row] for row in rows.rows)
    else:
        _print_table(names, rows, out)


def print_stream(columns: Sequence[str], rows: Iterable[list[Any]], form: Format, file: TextIO | None = None) -> None:
    """Print rows as they come, without keeping them; a table's columns are as wide as those of its first rows need.

    :param file: standard output by default.
    """
    out = file or sys.stdout
    if form is Format.JSON:
        separator = "["
        for row in rows:
            out.write(separator + _compact(dict(zip(columns, row, strict=True))))
            separator = ", "
        out.write("]\n" if separator == ", " else "[]\n")
    elif form is Format.CSV:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_csv_value(v) for v in row] for row in rows)
    else:
        _stream_table(columns, iter(rows), out)


def _stream_table(names: Sequence[str], rows: Iterator[list[Any]], out: TextIO) -> None:
    first = list(itertools.islice(rows, _LOOK_AHEAD))
    shown = [[_shown(v) for v in row] for row in first]
    widths = [max([len(name), *(len(row[i]) for row in shown)]) for i, name in enumerate(names)]
    numeric = [all(_is_number(row[i]) for row in first) and bool(first) for i in range(len(names))]
    _head(names, widths, out)
    count = 0
    for cells in itertools.chain(shown, ([_shown(v) for v in row] for row in rows)):
        _line(cells, widths, numeric, out)
        count += 1
    out.write(f"({count} row{'' if count == 1 else 's'})\n")


def _print_table(names: Sequence[str], rows: Rows, out: TextIO) -> None:
    """Columns as wide as their widest value; nothing is ever cut off."""
    cells = [[_shown(v) for v in row] for row in rows.rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)]
    numeric = [all(_is_number(row[i]) for row in rows.rows) and bool(rows.rows) for i in range(len(names))]
    _head(names, widths, out)
    for row in cells:
        _line(row, widths, numeric, out)
    out.write(f"({len(cells)} row{'' if len(cells) == 1 else 's'})\n")


def _head(names: Sequence[str], widths: Sequence[int], out: TextIO) -> None:
    out.write(" | ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip() + "\n")
    out.write("-+-".join("-" * width for width in widths) + "\n")


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool], out: TextIO) -> None:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    out.write(" | ".join(padded).rstrip() + "\n")


def _shown(value: Any) -> str:
    """A value on one line: control characters could otherwise break the table, or the terminal."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in value)
    return _compact(value)


def _csv_value(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else _compact(value)


def _compact(value: Any) -> str:
    """A value as JSON; decimals are numbers with all their digits, which the json module cannot write."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, list):
        return f"[{', '.join(map(_compact, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_compact(str(k))}: {_compact(v)}' for k, v in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))
