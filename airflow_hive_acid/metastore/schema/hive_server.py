"""Tables that only Hive itself uses: roles, functions, data connectors, scheduled queries, workload management, ….

Roles and their members apart, which replication carries over, nothing in this package reads or writes them. A real
Hive reads some as soon as it starts (roles, functions) and others when a database is dropped, so a metastore that we
create has them all, in the shape of Hive 4.1's schema.
"""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKeyConstraint, Index, Integer, SmallInteger, UniqueConstraint

from airflow_hive_acid.metastore.schema.types import (
    binary,
    flag,
    integer,
    key,
    long_text,
    narrow,
    number,
    small,
    table,
    text_value,
    words,
)

# --- roles and grants -------------------------------------------------------------------------------------------

ROLES = table(
    "ROLES",
    key("ROLE_ID"),
    narrow("CREATE_TIME", null=False),
    words("OWNER_NAME", 128),
    words("ROLE_NAME", 128),
    UniqueConstraint("ROLE_NAME", name="ROLEENTITYINDEX"),
)

ROLE_MAP = table(
    "ROLE_MAP",
    key("ROLE_GRANT_ID"),
    narrow("ADD_TIME", null=False),
    small("GRANT_OPTION", null=False),
    words("GRANTOR", 128),
    words("GRANTOR_TYPE", 128),
    words("PRINCIPAL_NAME", 128),
    words("PRINCIPAL_TYPE", 128),
    number("ROLE_ID", "ROLES.ROLE_ID"),
    UniqueConstraint("PRINCIPAL_NAME", "ROLE_ID", "GRANTOR", "GRANTOR_TYPE", name="USERROLEMAPINDEX"),
)

GLOBAL_PRIVS = table(
    "GLOBAL_PRIVS",
    key("USER_GRANT_ID"),
    narrow("CREATE_TIME", null=False),
    small("GRANT_OPTION", null=False),
    words("GRANTOR", 128),
    words("GRANTOR_TYPE", 128),
    words("PRINCIPAL_NAME", 128),
    words("PRINCIPAL_TYPE", 128),
    words("USER_PRIV", 128),
    words("AUTHORIZER", 128),
    UniqueConstraint(
        "AUTHORIZER",
        "PRINCIPAL_NAME",
        "PRINCIPAL_TYPE",
        "USER_PRIV",
        "GRANTOR",
        "GRANTOR_TYPE",
        name="GLOBALPRIVILEGEINDEX",
    ),
)

# --- data connectors --------------------------------------------------------------------------------------------

_DATACONNECTORS = table(
    "DATACONNECTORS",
    words("NAME", 128, in_key=True),
    words("TYPE", 32, null=False),
    words("URL", 4000, null=False),
    words("COMMENT", 256),
    words("OWNER_NAME", 256),
    words("OWNER_TYPE", 10),
    integer("CREATE_TIME", null=False),
)

_DATACONNECTOR_PARAMS = table(
    "DATACONNECTOR_PARAMS",
    words("NAME", 128, in_key=True, references="DATACONNECTORS.NAME"),
    words("PARAM_KEY", 180, in_key=True),
    words("PARAM_VALUE", 4000),
)

_DC_PRIVS = table(
    "DC_PRIVS",
    key("DC_GRANT_ID"),
    narrow("CREATE_TIME", null=False),
    words("NAME", 128, references="DATACONNECTORS.NAME"),
    small("GRANT_OPTION", null=False),
    words("GRANTOR", 128),
    words("GRANTOR_TYPE", 128),
    words("PRINCIPAL_NAME", 128),
    words("PRINCIPAL_TYPE", 128),
    words("DC_PRIV", 128),
    words("AUTHORIZER", 128),
    UniqueConstraint(
        "AUTHORIZER",
        "NAME",
        "PRINCIPAL_NAME",
        "PRINCIPAL_TYPE",
        "DC_PRIV",
        "GRANTOR",
        "GRANTOR_TYPE",
        name="DCPRIVILEGEINDEX",
    ),
)

# --- functions, procedures, types -------------------------------------------------------------------------------

_FUNCS = table(
    "FUNCS",
    key("FUNC_ID"),
    words("CLASS_NAME", 4000),
    integer("CREATE_TIME", null=False),
    number("DB_ID", "DBS.DB_ID"),
    words("FUNC_NAME", 128),
    integer("FUNC_TYPE", null=False),
    words("OWNER_NAME", 128),
    words("OWNER_TYPE", 10),
)
Index("UNIQUEFUNCTION", _FUNCS.c.FUNC_NAME, _FUNCS.c.DB_ID, unique=True)

_FUNC_RU = table(
    "FUNC_RU",
    number("FUNC_ID", "FUNCS.FUNC_ID", in_key=True),
    integer("RESOURCE_TYPE", null=False),
    words("RESOURCE_URI", 4000),
    integer("INTEGER_IDX", in_key=True),
)

