"""Views as rows of the catalog, as Hive 4.1 writes them: a table without files, with the text of its query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.definitions import check_columns
from airflow_hive_acid.metastore.catalog.values.model import VIRTUAL_VIEW, FieldSchema, Storage, Table
from airflow_hive_acid.metastore.names.objects import table_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_INPUT_FORMAT = "org.apache.hadoop.mapred.TextInputFormat"
_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_MADE_BY_US = ("bucketing_version", "transient_lastDdlTime")


def new_view(
    name: str,
    columns: Sequence[FieldSchema],
    original: str,
    expanded: str,
    *,
    comment: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """A view as it is to be stored; owner and times are those of whoever stores it.

    :param name: ``db.view``.
    :param original: the query as it was written.
    :param expanded: the same for any database: what is read.
    :raises InvalidArgumentsError: for a column that Hive does not allow, and for properties of tables.
    """
    db, view = table_name(name)
    checked, _ = check_columns(f"view {name}", [Column(c.name, c.type) for c in columns], ())
    parameters = dict(properties or {})
    for key in parameters:
        check_property(name, key)
    if comment is not None:
        parameters["comment"] = comment
    parameters.setdefault("bucketing_version", "2")
    fields = tuple(FieldSchema(c.name, c.type, given.comment) for c, given in zip(checked, columns, strict=True))
    storage = Storage(fields, None, _INPUT_FORMAT, _OUTPUT_FORMAT, (None, None))
    return Table(
        db, view, 0, None, "USER", 0, 0, 0, storage, (), parameters, VIRTUAL_VIEW, view_original=original,
        view_expanded=expanded,
    )  # fmt: skip


def check_property(view: str, key: str) -> None:
    """Refuse what would make a view pass for a table with files.

    :raises InvalidArgumentsError: naming the property.
    """
    if key.lower() in ("transactional", "transactional_properties", "external", *map(str.lower, _MADE_BY_US)):
        raise InvalidArgumentsError(f"view {view} cannot have the property {key}: it has no files")


def require_view(table: Table, statement: str, of_tables: str) -> None:
    """Refuse a statement about a view that names a table.

    :raises InvalidArgumentsError: with the statement to use.
    """
    if not table.is_view:
        raise InvalidArgumentsError(f"{statement}: {table.qualified_name} is a table; {of_tables} is for those")


def require_free(there: Table, *, replace_it: bool = False, if_not_exists: bool = False) -> None:
    """Refuse to make a view where something has its name.

    :param replace_it: another view gives way; ``if_not_exists``: it is enough that there is one.
    :raises AlreadyExistsError: saying what is there.
    """
    if not there.is_view:
        raise AlreadyExistsError(f"{there.qualified_name} exists already, and is a table")
    if not (replace_it or if_not_exists):
        raise AlreadyExistsError(
            f"view {there.qualified_name} exists already; CREATE OR REPLACE VIEW, or DROP VIEW"
        )  # fmt: skip


def with_query_of(view: Table, new: Table) -> Table:
    """The view with another query: who it belongs to, its comment and its properties stay."""
    return replace(
        view,
        storage=replace(view.storage, columns=new.storage.columns),
        view_original=new.view_original,
        view_expanded=new.view_expanded,
    )
