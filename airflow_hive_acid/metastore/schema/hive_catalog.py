"""Hive's catalog tables (databases, tables, partitions, storage, statistics), column for column.

Source: table list 1.5 of Hive 4's schema, in the shape of 4.1 (statistics are reached through TBL_ID and PART_ID
only). Foreign keys do not cascade: whoever drops an object deletes the children first, in the order given there.
"""

from __future__ import annotations

from sqlalchemy import ForeignKeyConstraint, Index, PrimaryKeyConstraint, UniqueConstraint, collate

from airflow_hive_acid.metastore.schema.types import (
    binary,
    double,
    flag,
    integer,
    key,
    narrow,
    number,
    small,
    table,
    text_value,
    words,
)

__all__ = [
    "BUCKETING_COLS",
    "CDS",
    "COLUMNS_V2",
    "CTLGS",
    "DATABASE_PARAMS",
    "DBS",
    "DB_PRIVS",
    "HIVE_ACID_PARTITION_NAME",
    "KEY_CONSTRAINTS",
    "MV_CREATION_METADATA",
    "MV_TABLES_USED",
    "PARTITIONS",
    "PARTITION_KEYS",
    "PARTITION_KEY_VALS",
    "PARTITION_PARAMS",
    "PART_COL_PRIVS",
    "PART_COL_STATS",
    "PART_PRIVS",
    "SDS",
    "SD_PARAMS",
    "SERDES",
    "SERDE_PARAMS",
    "SKEWED_COL_NAMES",
    "SKEWED_COL_VALUE_LOC_MAP",
    "SKEWED_STRING_LIST",
    "SKEWED_STRING_LIST_VALUES",
    "SKEWED_VALUES",
    "SORT_COLS",
    "TABLE_PARAMS",
    "TAB_COL_STATS",
    "TBLS",
    "TBL_COL_PRIVS",
    "TBL_PRIVS",
]

CATALOG = "hive"
"""The one catalog that we serve."""

CTLGS = table(
    "CTLGS",
    key("CTLG_ID"),
    words("NAME", 256),
    words("DESC", 4000),
    words("LOCATION_URI", 4000, null=False),
    narrow("CREATE_TIME"),
    UniqueConstraint("NAME"),
)

DBS = table(
    "DBS",
    key("DB_ID"),
    words("DESC", 4000, exact=True),
    words("DB_LOCATION_URI", 4000, null=False, exact=True),
    words("NAME", 128, exact=True),
    words("OWNER_NAME", 128, exact=True),
    words("OWNER_TYPE", 10, exact=True),
    words("CTLG_NAME", 256, null=False, default="hive"),
    narrow("CREATE_TIME"),
    words("DB_MANAGED_LOCATION_URI", 4000, exact=True),
    words("TYPE", 32, null=False, default="NATIVE"),
    words("DATACONNECTOR_NAME", 128),
    words("REMOTE_DBNAME", 128),
    UniqueConstraint("NAME", "CTLG_NAME", name="UNIQUE_DATABASE"),
    ForeignKeyConstraint(["CTLG_NAME"], ["CTLGS.NAME"], name="DBS_FK1"),
)

DATABASE_PARAMS = table(
    "DATABASE_PARAMS",
    number("DB_ID", "DBS.DB_ID", in_key=True),
    words("PARAM_KEY", 180, in_key=True, exact=True),
    words("PARAM_VALUE", 4000, exact=True),
)

CDS = table("CDS", key("CD_ID"))

COLUMNS_V2 = table(
    "COLUMNS_V2",
    number("CD_ID", "CDS.CD_ID", in_key=True),
    words("COMMENT", 4000, exact=True),
    words("COLUMN_NAME", 767, in_key=True, exact=True),
    text_value("TYPE_NAME"),
    integer("INTEGER_IDX", null=False),
)

SERDES = table(
    "SERDES",
    key("SERDE_ID"),
    words("NAME", 128, exact=True),
    words("SLIB", 4000, exact=True),
    words("DESCRIPTION", 4000, exact=True),
    words("SERIALIZER_CLASS", 4000, exact=True),
    words("DESERIALIZER_CLASS", 4000, exact=True),
    integer("SERDE_TYPE"),
)

