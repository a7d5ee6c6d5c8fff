-- What changed in Hive's metastore schema between 4.1 and 4.2: by the mapping (package.jdo) in the published hive-exec of
-- each, one table. No script of 4.2 is published as an artifact. For PostgreSQL.

-- HIVE-29178: properties of catalogs
create table "CATALOG_PARAMS" (
  "CTLG_ID" bigint not null references "CTLGS" ("CTLG_ID") on delete cascade,
  "PARAM_KEY" varchar(180) not null,
  "PARAM_VALUE" varchar(4000),
  primary key ("CTLG_ID", "PARAM_KEY")
);

update "VERSION" set "SCHEMA_VERSION" = '4.2.0', "VERSION_COMMENT" = 'Hive release version 4.2.0' where "VER_ID" = 1;
