-- What changed in Hive's metastore schema between 4.0 and 4.1 (no PostgreSQL script of 4.1 is published as an artifact).

-- HIVE-27725: column statistics are found through the table's or partition's id alone
drop index "TAB_COL_STATS_IDX";
drop index "TAB_COL_STATS_N49";
alter table "TAB_COL_STATS" drop column "CAT_NAME", drop column "DB_NAME", drop column "TABLE_NAME";
create index "TAB_COL_STATS_IDX" on "TAB_COL_STATS" ("TBL_ID", "COLUMN_NAME");
drop index "PCS_STATS_IDX";
drop index "PART_COL_STATS_N49";
alter table "PART_COL_STATS" drop column "CAT_NAME", drop column "DB_NAME", drop column "TABLE_NAME", drop column "PARTITION_NAME";
create index "PCS_STATS_IDX" on "PART_COL_STATS" ("PART_ID", "COLUMN_NAME");

-- HIVE-28292: tables are looked up by database first
alter table "TBLS" drop constraint "UNIQUETABLE";
alter table "TBLS" add constraint "UNIQUETABLE" unique ("DB_ID", "TBL_NAME");
drop index "TBLS_N49";

-- HIVE-28828
create unique index "TXN_STATE_IDX" on "TXNS" ("TXN_STATE", "TXN_ID");

update "VERSION" set "SCHEMA_VERSION" = '4.1.0', "VERSION_COMMENT" = 'Hive release version 4.1.0' where "VER_ID" = 1;
