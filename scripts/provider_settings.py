"""Writes airflow_hive_acid/provider_settings.py from the settings table; run it when the table has changed.

Airflow asks for the provider's description at the start of nearly every process, so the list must be a literal.
"""

from __future__ import annotations

import json
from pathlib import Path

from airflow_hive_acid.settings import SETTINGS
from airflow_hive_acid.settings_table import Kind, Setting

HEAD = '''"""Every setting as an option of Airflow's section [hive_acid]; made by scripts/provider_settings.py."""

# ruff: noqa: E501
# fmt: off

from __future__ import annotations

SETTINGS: tuple[tuple[str, str, str, str], ...] = (
'''
TYPES = {Kind.INTEGER: "integer", Kind.NUMBER: "float", Kind.FLAG: "boolean"}


def row(setting: Setting) -> tuple[str, str, str, str]:
    """Name, Airflow's type, description and example of a setting."""
    text = setting.description
    if setting.choices:
        text += f" One of {', '.join(setting.choices)}."
    if setting.unit:
        text += f" A bare number is in {setting.unit}."
    return setting.key, TYPES.get(setting.kind, "string"), text, setting.default


def text() -> str:
    """The module's text."""
    lines = [f"    ({', '.join(map(json.dumps, row(setting)))}),\n" for setting in SETTINGS.values()]
    return HEAD + "".join(lines) + ")\n"


if __name__ == "__main__":
    (Path(__file__).parent.parent / "airflow_hive_acid" / "provider_settings.py").write_text(text())
