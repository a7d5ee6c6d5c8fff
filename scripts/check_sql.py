"""Refuses SQL that could be made from values.

SQL text may stand only in ``metastore/database/database.py``, and only as a literal: every ``text(...)`` and
``DDL(...)`` call must have one constant string argument, and nobody may hand a string to ``execute`` or use a driver's
raw cursor.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

DIALECT_MODULE = ("metastore", "database", "database.py")
TEXT_MAKERS = {"text", "DDL", "literal_column", "exec_driver_sql"}
EXECUTORS = {"execute", "scalar", "scalars", "executemany", "exec_driver_sql"}


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _imports_sqlalchemy(tree: ast.Module) -> bool:
    names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    names += [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    return any(name.split(".")[0] == "sqlalchemy" or "metastore" in name for name in names)


def problems(path: Path) -> list[str]:
    """Findings in one file as ``file:line: text``."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    if not _imports_sqlalchemy(tree):
        return []
    may_hold_text = path.parts[-3:] == DIALECT_MODULE
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _called_name(node)
        first = node.args[0] if node.args else None
        place = f"{path}:{node.lineno}:"
        if name in TEXT_MAKERS and first is not None:
            if not may_hold_text:
                found.append(f"{place} {name}() belongs into metastore/database/database.py")
            elif not _is_constant(first):
                found.append(f"{place} {name}() takes one literal string, never one that is put together")
        elif name in EXECUTORS and isinstance(first, ast.JoinedStr | ast.BinOp | ast.Constant):
            found.append(f"{place} {name}() with a string; build the statement with SQLAlchemy and bind its values")
        elif name in {"raw_connection", "cursor"}:
            found.append(f"{place} {name}() goes around bound parameters")
    return found


def main(root: str) -> int:
    """Check every module below ``root``; 1 when something was found."""
    found = [line for path in sorted(Path(root).rglob("*.py")) for line in problems(path)]
    print("\n".join(found) if found else f"no SQL made from strings below {root}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "airflow_hive_acid"))
