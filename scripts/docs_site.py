"""Hooks of mkdocs for the site that ``make docs`` builds.

The pages link to files outside of ``docs/``: the README, the changelog, examples. The site gets a page for each of
them, so that every link works in the repository and in the site, without a network. What such a page links to is
rewritten, too. Diagrams are drawn by a mermaid that lies beside the pages.
"""

from __future__ import annotations

import importlib.util
import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
#: Where the pages of files outside of docs/ lie in the site.
PROJECT = "project"
MERMAID = "assets/mermaid.min.js"
_LANGUAGES = {".py": "python", ".json": "json", ".sql": "sql", ".toml": "toml", ".yml": "yaml"}
_CODE = re.compile(r"^ *(```|~~~).*?^ *\1|`[^`\n]+`", re.S | re.M)
_INFO = re.compile(r"^( *```\w+) ([^\n\"`]+)$", re.M)
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")


def in_site(path: str) -> str:
    """Where a file of the repository is in the source tree of the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{PROJECT}/{path}" if path.endswith(".md") else f"{PROJECT}/{path}.md"


def targets(text: str, page: str) -> dict[str, str]:
    """The links of a page to files, as written, and the paths in the repository that they lead to."""
    links = _LINK.findall(_CODE.sub("", text))
    files = (link for link in links if not re.match(r"[a-z]+:|#", link))
    return {link: posixpath.normpath(posixpath.join(posixpath.dirname(page), link.partition("#")[0])) for link in files}


def rewritten(text: str, page: str) -> str:
    """The text with those links changed that would lead out of the site, or come from a page outside of docs/."""
    place = posixpath.dirname(in_site(page))
    new = {}
    for link, path in targets(text, page).items():
        if not (page.startswith("docs/") and path.startswith("docs/")):
            _, sign, anchor = link.partition("#")
            new[link] = posixpath.relpath(in_site(path), place or ".") + sign + anchor
    return _LINK.sub(lambda link: new.get(link[0], link[0]), text)


def with_titles(text: str) -> str:
    """The text with what tests read behind the language of a block (`sql refused`) as its title."""
    return _INFO.sub(r'\1 title="\2"', text)


def outside(starts: list[str]) -> dict[str, str]:
    """The files outside of docs/ that can be reached from pages, and their texts as pages."""
    found: dict[str, str] = {}
    seen, waiting = set(starts), list(starts)
    while waiting:
        page = waiting.pop()
        text = (ROOT / page).read_text(encoding="utf-8")
        if not page.startswith("docs/"):
            found[page] = rewritten(text, page) if page.endswith(".md") else _as_code(page, text)
        if not page.endswith(".md"):
            continue
        for link, path in targets(text, page).items():
            if path in seen or path.startswith("docs/"):  # mkdocs checks links inside of docs/
                continue
            if not (ROOT / path).is_file():
                raise PluginError(f"{page}: {link} leads to no file")
            seen.add(path)
            waiting.append(path)
    return found


def _as_code(path: str, text: str) -> str:
    language = _LANGUAGES.get(os.path.splitext(path)[1], "text")
    return f"# {path}\n\n````{language}\n{text}\n````\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of files outside of docs/, and the script of mermaid."""
    pages = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    for path, text in outside(pages).items():
        page = File.generated(config, in_site(path), content=text, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    files.append(File.generated(config, MERMAID, abs_src_path=str(_mermaid())))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links that leave docs/ lead to the pages made for them; decisions are found behind other pages."""
    if page.file.src_uri.startswith(("decisions/", f"{PROJECT}/")):
        page.meta["search"] = {"boost": 0.3}  # in the results they stand behind the pages that say what to do
    if page.file.generated_by:
        return markdown
    return rewritten(with_titles(markdown), f"docs/{page.file.src_uri}")


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Pages with a diagram load mermaid from the site; the theme would fetch it from elsewhere."""
    if 'class="mermaid"' not in output:
        return output
    script = posixpath.relpath(MERMAID, posixpath.dirname(page.file.dest_uri) or ".")
    head, body, rest = output.rpartition("<script src=")
    return f'{head}<script src="{script}"></script>\n{body}{rest}'


def _mermaid() -> Path:
    """mermaid.min.js of the release that mermaidx holds; nothing else of that package is used."""
    package = importlib.util.find_spec("mermaidx")
    if package is None or package.origin is None:
        raise PluginError("mermaidx is not installed: build the site with make docs")
    return Path(package.origin).parent / "assets" / "mermaid.js"
