"""The site of the documents: links that leave docs/ lead to pages of the site."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site() -> Any:
    """scripts/docs_site.py, with stand-ins for mkdocs, which has an environment of its own."""
    names = ("mkdocs", "mkdocs.exceptions", "mkdocs.structure", "mkdocs.structure.files")
    stand_ins = {name: types.ModuleType(name) for name in names}
    stand_ins["mkdocs.exceptions"].PluginError = type("PluginError", (Exception,), {})  # type: ignore[attr-defined]
    stand_ins["mkdocs.structure.files"].File = object  # type: ignore[attr-defined]
    stand_ins["mkdocs.structure.files"].InclusionLevel = object  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for name, module in stand_ins.items():
            patch.setitem(sys.modules, name, module)
        spec.loader.exec_module(script)
    return script


@pytest.mark.parametrize(
    ("page", "link", "new"),
    [
        ("docs/how-to/a.md", "../../examples/a.py", "../project/examples/a.py.md"),
        ("docs/how-to/a.md", "../../README.md#growing", "../project/README.md#growing"),
        ("docs/how-to/a.md", "../reference/sql.md#select", "../reference/sql.md#select"),
        ("docs/how-to/a.md", "#below", "#below"),
        ("docs/how-to/a.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("README.md", "docs/how-to/a.md#b", "../how-to/a.md#b"),
        ("README.md", "docs/images/a.png", "../images/a.png"),
        ("README.md", "CHANGELOG.md", "CHANGELOG.md"),
    ],
)
def test_a_link_of_the_repository_becomes_one_of_the_site(site: Any, page: str, link: str, new: str) -> None:
    assert site.rewritten(f"See [it]({link}).", page) == f"See [it]({new})."


def test_links_in_code_are_no_links(site: Any) -> None:
    assert site.targets("```\n[a](b.md)\n```\n`[a](c.md)` [a](d.md)", "docs/a.md") == {"d.md": "docs/d.md"}


def test_what_tests_read_behind_a_language_becomes_a_title(site: Any) -> None:
    text = "```sql refused\nSELECT\n```\n```sql\n```\n    ```python error=record 2, column a\n"
    titled = '```sql title="refused"\nSELECT\n```\n```sql\n```\n    ```python title="error=record 2, column a"\n'
    assert site.with_titles(text) == titled


def test_every_file_that_a_page_leads_to_gets_a_page(site: Any) -> None:
    """The README leads to the changelog, a how-to page to an example; a file that is not there is an error."""
    found = site.outside(["docs/how-to/dags/change-rows.md", "docs/tutorials/getting-started.md"])
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/change_rows.py"} <= found.keys()
    assert found["examples/change_rows.py"].startswith("# examples/change_rows.py\n\n````python\n")
    assert "](../how-to/dags/transactions.md)" in found["README.md"]


def test_a_page_that_leads_to_no_file_is_an_error(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("[a](../gone.py)")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    with pytest.raises(site.PluginError, match=r"docs/a\.md: \.\./gone\.py leads to no file"):
        site.outside(["docs/a.md"])
