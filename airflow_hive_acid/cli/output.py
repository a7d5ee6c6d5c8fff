"""Rows on standard output, messages on standard error."""

from __future__ import annotations

import csv
import json
import sys
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from airflow_hive_acid.engine.results import Rows


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


def _print_table(names: Sequence[str], rows: Rows, out: TextIO) -> None:
    """Columns as wide as their widest value; nothing is ever cut off."""
    cells = [[_shown(v) for v in row] for row in rows.rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)]
    numeric = [all(_is_number(row[i]) for row in rows.rows) and bool(rows.rows) for i in range(len(names))]
    out.write(" | ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip() + "\n")
    out.write("-+-".join("-" * width for width in widths) + "\n")
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        out.write(" | ".join(padded).rstrip() + "\n")
    out.write(f"({len(cells)} row{'' if len(cells) == 1 else 's'})\n")


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
