"""Refuses SQL that could be made from values, and questions for the name of the database.

SQL text may stand only in ``metastore/database/``, and only as a literal: every ``text(...)`` and ``DDL(...)`` call
must have one constant string argument, and nobody may hand a string to ``execute`` or use a driver's raw cursor.

Which database it is, only that room knows. Elsewhere in ``metastore/`` nobody reads the name of a dialect or a backend,
imports what belongs to one, or teaches SQLAlchemy to compile for one; verbs ask a ``Backend`` what it can do. Only
``metastore/schema/`` may say so in SQLAlchemy's own ways (``with_variant``, ``ddl_if``, ``compiles``).

One module has a driver's cursor: the batches of MySQL (decision 78), whose texts SQLAlchemy has compiled, and into
which the driver writes the values.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOM = "metastore/database"
OF_THE_TABLES = "metastore/schema"
PRODUCTS = {"sqlite", "sqlite3", "postgresql", "postgres", "mysql", "mariadb", "psycopg", "pymysql"}
NAMED = {"dialect", "backend"}
COMPILERS = {"sqlalchemy.ext.compiler"}
TEXT_MAKERS = {"text", "DDL", "literal_column", "exec_driver_sql"}
WITH_CURSOR = "metastore/database/backends/mysql_batch.py"
EXECUTORS = {"execute", "scalar", "scalars", "executemany", "exec_driver_sql"}


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _imports_sqlalchemy(tree: ast.Module) -> bool:
    names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    names += [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    return any(name.split(".")[0] == "sqlalchemy" or "metastore" in name for name in names)


def _room(path: Path) -> str:
    """The room of the metastore that a module is in, whatever rooms that has inside; "" outside of the metastore."""
    parts = path.parts[:-1]
    if "metastore" not in parts:
        return ""
    at = len(parts) - 1 - parts[::-1].index("metastore")
    return "/".join(parts[at : at + 2])


def _asks_for_the_database(node: ast.AST) -> str | None:
    """What a node asks for that only the room of the database knows; None when it asks for nothing."""
    if isinstance(node, ast.Attribute):
        if node.attr in ("dialect", "get_backend_name"):
            return f".{node.attr}"
        if node.attr == "name":
            owner = node.value
            named = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", None)
            if named in NAMED or (isinstance(owner, ast.Call) and _called_name(owner) == "backend_of"):
                return "a backend's .name"
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in PRODUCTS:
        return repr(node.value)
    imported: list[str] = []
    if isinstance(node, ast.ImportFrom):
        imported = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    elif isinstance(node, ast.Import):
        imported = [alias.name for alias in node.names]
    for name in imported:
        of_product = bool(PRODUCTS & set(name.split("."))) or name.startswith("sqlalchemy.dialects")
        if of_product or name in COMPILERS:
            return f"import of {name}"
    return None


def questions(path: Path) -> list[str]:
    """Where a module of the metastore asks which database it is, as ``file:line: text``."""
    if "metastore" not in path.parts or _room(path) in (ROOM, OF_THE_TABLES):
        return []
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    found = [(node, _asks_for_the_database(node)) for node in ast.walk(tree)]
    return [
        f"{path}:{node.lineno}: {asked} belongs into {ROOM}/; ask a Backend what it can do"  # type: ignore[attr-defined]
        for node, asked in found
        if asked is not None
    ]


def problems(path: Path) -> list[str]:
    """Findings in one file as ``file:line: text``."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    if not _imports_sqlalchemy(tree):
        return []
    may_hold_text = _room(path) == ROOM
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _called_name(node)
        first = node.args[0] if node.args else None
        place = f"{path}:{node.lineno}:"
        if name in TEXT_MAKERS and first is not None:
            if not may_hold_text:
                found.append(f"{place} {name}() belongs into {ROOM}/")
            elif not _is_constant(first):
                found.append(f"{place} {name}() takes one literal string, never one that is put together")
        elif name in EXECUTORS and isinstance(first, ast.JoinedStr | ast.BinOp | ast.Constant):
            found.append(f"{place} {name}() with a string; build the statement with SQLAlchemy and bind its values")
        elif name in {"raw_connection", "cursor"} and not (name == "cursor" and path.as_posix().endswith(WITH_CURSOR)):
            found.append(f"{place} {name}() goes around bound parameters")
    return found


def main(root: str) -> int:
    """Check every module below ``root``; 1 when something was found."""
    paths = sorted(Path(root).rglob("*.py"))
    found = [line for path in paths for line in (*problems(path), *questions(path))]
    print("\n".join(found) if found else f"no SQL made from strings, no questions for the database's name below {root}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "airflow_hive_acid"))