_STORED_PROCS = table(
    "STORED_PROCS",
    key("SP_ID"),
    integer("CREATE_TIME", null=False),
    number("DB_ID", "DBS.DB_ID", null=False),
    words("NAME", 256, null=False),
    words("OWNER_NAME", 128, null=False),
    long_text("SOURCE", null=False),
)
Index("UNIQUESTOREDPROC", _STORED_PROCS.c.NAME, _STORED_PROCS.c.DB_ID, unique=True)

_PACKAGES = table(
    "PACKAGES",
    key("PKG_ID"),
    integer("CREATE_TIME", null=False),
    number("DB_ID", "DBS.DB_ID", null=False),
    words("NAME", 256, null=False),
    words("OWNER_NAME", 128, null=False),
    long_text("HEADER", null=False),
    long_text("BODY", null=False),
)
Index("UNIQUEPKG", _PACKAGES.c.NAME, _PACKAGES.c.DB_ID, unique=True)

_TYPES = table(
    "TYPES",
    key("TYPES_ID"),
    words("TYPE_NAME", 128),
    words("TYPE1", 767),
    words("TYPE2", 767),
    UniqueConstraint("TYPE_NAME", name="UNIQUE_TYPE"),
)

_TYPE_FIELDS = table(
    "TYPE_FIELDS",
    number("TYPE_NAME", "TYPES.TYPES_ID", in_key=True),
    words("COMMENT", 256),
    words("FIELD_NAME", 128, in_key=True),
    words("FIELD_TYPE", 767, null=False),
    narrow("INTEGER_IDX", null=False),
)

_I_SCHEMA = table(
    "I_SCHEMA",
    key("SCHEMA_ID"),
    integer("SCHEMA_TYPE", null=False),
    words("NAME", 256),
    number("DB_ID", "DBS.DB_ID"),
    integer("COMPATIBILITY", null=False),
    integer("VALIDATION_LEVEL", null=False),
    flag("CAN_EVOLVE"),
    words("SCHEMA_GROUP", 256),
    words("DESCRIPTION", 4000),
    UniqueConstraint("NAME"),
)

_SCHEMA_VERSION = table(
    "SCHEMA_VERSION",
    key("SCHEMA_VERSION_ID"),
    number("SCHEMA_ID", "I_SCHEMA.SCHEMA_ID"),
    integer("VERSION", null=False),
    number("CREATED_AT", null=False),
    number("CD_ID", "CDS.CD_ID"),
    integer("STATE", null=False),
    words("DESCRIPTION", 4000),
    text_value("SCHEMA_TEXT"),
    words("FINGERPRINT", 256),
    words("SCHEMA_VERSION_NAME", 256),
    number("SERDE_ID", "SERDES.SERDE_ID"),
    UniqueConstraint("SCHEMA_ID", "VERSION"),
)

# --- scheduled queries, replication metrics, run-time statistics ------------------------------------------------

_SCHEDULED_QUERIES = table(
    "SCHEDULED_QUERIES",
    key("SCHEDULED_QUERY_ID"),
    words("CLUSTER_NAMESPACE", 256),
    flag("ENABLED"),
    integer("NEXT_EXECUTION"),
    words("QUERY", 4000),
    words("SCHEDULE", 256),
    words("SCHEDULE_NAME", 256),
    words("USER", 256),
    narrow("ACTIVE_EXECUTION_ID"),
)

_SCHEDULED_EXECUTIONS = table(
    "SCHEDULED_EXECUTIONS",
    key("SCHEDULED_EXECUTION_ID"),
    integer("END_TIME"),
    words("ERROR_MESSAGE", 2000),
    words("EXECUTOR_QUERY_ID", 256),
    integer("LAST_UPDATE_TIME"),
    number("SCHEDULED_QUERY_ID"),
    integer("START_TIME"),
    words("STATE", 256),
    ForeignKeyConstraint(
        ["SCHEDULED_QUERY_ID"],
        ["SCHEDULED_QUERIES.SCHEDULED_QUERY_ID"],
        name="SCHEDULED_EXECUTIONS_SCHQ_FK",
        ondelete="CASCADE",
    ),
)

_REPLICATION_METRICS = table(
    "REPLICATION_METRICS",
    key("RM_SCHEDULED_EXECUTION_ID"),
    words("RM_POLICY", 256, null=False),
    number("RM_DUMP_EXECUTION_ID", null=False),
    words("RM_METADATA", 4000),
    words("RM_PROGRESS", 10000),
    integer("RM_START_TIME", null=False),
    words("MESSAGE_FORMAT", 16, default="json-0.2"),
)
Index("POLICY_IDX", _REPLICATION_METRICS.c.RM_POLICY)
Index("DUMP_IDX", _REPLICATION_METRICS.c.RM_DUMP_EXECUTION_ID)

_RUNTIME_STATS = table(
    "RUNTIME_STATS",
    key("RS_ID"),
    number("CREATE_TIME", null=False),
    number("WEIGHT", null=False),
    binary("PAYLOAD"),
)
Index("IDX_RUNTIME_STATS_CREATE_TIME", _RUNTIME_STATS.c.CREATE_TIME)

