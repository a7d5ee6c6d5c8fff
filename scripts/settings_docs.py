"""Writes docs/reference/settings.md from the settings table; run it when the table has changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.settings import SETTINGS

if TYPE_CHECKING:
    from airflow_hive_acid.settings_table import Setting

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "settings.md"
TABLE = ROOT / "airflow_hive_acid" / "settings_table.py"
HEAD = """# Settings

Settings have Hive's names where Hive has them. Names that begin with `hive.acid.` are ours. A value is taken from the
first of these places that has one:

1. properties of a request (`WITH OVERWRITE TBLPROPERTIES`),
2. properties of the table,
3. the extra of the Airflow connection; on the command line `--set KEY=VALUE`,
4. Airflow's section `[hive_acid]`, with underscores for dots,
5. `hive-site.xml`,
6. the default.

Upper and lower case are the same in names. A duration may have a unit (`500ms`, `30s`, `10m`, `2h`, `7d`); the column
*default* shows the unit of a bare number in brackets. `hive-acid settings` prints every value in force, and where it
comes from. The column *Hive* shows Hive's own default where it differs.

This page is made by `python scripts/settings_docs.py`.
"""
#: A heading among the rows of the table, or the key of a row.
_MARK = re.compile(r'^    # ([A-Z].*)$|^    (?:_\w+|Setting)\(\s*"((?:hive|metastore)\.[\w.]+)"', re.M)


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    listed = []
    for heading, key in _MARK.findall(TABLE.read_text(encoding="utf-8").partition("_ROWS = (")[2]):
        if heading:
            parts.append(
                f"\n## {heading.partition(' (')[0]}\n\n| setting | default | Hive | meaning |\n|---|---|---|---|\n"
            )
        else:
            listed.append(key)
            parts.append(_row(SETTINGS[key]))
    if listed != list(SETTINGS):
        raise SystemExit(f"not found in {TABLE.name}: {sorted(set(SETTINGS) - set(listed))}")
    return "".join(parts)


def _row(setting: Setting) -> str:
    default = f"`{setting.default}`" if setting.default else ""
    if setting.unit:
        default += f" ({setting.unit})"
    hive = (
        "" if setting.hive_default == setting.default else f"`{setting.hive_default}`" if setting.hive_default else ""
    )
    if setting.key.startswith("hive.acid."):
        hive = ""
    text = setting.description.removeprefix("Ours: ")
    text = text[0].upper() + text[1:]
    if setting.choices:
        text += f" One of {', '.join(f'`{choice}`' for choice in setting.choices)}."
    return f"| `{setting.key}` | {_cell(default)} | {_cell(hive)} | {_cell(text)} |\n"


def _cell(text: str) -> str:
    return re.sub(r"(?<![\w`])\*|\*(?![\w`])|_\*", lambda m: m[0].replace("*", "\\*"), text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
