"""File formats by the class names under which the catalog holds them (Hive's StorageFormatDescriptors).

Full ACID tables are ORC; insert-only and plain tables may also be Parquet or text; plain ones CSV, JSON or Avro, too.
What else a Hive may know is taken
as it is and refused where files would have to be read or written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_HIVE = "org.apache.hadoop.hive"


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """A file format of the catalog.

    :param name: as job specs call it.
    :param keyword: as CREATE TABLE … STORED AS calls it.
    """

    name: str
    keyword: str
    input_format: str
    output_format: str
    serde: str


ORC = StorageFormat(
    "orc",
    "ORC",
    f"{_HIVE}.ql.io.orc.OrcInputFormat",
    f"{_HIVE}.ql.io.orc.OrcOutputFormat",
    f"{_HIVE}.ql.io.orc.OrcSerde",
)
PARQUET = StorageFormat(
    "parquet",
    "PARQUET",
    f"{_HIVE}.ql.io.parquet.MapredParquetInputFormat",
    f"{_HIVE}.ql.io.parquet.MapredParquetOutputFormat",
    f"{_HIVE}.ql.io.parquet.serde.ParquetHiveSerDe",
)
TEXT = StorageFormat(
    "text",
    "TEXTFILE",
    "org.apache.hadoop.mapred.TextInputFormat",
    f"{_HIVE}.ql.io.HiveIgnoreKeyTextOutputFormat",
    f"{_HIVE}.serde2.lazy.LazySimpleSerDe",
)
CSV = StorageFormat("csv", "TEXTFILE", TEXT.input_format, TEXT.output_format, f"{_HIVE}.serde2.OpenCSVSerde")
JSON = StorageFormat("json", "JSONFILE", TEXT.input_format, TEXT.output_format, f"{_HIVE}.serde2.JsonSerDe")
AVRO = StorageFormat(
    "avro",
    "AVRO",
    f"{_HIVE}.ql.io.avro.AvroContainerInputFormat",
    f"{_HIVE}.ql.io.avro.AvroContainerOutputFormat",
    f"{_HIVE}.serde2.avro.AvroSerDe",
)
FORMATS: Mapping[str, StorageFormat] = {f.name: f for f in (ORC, PARQUET, TEXT, CSV, JSON, AVRO)}
KEYWORDS: Mapping[str, StorageFormat] = {f.keyword: f for f in (ORC, PARQUET, TEXT, JSON, AVRO)}
PLAIN_ONLY = frozenset({CSV.name, JSON.name, AVRO.name})
"""Formats of which no transactional table is made here; a Hive's may be insert-only."""
_OTHER_NAMES = {"org.apache.hive.hcatalog.data.JsonSerDe": JSON.serde}
"""Serdes that read and write the same files."""


def storage_format(input_format: str | None, serde: str | None) -> StorageFormat | None:
    """The format of ours, None for any other; a descriptor without a serde is judged by its input alone."""
    serde = _OTHER_NAMES.get(serde, serde) if serde is not None else None
    for known in FORMATS.values():
        if input_format == known.input_format and serde in (known.serde, None):
            return known
    return None


def format_name(input_format: str | None, serde: str | None) -> str | None:
    """Its name."""
    found = storage_format(input_format, serde)
    return None if found is None else found.name