SERDE_PARAMS = table(
    "SERDE_PARAMS",
    number("SERDE_ID", "SERDES.SERDE_ID", in_key=True),
    words("PARAM_KEY", 256, in_key=True, exact=True),
    text_value("PARAM_VALUE", exact=True),
)

SDS = table(
    "SDS",
    key("SD_ID"),
    words("INPUT_FORMAT", 4000, exact=True),
    flag("IS_COMPRESSED"),
    words("LOCATION", 4000, exact=True),
    narrow("NUM_BUCKETS", null=False),
    words("OUTPUT_FORMAT", 4000, exact=True),
    number("SERDE_ID", "SERDES.SERDE_ID"),
    number("CD_ID", "CDS.CD_ID"),
    flag("IS_STOREDASSUBDIRECTORIES"),
)
Index("SDS_N49", SDS.c.SERDE_ID)
Index("SDS_N50", SDS.c.CD_ID)

SD_PARAMS = table(
    "SD_PARAMS",
    number("SD_ID", "SDS.SD_ID", in_key=True),
    words("PARAM_KEY", 256, in_key=True, exact=True),
    text_value("PARAM_VALUE", exact=True),
)

BUCKETING_COLS = table(
    "BUCKETING_COLS",
    number("SD_ID", "SDS.SD_ID", in_key=True),
    words("BUCKET_COL_NAME", 256, exact=True),
    narrow("INTEGER_IDX", in_key=True),
)

SORT_COLS = table(
    "SORT_COLS",
    number("SD_ID", "SDS.SD_ID", in_key=True),
    words("COLUMN_NAME", 767, exact=True),
    narrow("ORDER", null=False),
    narrow("INTEGER_IDX", in_key=True),
)

SKEWED_STRING_LIST = table("SKEWED_STRING_LIST", key("STRING_LIST_ID"))

SKEWED_STRING_LIST_VALUES = table(
    "SKEWED_STRING_LIST_VALUES",
    number("STRING_LIST_ID", "SKEWED_STRING_LIST.STRING_LIST_ID", in_key=True),
    words("STRING_LIST_VALUE", 256, exact=True),
    narrow("INTEGER_IDX", in_key=True),
)

SKEWED_COL_NAMES = table(
    "SKEWED_COL_NAMES",
    number("SD_ID", "SDS.SD_ID", in_key=True),
    words("SKEWED_COL_NAME", 256, exact=True),
    narrow("INTEGER_IDX", in_key=True),
)

SKEWED_COL_VALUE_LOC_MAP = table(
    "SKEWED_COL_VALUE_LOC_MAP",
    number("SD_ID", "SDS.SD_ID", in_key=True),
    number("STRING_LIST_ID_KID", "SKEWED_STRING_LIST.STRING_LIST_ID", in_key=True),
    words("LOCATION", 4000, exact=True),
)

SKEWED_VALUES = table(
    "SKEWED_VALUES",
    number("SD_ID_OID", "SDS.SD_ID", in_key=True),
    number("STRING_LIST_ID_EID", "SKEWED_STRING_LIST.STRING_LIST_ID", null=False),
    narrow("INTEGER_IDX", in_key=True),
)

TBLS = table(
    "TBLS",
    key("TBL_ID"),
    narrow("CREATE_TIME", null=False),
    number("DB_ID", "DBS.DB_ID"),
    narrow("LAST_ACCESS_TIME", null=False),
    words("OWNER", 767, exact=True),
    words("OWNER_TYPE", 10, exact=True),
    narrow("RETENTION", null=False),
    number("SD_ID", "SDS.SD_ID"),
    words("TBL_NAME", 256, exact=True),
    words("TBL_TYPE", 128, exact=True),
    text_value("VIEW_EXPANDED_TEXT"),
    text_value("VIEW_ORIGINAL_TEXT"),
    flag("IS_REWRITE_ENABLED", default=False),
    number("WRITE_ID", default=0),
    UniqueConstraint("DB_ID", "TBL_NAME", name="UNIQUETABLE"),
)
Index("TBLS_N50", TBLS.c.SD_ID)