_PARTITION_EVENTS = table(
    "PARTITION_EVENTS",
    key("PART_NAME_ID"),
    words("CAT_NAME", 256),
    words("DB_NAME", 128),
    number("EVENT_TIME", null=False),
    integer("EVENT_TYPE", null=False),
    words("PARTITION_NAME", 767),
    words("TBL_NAME", 256),
)
Index("PARTITIONEVENTINDEX", _PARTITION_EVENTS.c.PARTITION_NAME)

# --- keys, tokens, properties -----------------------------------------------------------------------------------

_MASTER_KEYS = table(
    "MASTER_KEYS",
    Column("KEY_ID", Integer, primary_key=True, autoincrement=True),
    words("MASTER_KEY", 767),
)

_DELEGATION_TOKENS = table("DELEGATION_TOKENS", words("TOKEN_IDENT", 767, in_key=True), words("TOKEN", 767))

_METASTORE_DB_PROPERTIES = table(
    "METASTORE_DB_PROPERTIES",
    words("PROPERTY_KEY", 255, in_key=True),
    words("PROPERTY_VALUE", 1000, null=False),
    words("DESCRIPTION", 1000),
    binary("PROPERTYCONTENT"),
)

_NUCLEUS_TABLES = table(
    "NUCLEUS_TABLES",
    words("CLASS_NAME", 128, in_key=True),
    words("TABLE_NAME", 128, null=False),
    words("TYPE", 4, null=False),
    words("OWNER", 2, null=False),
    words("VERSION", 20, null=False),
    words("INTERFACE_NAME", 255),
)

# --- workload management ----------------------------------------------------------------------------------------

_WM_RESOURCEPLAN = table(
    "WM_RESOURCEPLAN",
    key("RP_ID"),
    words("NAME", 128, null=False),
    words("NS", 128),
    integer("QUERY_PARALLELISM"),
    words("STATUS", 20, null=False),
    number("DEFAULT_POOL_ID"),
    UniqueConstraint("NS", "NAME", name="UNIQUE_WM_RESOURCEPLAN"),
    # A plan names its pool and a pool its plan: this half is added once both tables are there.
    ForeignKeyConstraint(
        ["DEFAULT_POOL_ID"], ["WM_POOL.POOL_ID"], name="WM_RESOURCEPLAN_FK1", deferrable=True, use_alter=True
    ),
)

_WM_POOL = table(
    "WM_POOL",
    key("POOL_ID"),
    number("RP_ID", "WM_RESOURCEPLAN.RP_ID", null=False),
    words("PATH", 1024, null=False),
    Column("ALLOC_FRACTION", Double),
    integer("QUERY_PARALLELISM"),
    words("SCHEDULING_POLICY", 1024),
    UniqueConstraint("RP_ID", "PATH", name="UNIQUE_WM_POOL"),
)

_WM_TRIGGER = table(
    "WM_TRIGGER",
    key("TRIGGER_ID"),
    number("RP_ID", "WM_RESOURCEPLAN.RP_ID", null=False),
    words("NAME", 128, null=False),
    words("TRIGGER_EXPRESSION", 1024),
    words("ACTION_EXPRESSION", 1024),
    Column("IS_IN_UNMANAGED", SmallInteger, nullable=False, server_default="0"),
    UniqueConstraint("RP_ID", "NAME", name="UNIQUE_WM_TRIGGER"),
)

_WM_POOL_TO_TRIGGER = table(
    "WM_POOL_TO_TRIGGER",
    number("POOL_ID", "WM_POOL.POOL_ID", in_key=True),
    number("TRIGGER_ID", "WM_TRIGGER.TRIGGER_ID", in_key=True),
)

_WM_MAPPING = table(
    "WM_MAPPING",
    key("MAPPING_ID"),
    number("RP_ID", "WM_RESOURCEPLAN.RP_ID", null=False),
    words("ENTITY_TYPE", 128, null=False),
    words("ENTITY_NAME", 128, null=False),
    number("POOL_ID", "WM_POOL.POOL_ID"),
    integer("ORDERING"),
    UniqueConstraint("RP_ID", "ENTITY_TYPE", "ENTITY_NAME", name="UNIQUE_WM_MAPPING"),
)

SERVER_TABLES = (
    ROLES,
    ROLE_MAP,
    GLOBAL_PRIVS,
    _DATACONNECTORS,
    _DATACONNECTOR_PARAMS,
    _DC_PRIVS,
    _FUNCS,
    _FUNC_RU,
    _STORED_PROCS,
    _PACKAGES,
    _TYPES,
    _TYPE_FIELDS,
    _I_SCHEMA,
    _SCHEMA_VERSION,
    _SCHEDULED_QUERIES,
    _SCHEDULED_EXECUTIONS,
    _REPLICATION_METRICS,
    _RUNTIME_STATS,
    _PARTITION_EVENTS,
    _MASTER_KEYS,
    _DELEGATION_TOKENS,
    _METASTORE_DB_PROPERTIES,
    _NUCLEUS_TABLES,
    _WM_RESOURCEPLAN,
    _WM_POOL,
    _WM_TRIGGER,
    _WM_POOL_TO_TRIGGER,
    _WM_MAPPING,
)
"""Created with a schema of ours, never asked for in a schema that is there."""
