"""Tables of the catalog as values, said in few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.catalog.values.model import FieldSchema, Storage, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.format.jobs import Column


def flat_table(
    db: str,
    name: str,
    id: int,
    location: str,
    columns: Sequence[Column],
    partition_columns: Sequence[Column],
    properties: dict[str, str],
    owner: str | None,
    type: str,
    *,
    bucket_columns: tuple[str, ...] = (),
    bucket_count: int = -1,
    sort_columns: tuple[tuple[str, bool], ...] = (),
    input_format: str | None = None,
    serde: str | None = None,
    write_id: int = 0,
) -> Table:
    """A table with what tests ask of one."""
    fields, keys = (tuple(FieldSchema(c.name, c.type) for c in each) for each in (columns, partition_columns))
    storage = Storage(
        fields, location, input_format, None, (None, serde), bucket_count=bucket_count, bucket_columns=bucket_columns,
        sort_columns=tuple((name, int(ascending)) for name, ascending in sort_columns),
    )  # fmt: skip
    return Table(db, name, id, owner, "USER", 0, 0, 0, storage, keys, properties, type, write_id)
