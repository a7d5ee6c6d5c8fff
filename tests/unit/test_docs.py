"""The documents: every link leads somewhere, every decision is listed, every word of the glossary stands once."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
import textwrap
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = sorted(
    page
    for place in ("*.md", "docs/**/*.md", "accelerator/*.md", "examples/*.md")
    for page in ROOT.glob(place)
    if not page.name.startswith(".")
)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.S | re.M)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def _prose(page: Path) -> str:
    """The text without blocks of code and without code inside of lines, which may look like links."""
    return re.sub(r"`[^`\n]*`", "`code`", _FENCED.sub("", page.read_text(encoding="utf-8")))


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.*?) *$", _FENCED.sub("", page.read_text(encoding="utf-8")), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number, name = 0, slug
        while name in found:
            number += 1
            name = f"{slug}-{number}"
        found.add(name)
    return found


def broken_links(page: Path) -> list[str]:
    """Links of a page to files or headings that are not there."""
    broken = []
    for link in _LINK.findall(_prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else page.parent / path
        if not target.exists():
            broken.append(f"{link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in _anchors(target):
            broken.append(f"{link}: no such heading")
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` (c)\n[x](#a-b-c) [y](#nothing) [z](other.md) `[no](link.md)`\n```\n[no](link.md)\n```\n")
    assert broken_links(page) == ["#nothing: no such heading", "other.md: no such file"]


def wrong_blocks(text: str) -> list[str]:
    """Blocks of Python, JSON and TOML that are none, and names they import from this package that it does not have."""
    wrong = []
    for kind, indented in re.findall(r"^ *```(python|json|toml)\b[^\n]*\n(.*?)^ *```", text, re.S | re.M):
        block = textwrap.dedent(indented)
        try:
            if kind == "json":
                json.loads(block)
            elif kind == "toml":
                tomllib.loads(block)
            else:
                wrong += _missing_names(ast.parse(block.replace("…", "...")))
        except (ValueError, SyntaxError) as error:
            wrong.append(f"{kind}: {error}")
    return wrong


def _missing_names(tree: ast.Module) -> list[str]:
    missing = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("airflow_hive_acid"):
            continue
        place = ROOT / str(node.module).replace(".", "/")
        file = next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()), None)
        source = "" if file is None else file.read_text(encoding="utf-8")
        missing += [f"{node.module}.{a.name}" for a in node.names if not re.search(rf"\b{a.name}\b", source)]
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_code_is_what_it_says(page: Path) -> None:
    assert wrong_blocks(page.read_text(encoding="utf-8")) == []


def test_wrong_blocks_are_found() -> None:
    blocks = {
        "python": ["f(…)", "f(", "from airflow_hive_acid.settings import SETTINGS, NONE"],
        "json": ['{"a": 1}', "{a: 1}"],
        "toml": ["a = 1", "a ="],
    }
    text = "".join(f"  ```{kind}\n  {block}\n  ```\n" for kind, all_ in blocks.items() for block in all_)
    found = wrong_blocks(text)
    assert [problem.split(":")[0] for problem in found] == ["python", "airflow_hive_acid.settings.NONE", "json", "toml"]


def test_files_that_the_documents_name_are_there() -> None:
    named = [
        (page.name, path)
        for page in PAGES
        for path in re.findall(
            r"`((?:tests|scripts|docs|dags|examples|benchmarks|airflow_hive_acid|requirements)/[\w./-]+\.\w+)`",
            page.read_text(encoding="utf-8"),
        )
    ]
    assert len(named) > 20
    assert [(page, path) for page, path in named if not (ROOT / path).exists()] == []


def test_tests_that_the_documents_name_are_there() -> None:
    tests = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    functions = {name for path in (ROOT / "tests").rglob("test_*.py") for name in _functions(path)}
    named = [
        (page.name, name) for page in PAGES for name in re.findall(r"`((?:tests/[\w/]+|test_\w+))`", page.read_text())
    ]
    assert len(named) > 20
    assert [
        (page, name)
        for page, name in named
        if not ((ROOT / name).exists() or (ROOT / f"{name}.py").exists() or name in tests | functions)
    ] == []


def _functions(path: Path) -> list[str]:
    return re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.M)


def test_every_decision_is_listed_under_its_number_and_title() -> None:
    """Those up to the last one that is listed: each has one number, and none is left out."""
    listed = re.findall(r"^\| \[(\d+)\]\(([^)]+)\) \| (.+?) \|$", (DECISIONS / "README.md").read_text(), re.M)
    found = []
    for page in sorted(DECISIONS.glob("[0-9]*.md")):
        title = re.match(r"# (\d+)\. (.+)", page.read_text(encoding="utf-8"))
        assert title is not None, page.name
        assert int(title.group(1)) == int(page.name[:4])
        found.append((title.group(1), page.name, title.group(2)))
    numbers = [int(number) for number, *_ in found]
    assert numbers == sorted(set(numbers))
    assert listed == found[: len(listed)]
    assert len(listed) >= 24


def test_every_page_is_in_the_navigation_of_the_site_once() -> None:
    """The site shows each page of docs/, and names none that is not there."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (?:[^:\n]+: )?([\w./-]+\.md)$", text.partition("\nnav:\n")[2], re.M)
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)