TABLE_PARAMS = table(
    "TABLE_PARAMS",
    number("TBL_ID", "TBLS.TBL_ID", in_key=True),
    words("PARAM_KEY", 256, in_key=True, exact=True),
    text_value("PARAM_VALUE", exact=True),
)

PARTITIONS = table(
    "PARTITIONS",
    key("PART_ID"),
    narrow("CREATE_TIME", null=False),
    narrow("LAST_ACCESS_TIME", null=False),
    words("PART_NAME", 767, exact=True),
    number("SD_ID", "SDS.SD_ID"),
    number("TBL_ID", "TBLS.TBL_ID"),
    number("WRITE_ID", default=0),
    UniqueConstraint("TBL_ID", "PART_NAME", name="UNIQUEPARTITION"),
)
Index("PARTITIONS_N50", PARTITIONS.c.SD_ID)

HIVE_ACID_PARTITION_NAME = Index(
    "HIVE_ACID_PARTITION_NAME", PARTITIONS.c.TBL_ID, collate(PARTITIONS.c.PART_NAME, "C")
).ddl_if(dialect="postgresql")
"""Ours: conditions on leading columns are ranges of names in the order of their bytes, and only PostgreSQL has Hive's
own index in another order."""

PARTITION_PARAMS = table(
    "PARTITION_PARAMS",
    number("PART_ID", "PARTITIONS.PART_ID", in_key=True),
    words("PARAM_KEY", 256, in_key=True, exact=True),
    text_value("PARAM_VALUE", exact=True),
)

PARTITION_KEYS = table(
    "PARTITION_KEYS",
    number("TBL_ID", "TBLS.TBL_ID", in_key=True),
    words("PKEY_COMMENT", 4000, exact=True),
    words("PKEY_NAME", 128, in_key=True, exact=True),
    words("PKEY_TYPE", 767, null=False, exact=True),
    narrow("INTEGER_IDX", null=False),
)

PARTITION_KEY_VALS = table(
    "PARTITION_KEY_VALS",
    number("PART_ID", "PARTITIONS.PART_ID", in_key=True),
    words("PART_KEY_VAL", 256, exact=True),
    narrow("INTEGER_IDX", in_key=True),
)


def _grants(name: str, id_column: str, privilege: str, owner: str, *, column: bool = False, unique: str = "") -> None:
    """One of the grant tables; they must be emptied before their object is dropped.

    :param unique: name of the constraint, where Hive has one: the same grant of the same grantor stands there once.
    """
    items = [key(id_column), narrow("CREATE_TIME", null=False), small("GRANT_OPTION", null=False)]
    items += [words(c, 128, exact=True) for c in ("GRANTOR", "GRANTOR_TYPE", "PRINCIPAL_NAME", "PRINCIPAL_TYPE")]
    items += [words(privilege, 128, exact=True), words("AUTHORIZER", 128, exact=True)]
    if column:
        items.append(words("COLUMN_NAME", 767, exact=True))
    object_id = owner.split(".")[1]
    items.append(number(object_id, owner))
    by = ("AUTHORIZER", object_id, "PRINCIPAL_NAME", "PRINCIPAL_TYPE", privilege, "GRANTOR", "GRANTOR_TYPE")
    table(name, *items, *([UniqueConstraint(*by, name=unique)] if unique else []))


_grants("DB_PRIVS", "DB_GRANT_ID", "DB_PRIV", "DBS.DB_ID", unique="DBPRIVILEGEINDEX")
_grants("TBL_PRIVS", "TBL_GRANT_ID", "TBL_PRIV", "TBLS.TBL_ID")
_grants("TBL_COL_PRIVS", "TBL_COLUMN_GRANT_ID", "TBL_COL_PRIV", "TBLS.TBL_ID", column=True)
_grants("PART_PRIVS", "PART_GRANT_ID", "PART_PRIV", "PARTITIONS.PART_ID")
_grants("PART_COL_PRIVS", "PART_COLUMN_GRANT_ID", "PART_COL_PRIV", "PARTITIONS.PART_ID", column=True)

