"""Statements of the page that only a database of another kind would refuse."""

from sqlalchemy.dialects import mysql

from airflow_hive_acid.metastore.listing.table_pages import _no_measures


def test_no_cast_names_a_collation_which_mysql_8_refuses():
    """MariaDB takes CAST(… AS CHAR CHARACTER SET latin1 COLLATE latin1_bin), MySQL 8 does not."""
    text = str(_no_measures().compile(dialect=mysql.dialect()))
    assert "CAST(NULL AS CHAR(128))" in text
    assert "COLLATE" not in text
