"""Options of the test runs: which databases, how much of each search, and what the targets of the Makefile add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import hive3_schemas, mysql_servers

if TYPE_CHECKING:
    import pytest

BACKENDS = ("sqlite", "postgresql", *mysql_servers.KINDS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        choices=BACKENDS,
        help="metastore database to test on; may be given more than once (default: sqlite, and postgresql where the "
        "database makes a difference)",
    )
    parser.addoption(
        "--schema",
        choices=hive3_schemas.KINDS,
        help="give tests a metastore as a Hive 3.1 or a CDP makes it, with our tables beside (default: Hive 4's)",
    )
    parser.addoption(
        "--every-database",
        action="store_true",
        help="all tests on sqlite and postgresql, also those above the rooms of SQL (make test-all)",
    )
    parser.addoption(
        "--repetitions",
        action="store_true",
        help="also tests that hold a rule once more, on another kind of table, and all examples of properties "
        "(make test-all); default: a quarter of them",
    )
    parser.addoption(
        "--compiled",
        action="store_true",
        help="the Sparks that tests share compile expressions as a user's Spark does (make test-all); for a few rows "
        "compiling costs more than interpreting them",
    )
    parser.addoption(
        "--accelerator",
        choices=("auto", "off"),
        default="auto",
        help="off: Sparks that tests share do without the optional jar (default: with it, if there is a Java compiler)",
    )
    parser.addoption(
        "--crashes-every",
        type=int,
        default=0,
        help="crash and zombie matrix: take every n-th cell (1: all, make test-crashes; 0: one of each statement)",
    )
    parser.addoption(
        "--stream-kills",
        type=int,
        default=2,
        help="streaming: how many times a process is killed at a random moment (default: 2)",
    )
    parser.addoption(
        "--mirror-kills",
        type=int,
        default=4,
        help="mirrors: how many times a Spark is killed at a random moment (default: 4)",
    )
    parser.addoption(
        "--interventions",
        choices=("small", "whole"),
        default="small",
        help="whole: every cell of the intervention matrix on every database (make test-interventions)",
    )
    parser.addoption(
        "--corpus",
        choices=("small", "whole"),
        default="small",
        help="whole: every statement of the corpus beside plain Spark (make test-corpus)",
    )
    parser.addoption(
        "--programs",
        type=int,
        help="how many random programs to run (default: 40 with a real Hive, one of each kind of replication)",
    )