DB_PRIVS = DBS.metadata.tables["DB_PRIVS"]
TBL_PRIVS = DBS.metadata.tables["TBL_PRIVS"]
TBL_COL_PRIVS = DBS.metadata.tables["TBL_COL_PRIVS"]
PART_PRIVS = DBS.metadata.tables["PART_PRIVS"]
PART_COL_PRIVS = DBS.metadata.tables["PART_COL_PRIVS"]


def _statistics(name: str, owner: str) -> None:
    """Column statistics of tables or partitions."""
    table(
        name,
        key("CS_ID"),
        words("COLUMN_NAME", 767, null=False, exact=True),
        words("COLUMN_TYPE", 128, null=False, exact=True),
        number(owner.split(".")[1], owner, null=False),
        number("LONG_LOW_VALUE"),
        number("LONG_HIGH_VALUE"),
        double("DOUBLE_LOW_VALUE"),
        double("DOUBLE_HIGH_VALUE"),
        words("BIG_DECIMAL_LOW_VALUE", 4000, exact=True),
        words("BIG_DECIMAL_HIGH_VALUE", 4000, exact=True),
        number("NUM_NULLS", null=False),
        number("NUM_DISTINCTS"),
        binary("BIT_VECTOR"),
        double("AVG_COL_LEN"),
        number("MAX_COL_LEN"),
        number("NUM_TRUES"),
        number("NUM_FALSES"),
        number("LAST_ANALYZED", null=False),
        words("ENGINE", 128, null=False, exact=True),
        binary("HISTOGRAM"),
    )


_statistics("TAB_COL_STATS", "TBLS.TBL_ID")
_statistics("PART_COL_STATS", "PARTITIONS.PART_ID")
TAB_COL_STATS = DBS.metadata.tables["TAB_COL_STATS"]
PART_COL_STATS = DBS.metadata.tables["PART_COL_STATS"]
Index("TAB_COL_STATS_IDX", TAB_COL_STATS.c.TBL_ID, TAB_COL_STATS.c.COLUMN_NAME)
Index("PCS_STATS_IDX", PART_COL_STATS.c.PART_ID, PART_COL_STATS.c.COLUMN_NAME)

KEY_CONSTRAINTS = table(
    "KEY_CONSTRAINTS",
    number("CHILD_CD_ID"),
    narrow("CHILD_INTEGER_IDX"),
    number("CHILD_TBL_ID"),
    number("PARENT_CD_ID"),
    narrow("PARENT_INTEGER_IDX", null=False),
    number("PARENT_TBL_ID", null=False),
    number("POSITION", null=False),
    words("CONSTRAINT_NAME", 400, null=False),
    small("CONSTRAINT_TYPE", null=False),
    small("UPDATE_RULE"),
    small("DELETE_RULE"),
    small("ENABLE_VALIDATE_RELY", null=False),
    words("DEFAULT_VALUE", 400),
    PrimaryKeyConstraint("PARENT_TBL_ID", "CONSTRAINT_NAME", "POSITION"),
)
Index("CONSTRAINTS_PARENT_TBLID_INDEX", KEY_CONSTRAINTS.c.PARENT_TBL_ID)
Index("CONSTRAINTS_CONSTRAINT_TYPE_INDEX", KEY_CONSTRAINTS.c.CONSTRAINT_TYPE)

MV_CREATION_METADATA = table(
    "MV_CREATION_METADATA",
    key("MV_CREATION_METADATA_ID"),
    words("CAT_NAME", 256, null=False, exact=True),
    words("DB_NAME", 128, null=False, exact=True),
    words("TBL_NAME", 256, null=False, exact=True),
    text_value("TXN_LIST"),
    number("MATERIALIZATION_TIME", null=False),
)
Index("MV_UNIQUE_TABLE", MV_CREATION_METADATA.c.TBL_NAME, MV_CREATION_METADATA.c.DB_NAME)

MV_TABLES_USED = table(
    "MV_TABLES_USED",
    number("MV_CREATION_METADATA_ID", "MV_CREATION_METADATA.MV_CREATION_METADATA_ID", in_key=True),
    number("TBL_ID", "TBLS.TBL_ID", in_key=True),
    number("INSERTED_COUNT", null=False, default=0),
    number("UPDATED_COUNT", null=False, default=0),
    number("DELETED_COUNT", null=False, default=0),
)
