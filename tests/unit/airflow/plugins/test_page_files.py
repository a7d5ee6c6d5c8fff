"""The files of the page "Hive ACID": small, and without a way to turn text of others into markup or code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import airflow_hive_acid

STATIC = Path(airflow_hive_acid.__file__).parent / "plugins" / "static"
MODULES = sorted(STATIC.rglob("*.js"))
#: What a module can do to make markup, code or an address of a text.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|\beval\(|new Function|javascript:"
)
MOST_BYTES = 150_000


def test_the_page_is_under_150_kb() -> None:
    assert sum(file.stat().st_size for file in STATIC.rglob("*") if file.is_file()) < MOST_BYTES


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(STATIC)))
def test_a_module_is_short_and_makes_no_markup_of_texts(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert text.count("\n") < 500
    assert FORBIDDEN.findall(text) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(STATIC)))
def test_a_module_imports_only_what_is_there(module: Path) -> None:
    """Names, too: a browser that does not find one shows nothing at all."""
    text = module.read_text(encoding="utf-8")
    for names, place in re.findall(r"^import \{([^}]*)\} from \"(\.[^\"]+)\";", text, re.MULTILINE):
        source = (module.parent / place).read_text(encoding="utf-8")
        exported = set(re.findall(r"^export (?:async )?(?:const|function|class) (\w+)", source, re.MULTILINE))
        assert {name.strip() for name in names.split(",")} <= exported, place
        body = text.split(f'from "{place}";', 1)[1]
        assert [name for name in map(str.strip, names.split(",")) if not re.search(rf"\b{name}\b", body)] == [], (
            "unused"
        )


def test_the_plain_page_has_nothing_inline() -> None:
    """Its policy allows scripts and styles of the server's files alone."""
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", text)
