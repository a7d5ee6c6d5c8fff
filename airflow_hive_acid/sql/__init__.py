"""A statement → a plan and the locks it needs. Pure: what it must know of the catalog is handed in."""

from __future__ import annotations

from airflow_hive_acid.sql.parsing.parser import parse_script
from airflow_hive_acid.sql.planning.planner import plan

__all__ = ["parse_script", "plan"]
