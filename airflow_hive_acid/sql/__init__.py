"""A statement → a plan and the locks it needs. Pure: what it must know of the catalog is handed in."""

from __future__ import annotations

import functools

from airflow_hive_acid.sql.parsing.parser import parse_script
from airflow_hive_acid.sql.planning import planner

# The parser stands above the planner; texts of views need it inside.
plan = functools.partial(planner.plan, parse=parse_script)

__all__ = ["parse_script", "plan"]
