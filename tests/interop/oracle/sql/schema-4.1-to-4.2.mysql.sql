-- What changed in Hive's metastore schema between 4.1 and 4.2: by the mapping (package.jdo) in the published hive-exec of
-- each, one table. No script of 4.2 is published as an artifact. For MySQL and MariaDB.

-- HIVE-29178: properties of catalogs
CREATE TABLE `CATALOG_PARAMS` (
  `CTLG_ID` bigint NOT NULL,
  `PARAM_KEY` varchar(180) NOT NULL,
  `PARAM_VALUE` varchar(4000) DEFAULT NULL,
  PRIMARY KEY (`CTLG_ID`, `PARAM_KEY`),
  CONSTRAINT `CATALOG_PARAMS_FK1` FOREIGN KEY (`CTLG_ID`) REFERENCES `CTLGS` (`CTLG_ID`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=latin1;

UPDATE `VERSION` SET `SCHEMA_VERSION` = '4.2.0', `VERSION_COMMENT` = 'Hive release version 4.2.0' WHERE `VER_ID` = 1;
