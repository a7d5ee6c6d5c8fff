"""What ALTER may make of a table, as pure decisions: properties and columns by Hive's rules.

A transactional table stays one, external tables cannot become one, full ACID needs ORC and no sort order; buckets are
optional (Hive's TransactionalValidationListener). Columns of ACID files are found by position, so columns are renamed,
widened and added at the end, but neither dropped nor moved (Hive's rules for ORC with schema evolution).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.table_kinds import TRANSACTIONAL, TRANSACTIONAL_PROPERTIES
from airflow_hive_acid.metastore.catalog.values.definitions import check_columns, check_property
from airflow_hive_acid.metastore.catalog.values.formats import ORC
from airflow_hive_acid.metastore.catalog.values.model import EXTERNAL_TABLE, MANAGED_TABLE, FieldSchema
from airflow_hive_acid.metastore.names.objects import shorten
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.catalog.values.model import Storage, Table

CONVERSION_SEED = 10_000_000
"""Write ids of a converted table start above it, as in Hive: what was there before is write id 0."""
COUNTED = (STATISTICS_ACCURATE, "numRows")
"""What a table that becomes transactional does not take along: every commit counts on from it."""
_MAINTAINED = frozenset({STATISTICS_ACCURATE, "transient_lastDdlTime", "last_modified_by", "last_modified_time"})
_WIDER = ("tinyint", "smallint", "int", "bigint", "float", "double")
_TEXTS = frozenset({"string", "varchar", "char"})


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """What becomes of a table's properties.

    :param type: the table's type afterwards.
    :param converts: whether a plain table becomes transactional by it.
    """

    properties: dict[str, str]
    type: str
    converts: bool = False


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """What becomes of a table's columns.

    :param renamed: new names by old ones.
    :param outdated: old names of the columns whose statistics say nothing any more.
    """

    columns: tuple[Column, ...]
    comments: dict[str, str]
    renamed: dict[str, str] = field(default_factory=dict)
    outdated: frozenset[str] = frozenset()

    def made_of(self, storage: Storage) -> Storage:
        """The storage with these columns."""
        return replace(
            storage,
            columns=tuple(FieldSchema(c.name, c.type, self.comments.get(c.name)) for c in self.columns),
            bucket_columns=tuple(self.renamed.get(name, name) for name in storage.bucket_columns),
            sort_columns=tuple((self.renamed.get(name, name), order) for name, order in storage.sort_columns),
        )


def change_properties(
    table: Table, given: Mapping[str, str], unset: Iterable[str] = (), *, if_exists: bool = False
) -> PropertyChange:
    """SET and UNSET TBLPROPERTIES.

    :param if_exists: a property to unset that is not there is no error.
    :raises InvalidArgumentsError: naming the property, the rule and the remedy.
    """
    where = f"table {table.qualified_name}"
    require_table(table)
    properties = dict(table.properties)
    for key in unset:
        refuse_maintained(where, key)
        if key.lower() in (TRANSACTIONAL, TRANSACTIONAL_PROPERTIES) and table.is_transactional:
            raise _cannot_be_revoked(table)
        stored = _stored_key(properties, key)
        if stored is None and not if_exists:
            raise InvalidArgumentsError(f"{where} has no property {shorten(repr(key))}; use IF EXISTS if that is fine")
        if stored is not None:
            del properties[stored]
    for key, value in given.items():
        check_property(where, key, value)
        refuse_maintained(where, key)
        properties[_stored_key(properties, key) or _spelling(key)] = value
    return _transactional_rules(table, properties)


def add_columns(table: Table, columns: Sequence[Column], comments: Mapping[str, str]) -> ColumnChange:
    """ADD COLUMNS: they come after the others."""
    require_table(table)
    if not columns:
        raise InvalidArgumentsError(f"no column is named to be added to {table.qualified_name}")
    return _checked(table, (*table.columns, *columns), {**table.comments, **comments})


def replace_columns(table: Table, columns: Sequence[Column], comments: Mapping[str, str]) -> ColumnChange:
    """REPLACE COLUMNS: position by position, at least as many as there are."""
    require_table(table)
    if len(columns) < len(table.columns):
        raise InvalidArgumentsError(
            f"{table.qualified_name} has {len(table.columns)} columns and would keep {len(columns)}: columns of ACID "
            "files cannot be dropped; leave them, or copy the table with INSERT … SELECT"
        )
    kept = {key.name: table.comments[key.name] for key in table.partition_columns if key.name in table.comments}
    return _checked(table, tuple(columns), {**kept, **comments})


def change_column(table: Table, name: str, column: Column, comment: str | None = None) -> ColumnChange:
    """CHANGE COLUMN: another name, a wider type or another comment, in the same place.

    :param comment: None keeps the one there is.
    """
    require_table(table)
    names = [c.name for c in table.columns]
    if name.lower() not in names:
        kind = "a partition column" if name.lower() in {c.name for c in table.partition_columns} else "no column"
        raise InvalidArgumentsError(
            f"{shorten(repr(name))} is {kind} of {table.qualified_name}; only {', '.join(names[:20])} can be changed"
        )
    position = names.index(name.lower())
    columns = (*table.columns[:position], column, *table.columns[position + 1 :])
    comments = dict(table.comments)
    moved = comments.pop(name.lower(), None)
    if (said := moved if comment is None else comment) is not None:
        comments[column.name.lower()] = said
    return _checked(table, columns, comments)


def without_column_statistics(properties: Mapping[str, str]) -> dict[str, str]:
    """The parameters, their statistics exact for the number of rows at most, as Hive leaves them."""
    kept = dict(properties)
    stated = kept.pop(STATISTICS_ACCURATE, None)
    try:
        exact = json.loads(stated) if stated else {}
    except json.JSONDecodeError:
        exact = {}
    if isinstance(exact, dict) and exact.get("BASIC_STATS") == "true":
        kept[STATISTICS_ACCURATE] = json.dumps({"BASIC_STATS": "true"}, separators=(",", ":"))
    return kept


def _checked(table: Table, columns: tuple[Column, ...], comments: Mapping[str, str]) -> ColumnChange:
    where = f"table {table.qualified_name}"
    before = (*table.columns, *table.partition_columns)
    clean, _ = check_columns(where, columns, table.partition_columns, before)
    renamed, outdated = {}, set()
    for position, (old, new) in enumerate(zip(table.columns, clean, strict=False)):
        if old.name != new.name:
            if new.name in {c.name for c in table.columns} - {old.name}:
                raise InvalidArgumentsError(
                    f"{where}: column {position + 1} would become {new.name}, which is another column's name: columns "
                    "of ACID files are found by position and cannot be moved; change the order in your SELECT"
                )
            renamed[old.name] = new.name
            outdated.add(old.name)
        if old.type != new.type:
            _require_wider(table, old, new)
            outdated.add(old.name)
    known = {c.name for c in (*clean, *table.partition_columns)}
    lowered = {key.lower(): value for key, value in comments.items()}
    for key, value in lowered.items():
        if len(value) > 4000 or "\0" in value:
            raise InvalidArgumentsError(
                f"{where}: the comment of {key} has {len(value)} characters; at most 4000 without NUL can be stored"
            )
    return ColumnChange(clean, {k: v for k, v in lowered.items() if k in known}, renamed, frozenset(outdated))


def _require_wider(table: Table, old: Column, new: Column) -> None:
    if old.name in (*table.bucket_columns, *(name for name, _ in table.sort_columns)):
        raise InvalidArgumentsError(
            f"{table.qualified_name} is clustered by {old.name}: rows of another type would belong into other buckets; "
            "its type stays. Copy the table with INSERT … SELECT instead"
        )
    if not _is_wider(old.type, new.type):
        raise InvalidArgumentsError(
            f"{table.qualified_name}: column {old.name} is {old.type} and cannot become {new.type}: what is stored may "
            "not fit (Hive's metastore.disallow.incompatible.col.type.changes). Wider numbers and string are possible"
        )


def may_become(old: str, new: str) -> bool:
    """Whether a column of one type can get another, by which what is stored can still be read."""
    return old == new or _is_wider(old, new)


def _is_wider(old: str, new: str) -> bool:
    kind, size = _parsed(old)
    wider, room = _parsed(new)
    if wider == "string":
        return "<" not in old and kind != "binary"
    if kind in _TEXTS and wider in _TEXTS:
        return (wider == "varchar" and kind != "string" and room >= size) or (kind == wider and room >= size)
    if kind == wider == "decimal":
        return room[1] >= size[1] and room[0] - room[1] >= size[0] - size[1]
    if kind in _WIDER and wider in _WIDER:
        return _WIDER.index(kind) < _WIDER.index(wider)
    if kind in _WIDER[:4] and wider == "decimal":
        return room[0] - room[1] >= (3, 5, 10, 19)[_WIDER.index(kind)]
    return False


def _parsed(text: str) -> tuple[str, tuple[int, ...]]:
    simple = re.fullmatch(r"([a-z]+)\(([0-9, ]+)\)", text)
    if simple is None:
        return text, (10, 0) if text == "decimal" else ()
    return simple[1], tuple(int(n) for n in simple[2].split(","))


def _transactional_rules(table: Table, properties: dict[str, str]) -> PropertyChange:
    wanted = properties.get(TRANSACTIONAL, "false").lower()
    where = f"table {table.qualified_name}"
    external = properties.get("EXTERNAL", str(table.type == EXTERNAL_TABLE)).upper() == "TRUE"
    if wanted not in ("true", "false"):
        raise InvalidArgumentsError(f"{where}: transactional is 'true' or 'false', not {shorten(repr(wanted))}")
    if table.is_transactional:
        if wanted != "true":
            raise _cannot_be_revoked(table)
        if external:
            raise InvalidArgumentsError(f"{where} is transactional and cannot become external; copy it to a new table")
        _keep_kind(table, properties)
        _keep_bucketing(table, properties)
        return PropertyChange({**properties, TRANSACTIONAL: "true"}, table.type)
    if wanted == "false":
        if not external and table.type == EXTERNAL_TABLE:
            raise InvalidArgumentsError(
                f"{where} is not transactional, and a managed table must be; set 'transactional'='true' as well"
            )
        return PropertyChange(properties, EXTERNAL_TABLE if external else table.type)
    if external:
        raise InvalidArgumentsError(
            f"{where} is external and cannot be transactional; set 'EXTERNAL'='FALSE' in the same statement if its "
            "files are the table's own"
        )
    kind = properties.setdefault(TRANSACTIONAL_PROPERTIES, "default").lower()
    _require_kind(where, kind)
    if kind == "default" and table.input_format != ORC.input_format:
        raise InvalidArgumentsError(
            f"{where} is no ORC table: full ACID needs ORC. Set 'transactional_properties'='insert_only', or copy it"
        )
    if kind == "default" and table.sort_columns:
        raise InvalidArgumentsError(f"{where} is SORTED BY and cannot be full ACID; copy it to a table without order")
    # A table without transactions may have been written by anybody, and we count no rows there either.
    for counted in COUNTED:
        properties.pop(counted, None)
    return PropertyChange(
        {**properties, TRANSACTIONAL: "true", TRANSACTIONAL_PROPERTIES: kind}, MANAGED_TABLE, converts=True
    )


def _keep_kind(table: Table, properties: dict[str, str]) -> None:
    before = (table.property(TRANSACTIONAL_PROPERTIES) or "default").lower()
    after = properties.get(TRANSACTIONAL_PROPERTIES, before).lower()
    _require_kind(f"table {table.qualified_name}", after)
    if after != before:
        raise InvalidArgumentsError(
            f"table {table.qualified_name} is transactional_properties={before}, which cannot be changed to {after}: "
            "its files are laid out for it. Create another table and copy the rows"
        )


def _keep_bucketing(table: Table, properties: Mapping[str, str]) -> None:
    if table.bucket_columns and properties.get("bucketing_version") != table.properties.get("bucketing_version"):
        raise InvalidArgumentsError(
            f"table {table.qualified_name} is clustered: with another bucketing_version its rows would be looked for "
            "in the wrong buckets; copy it to a new table"
        )


def _require_kind(where: str, kind: str) -> None:
    if kind not in ("default", "insert_only"):
        raise InvalidArgumentsError(
            f"{where}: transactional_properties is 'default' or 'insert_only', not {shorten(repr(kind))}"
        )


def _cannot_be_revoked(table: Table) -> InvalidArgumentsError:
    return InvalidArgumentsError(
        f"table {table.qualified_name} is transactional, which cannot be revoked: its files have row ids and write "
        "ids. Copy it to an external table with INSERT … SELECT"
    )


def refuse_maintained(where: str, key: str) -> None:
    """Refuse a property that is not the user's.

    :raises InvalidArgumentsError: naming it.
    """
    if key in _MAINTAINED:
        raise InvalidArgumentsError(f"{where}: the property {key} is maintained by the metastore and cannot be set")


def require_table(table: Table) -> None:
    """Refuse views.

    :raises InvalidArgumentsError: saying what it is.
    """
    if table.type not in (MANAGED_TABLE, EXTERNAL_TABLE):
        raise InvalidArgumentsError(
            f"{table.qualified_name} is a {table.type.lower().replace('_', ' ')}; only tables can be altered here, "
            "views with ALTER VIEW"
        )


def _stored_key(properties: Mapping[str, str], key: str) -> str | None:
    """The property's name as it is stored; Hive takes the transactional ones in any case."""
    if key in properties:
        return key
    known = key.lower() in (TRANSACTIONAL, TRANSACTIONAL_PROPERTIES)
    return next((k for k in properties if known and k.lower() == key.lower()), None)


def _spelling(key: str) -> str:
    return key.lower() if key.lower() in (TRANSACTIONAL, TRANSACTIONAL_PROPERTIES) else key
