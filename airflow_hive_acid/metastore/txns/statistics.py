"""What a write does to Hive's statistics: they stop being exact.

Hive answers ``count(*)`` from the catalog as long as COLUMN_STATS_ACCURATE says so, and a new table says so from the
start. A commit of ours that left the note in place would make Hive answer 0 rows for ever. The catalog's write id is
advanced together with it, as Hive's own statistics task does; when there is nothing to forget, nothing is written.

The number of rows is kept up to date all the same. A Worker of Hive ends a compaction with ANALYZE … NOSCAN, which
counts the rows of a lone base and else calls exact whatever number it finds; and Hive's own writes add to it, exact or
not. A number that we leave stale would be claimed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    null,
    select,
    union_all,
    update,
)

from airflow_hive_acid.format.names import DirectoryKind
from airflow_hive_acid.format.row_counts import CountedRows
from airflow_hive_acid.metastore.schema.hive_catalog import (
    CATALOG,
    DBS,
    PARTITION_PARAMS,
    PARTITIONS,
    TABLE_PARAMS,
    TBLS,
)
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

    from airflow_hive_acid.format.names import AcidDirectory

STATISTICS_ACCURATE = "COLUMN_STATS_ACCURATE"
"""The parameter in which a table or partition claims that its statistics are exact."""
_written = TXN_COMPONENTS.c
# No IN list: the statement travels in a batch, where lists are not expanded.
_of_txn = and_(_written.TC_TXNID == bindparam("txn_id"), _written.TC_OPERATION_TYPE != "c")
_tables = (
    select(TBLS.c.TBL_ID, cast(null(), BigInteger).label("PART_ID"), func.max(_written.TC_WRITEID).label("WRITE_ID"))
    .select_from(TXN_COMPONENTS)
    .join(DBS, and_(DBS.c.NAME == _written.TC_DATABASE, DBS.c.CTLG_NAME == CATALOG))
    .join(TBLS, and_(TBLS.c.DB_ID == DBS.c.DB_ID, TBLS.c.TBL_NAME == _written.TC_TABLE))
)
_partitions = (
    _tables.with_only_columns(TBLS.c.TBL_ID, PARTITIONS.c.PART_ID, func.max(_written.TC_WRITEID).label("WRITE_ID"))
    .join(PARTITIONS, and_(PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID, PARTITIONS.c.PART_NAME == _written.TC_PARTITION))
    .join(PARTITION_PARAMS, PARTITION_PARAMS.c.PART_ID == PARTITIONS.c.PART_ID)
)  # fmt: skip

SELECT_EXACT = union_all(
    _tables.join(TABLE_PARAMS, TABLE_PARAMS.c.TBL_ID == TBLS.c.TBL_ID)
    .where(_of_txn, TABLE_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE)
    .group_by(TBLS.c.TBL_ID),
    _partitions.where(_of_txn, PARTITION_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE).group_by(
        TBLS.c.TBL_ID, PARTITIONS.c.PART_ID
    ),
)
"""Tables and partitions written by ``txn_id`` whose statistics are still called exact: TBL_ID, PART_ID, WRITE_ID."""

_TABLE, _PARTITION = TBLS.c.TBL_ID == bindparam("id"), PARTITIONS.c.PART_ID == bindparam("id")
_NEW: BindParameter[int] = bindparam("new_write_id")
# Never back: an ALTER TABLE that shared the table with this writer may have committed first, with a higher id.
_ADVANCE_TABLE = update(TBLS).where(_TABLE).values(WRITE_ID=case((TBLS.c.WRITE_ID > _NEW, TBLS.c.WRITE_ID), else_=_NEW))
_ADVANCE_PARTITION = (
    update(PARTITIONS)
    .where(_PARTITION)
    .values(WRITE_ID=case((PARTITIONS.c.WRITE_ID > _NEW, PARTITIONS.c.WRITE_ID), else_=_NEW))
)
_FORGET_TABLE = delete(TABLE_PARAMS).where(
    TABLE_PARAMS.c.TBL_ID == bindparam("id"), TABLE_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE
)
_FORGET_PARTITION = delete(PARTITION_PARAMS).where(
    PARTITION_PARAMS.c.PART_ID == bindparam("id"), PARTITION_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE
)


def forget(connection: Connection, exact: Iterable[Sequence[Any]]) -> None:
    """Note that what a committing txn has written to no longer has exact statistics.

    Must run before the txn's components are moved, in the same transaction as the commit.

    :param exact: rows as ``SELECT_EXACT`` finds them: table, partition or None, write id or None.
    """
    for table_id, part_id, write_id in exact:
        of_table = part_id is None
        parameters = {"id": table_id if of_table else part_id}
        connection.execute(_FORGET_TABLE if of_table else _FORGET_PARTITION, parameters)
        if write_id is not None:
            advance = _ADVANCE_TABLE if of_table else _ADVANCE_PARTITION
            connection.execute(advance, {**parameters, "new_write_id": write_id})


@dataclass(frozen=True, slots=True)
class RowChange:
    """What a txn has done to the number of rows of a table or partition.

    :param rows: more rows than before (fewer if negative), or all there are.
    :param replaced: whether what was there before is hidden.
    """

    rows: int = 0
    replaced: bool = False

    @classmethod
    def of(cls, directory: AcidDirectory, rows: int, *, joins_base: bool = False) -> RowChange:
        """What a directory with so many events does.

        :param joins_base: they are put into a base that the txn has counted already.
        """
        if directory.kind is DirectoryKind.BASE and not joins_base:
            return cls(rows, replaced=True)
        return cls(-rows if directory.kind is DirectoryKind.DELETE_DELTA else rows)

    def then(self, later: RowChange) -> RowChange:
        """Both, one after the other."""
        return later if later.replaced else RowChange(self.rows + later.rows, self.replaced)

    def after(self, before: str | None) -> str | None:
        """The new number, from the one in the catalog; None where that is not known."""
        if self.replaced:
            return str(self.rows)
        if before is None or not before.isascii() or not before.isdigit():
            return None
        return str(max(0, int(before) + self.rows))


_NUM_ROWS = "numRows"
_PARTITIONS_AT_ONCE = 500


def count_rows(
    connection: Connection, table_id: int, changes: Mapping[str, RowChange], made: Collection[str] = ()
) -> None:
    """Bring the numbers of rows up to date that the catalog has, claimed or not; inside of a commit.

    Locks the rows it changes, in the order of their ids: writers of one partition do it one after the other.

    :param changes: by partition name; of a table without partitions under the empty name.
    :param made: names of the partitions that this commit has added: they had no row before.
    """
    if "" in changes:
        found = select(literal(table_id), literal(""), TABLE_PARAMS.c.PARAM_VALUE).where(
            TABLE_PARAMS.c.TBL_ID == table_id, TABLE_PARAMS.c.PARAM_KEY == _NUM_ROWS
        )
        _write(connection, TABLE_PARAMS.c.TBL_ID, connection.execute(found.with_for_update()).all(), changes)
    names = sorted(name for name in changes if name)
    for start in range(0, len(names), _PARTITIONS_AT_ONCE):
        some = names[start : start + _PARTITIONS_AT_ONCE]
        numbers = (
            select(PARTITIONS.c.PART_ID, PARTITIONS.c.PART_NAME, PARTITION_PARAMS.c.PARAM_VALUE)
            .join(PARTITION_PARAMS, PARTITION_PARAMS.c.PART_ID == PARTITIONS.c.PART_ID)
            .where(
                PARTITIONS.c.TBL_ID == table_id,
                PARTITIONS.c.PART_NAME.in_(some),
                PARTITION_PARAMS.c.PARAM_KEY == _NUM_ROWS,
            )
            .order_by(PARTITIONS.c.PART_ID)
            .with_for_update(of=PARTITION_PARAMS)
        )
        rows = connection.execute(numbers).all()
        _write(connection, PARTITION_PARAMS.c.PART_ID, rows, changes)
        known = {name for _, name, *_ in rows}
        new = [name for name in some if name in made and name not in known]
        if new:
            ids = select(PARTITIONS.c.PART_ID, PARTITIONS.c.PART_NAME).where(
                PARTITIONS.c.TBL_ID == table_id, PARTITIONS.c.PART_NAME.in_(new)
            )
            values = [
                {"PART_ID": part_id, "PARAM_KEY": _NUM_ROWS, "PARAM_VALUE": changes[name].after("0")}
                for part_id, name in connection.execute(ids)
            ]
            connection.execute(insert(PARTITION_PARAMS), values)


def counted_rows(connection: Connection, table_id: int, partitions: Sequence[str]) -> dict[str, CountedRows]:
    """The numbers of rows that commits have kept, by partition name; what has none is left out.

    :param partitions: names; a table without partitions has the empty one.
    """
    parameters: dict[str, dict[str, str]] = {}
    keys = (_NUM_ROWS, STATISTICS_ACCURATE)
    if "" in partitions:
        of_table = select(literal(""), TABLE_PARAMS.c.PARAM_KEY, TABLE_PARAMS.c.PARAM_VALUE).where(
            TABLE_PARAMS.c.TBL_ID == table_id, TABLE_PARAMS.c.PARAM_KEY.in_(keys)
        )
        parameters[""] = {key: value for _, key, value in connection.execute(of_table)}
    names = [name for name in partitions if name]
    for start in range(0, len(names), _PARTITIONS_AT_ONCE):
        of_partitions = (
            select(PARTITIONS.c.PART_NAME, PARTITION_PARAMS.c.PARAM_KEY, PARTITION_PARAMS.c.PARAM_VALUE)
            .join(PARTITION_PARAMS, PARTITION_PARAMS.c.PART_ID == PARTITIONS.c.PART_ID)
            .where(
                PARTITIONS.c.TBL_ID == table_id,
                PARTITIONS.c.PART_NAME.in_(names[start : start + _PARTITIONS_AT_ONCE]),
                PARTITION_PARAMS.c.PARAM_KEY.in_(keys),
            )
        )
        for name, key, value in connection.execute(of_partitions):
            parameters.setdefault(name, {})[key] = value
    return {
        name: CountedRows(int(found[_NUM_ROWS]), '"BASIC_STATS":"true"' in found.get(STATISTICS_ACCURATE, ""))
        for name, found in parameters.items()
        if RowChange().after(found.get(_NUM_ROWS)) is not None
    }


def _write(
    connection: Connection, owner: ColumnElement[int], rows: Sequence[Sequence[Any]], changes: Mapping[str, RowChange]
) -> None:
    table = owner.table
    changed = [
        {"owner": owner_id, "value": number}
        for owner_id, name, before in rows
        if (number := changes[name].after(before)) is not None and number != before
    ]
    if changed:
        statement = (
            update(table)
            .where(owner == bindparam("owner"), table.c.PARAM_KEY == _NUM_ROWS)
            .values(PARAM_VALUE=bindparam("value"))
        )
        connection.execute(statement, changed)
