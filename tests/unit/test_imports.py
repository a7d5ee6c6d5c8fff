"""No file of the package imports another in a circle; what is imported for type checkers counts."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path
from typing import TYPE_CHECKING

import airflow_hive_acid

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(airflow_hive_acid.__file__).parent


def _modules() -> dict[str, Path]:
    names = {}
    for path in _ROOT.rglob("*.py"):
        parts = (_ROOT.name, *path.relative_to(_ROOT).with_suffix("").parts)
        names[".".join(parts).removesuffix(".__init__")] = path
    return names


def _imported(path: Path, modules: dict[str, Path]) -> set[str]:
    """Modules of ours that a file imports anywhere in it; a package counts where a name of its own is taken."""
    found = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {each.name: f"{node.module}.{each.name}" for each in node.names}
            found |= {full if full in modules else node.module for full in inner.values()}
    return found & modules.keys()


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a file, wherever they stand; expressions, most of a tree, have none in them."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
        ]


def _graph(modules: dict[str, Path]) -> dict[str, set[str]]:
    return {name: _imported(path, modules) - {name} for name, path in modules.items()}


def test_no_file_imports_another_in_a_circle() -> None:
    graph = _graph(_modules())
    assert len(graph) > 500
    graphlib.TopologicalSorter(graph).prepare()  # names the circle


def test_a_circle_for_type_checkers_would_be_found(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("from package import other\n")
    other.write_text("if TYPE_CHECKING:\n    from package.one import One\n")
    graph = _graph({"package.one": one, "package.other": other})
    assert graph == {"package.one": {"package.other"}, "package.other": {"package.one"}}
