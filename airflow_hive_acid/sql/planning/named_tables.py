"""What a script will read and write, from its words alone: what is known of a task before it has looked anything up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.model.alterations import Alteration, Compact, RenameTable, Touch
from airflow_hive_acid.sql.model.origins import Fragment, TableName
from airflow_hive_acid.sql.model.statements import (
    CreateTable,
    CreateTemporaryView,
    Delete,
    DropTable,
    Insert,
    Merge,
    MultiInsert,
    Select,
    Truncate,
    Update,
)
from airflow_hive_acid.sql.model.transfers import (
    DropPartitionsForReplication,
    DropTableForReplication,
    ExportTable,
    ImportTable,
)
from airflow_hive_acid.sql.planning.scopes import visible_cte

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.sql.model.statements import Statement


@dataclass(slots=True)
class Touched:
    """Names of tables, and of temporary views over files, in the order of their first appearance.

    :param reads: ``db.table``, or the name of a view.
    :param writes: ``db.table``, with what becomes of the table itself: ``CREATE``, ``DROP``, ``ALTER``, ``RENAME``,
        ``TRUNCATE``, ``OVERWRITE``, or None where only rows change.
    :param renamed: old name by new name.
    :param views: the views that the script makes, with those it was given.
    """

    reads: dict[str, None] = field(default_factory=dict)
    writes: dict[str, str | None] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    views: dict[str, Source] = field(default_factory=dict)

    def write(self, table: object, change: str | None = None) -> None:
        """Note that a table is written; of several changes of a table the first one is told, ``DROP`` excepted."""
        name = str(table)
        if change == "DROP" or self.writes.get(name) is None:
            self.writes[name] = change


def touched(statements: Iterable[Statement], views: Mapping[str, Source] | None = None) -> Touched:
    """What statements read and write.

    :param views: temporary views that there are before.
    """
    found = Touched(views=dict(views or {}))
    for statement in statements:
        _add(found, statement)
    return found


def identity(statement: Statement) -> str:
    """What tells a statement from others: its text, and which tables the names in it are, in whatever database."""
    found, own = touched([statement]), getattr(statement, "table", None)
    return "\0".join([statement.text, *found.reads, *found.writes, *([] if own is None else [str(own)])])


def _add(found: Touched, statement: Statement) -> None:
    if isinstance(statement, MultiInsert):
        for insert in statement.inserts:
            _add(found, insert)
        return
    _add_written(found, statement)
    for fragment in _fragments(statement):
        for name in _tables(fragment, found.views, statement.default_database):
            found.reads.setdefault(name)


def _add_written(found: Touched, statement: Statement) -> None:
    match statement:
        case CreateTemporaryView(source=source):
            found.views[source.name] = source
        case Insert(table=table, overwrite=overwrite, partition=partition):
            found.write(table, "OVERWRITE" if overwrite and not partition else None)
        case Update(table=table) | Delete(table=table) | Merge(table=table):
            found.reads.setdefault(str(table))
            found.write(table)
        case CreateTable(table=table):
            found.write(table, "CREATE")
        case DropTable(table=table) | DropTableForReplication(table=table):
            found.write(table, "DROP")
        case ExportTable(table=table):
            found.reads.setdefault(str(table))
        case ImportTable(table=TableName() as table):
            found.write(table)
        case DropPartitionsForReplication(table=table):
            found.write(table, "ALTER")
        case Truncate(table=table, partition=partition):
            found.write(table, None if partition else "TRUNCATE")
        case RenameTable(table=table, new=new):
            found.renamed[str(new)] = str(table)
            found.write(new, "RENAME")
        case Alteration(table=table) if not isinstance(statement, Compact | Touch):
            found.write(table, "ALTER")


def _fragments(statement: Statement) -> Iterator[Fragment]:
    match statement:
        case Select(query=query) | Insert(query=query) | CreateTable(query=Fragment() as query):
            yield query
        case Update(assignments=assignments, where=where):
            yield from (value for _, value in assignments)
            yield from [where] if where is not None else []
        case Delete(where=Fragment() as where):
            yield where
        case Merge(source=source, on=on, whens=whens):
            yield from (source, on)
            for when in whens:
                yield from [when.condition] if when.condition is not None else []
                yield from (*(value for _, value in when.assignments), *when.values)


def _tables(fragment: Fragment, views: Mapping[str, Source], default_database: str) -> Iterator[str]:
    for table in fragment.tree.find_all(exp.Table, bfs=False):
        name, database = table.name.lower(), table.db.lower()
        if not isinstance(table.this, exp.Identifier) or (not database and visible_cte(table) is not None):
            continue
        yield name if not database and name in views else f"{database or default_database}.{name}"