def test_no_page_of_instructions_is_longer_than_a_task() -> None:
    """What one page of the how-to part tells is one task."""
    lengths = {page.name: len(page.read_text().splitlines()) for page in (ROOT / "docs" / "how-to").rglob("*.md")}
    assert {name for name, lines in lengths.items() if lines > 200} == set()
    assert len(lengths) > 20


def test_the_page_of_settings_is_made_of_the_table_of_today() -> None:
    spec = importlib.util.spec_from_file_location("settings_docs", ROOT / "scripts" / "settings_docs.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = ROOT / "docs" / "reference" / "settings.md"
    assert page.read_text(encoding="utf-8") == script.page(), "run scripts/settings_docs.py"


def test_the_glossary_says_each_word_once() -> None:
    words = re.findall(r"^\| ([^|]+?) \|", (ROOT / "docs" / "reference" / "glossary.md").read_text(), re.M)[2:]
    assert sorted(set(words)) == sorted(words)


def test_the_page_on_architecture_names_what_there_is() -> None:
    """Each path is there, and the rooms of the metastore are those whose floors are checked, in their order."""
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "airflow_hive_acid"
    for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py))`", text):
        assert (package / path).exists() or (ROOT / path).exists(), path
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = [c["layers"] for c in contracts if c.get("containers") == ["airflow_hive_acid.metastore"]]
    rows = re.findall(r"^\| (`[^|]*) \|", text.partition("## The rooms of the metastore")[2].partition("## ")[0], re.M)
    told = [set(re.findall(r"`([a-z_]+)`", row)) for row in rows]
    checked = [set(layer.split(" | ")) for layer in reversed(layers) if layer != "client_base"]
    assert told == checked


def _said(source: str) -> list[str]:
    """The texts of a file of ours, with ``…`` for what is filled in; parts that stand beside each other are one."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(re.sub(r"%(?:r|s|d|g|\.\df)", "…", node.value))
    return found


def test_the_messages_of_the_page_about_clusters_are_those_of_the_package() -> None:
    page = (ROOT / "docs" / "how-to" / "running" / "clusters.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| .* \| .* \|$", page.partition("## When it does not work")[2], re.M)
    of_spark = {"Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "Uploading file", "failed"}
    filled = re.compile(
        r"'?…'?|k8s://…|file:/…|ready\.json|spark\.kubernetes\.container\.image|\b\d+\b(?= s)"
        r"|(?<=driver) is|(?<=spool) is"
    )
    texts = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    parts = {part.strip(" ;:()") for text in texts if text not in of_spark for part in filled.split(text)}
    ours = sorted(parts - of_spark)
    assert len(ours) > 15
    # Only files that have the longest word of one of them are read as Python.
    words = {max(re.findall(r"\w+", part), key=len) for part in ours if re.search(r"\w", part)}
    files = [(path, path.read_text(encoding="utf-8")) for path in (ROOT / "airflow_hive_acid").rglob("*.py")]
    texts = [text for path, source in files if any(word in source for word in words) for text in _said(source)]
    said = "\n".join(texts)
    assert [part for part in ours if part not in said] == []
