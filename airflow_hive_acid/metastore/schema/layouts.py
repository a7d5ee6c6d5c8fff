"""How the tables of a metastore differ from those we know: what it lacks, spells differently, or has besides.

The tables of this room are Hive 4's. Those of Hive 3.1 and of vendors' builds of it have fewer columns, on PostgreSQL
partly lower-case names, and a table that counts txns. A layout says which of that holds, and follows from what is
there: never from a version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, MetaData, Table

from airflow_hive_acid.metastore.schema import hive_catalog, hive_transactions  # noqa: F401 - they fill METADATA
from airflow_hive_acid.metastore.schema.hive_server import SERVER_TABLES
from airflow_hive_acid.metastore.schema.ours import EXTENSION_TABLES
from airflow_hive_acid.metastore.schema.types import METADATA

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NEXT_TXN_ID = Table("NEXT_TXN_ID", MetaData(), Column("NTXN_NEXT", BigInteger, nullable=False))
"""One row: the next txn id, in Hive 3. Its row lock is what TXN_LOCK_TBL is in Hive 4; there the table is gone."""

OPTIONAL_TABLES = frozenset({"MIN_HISTORY_LEVEL", "MIN_HISTORY_WRITE_ID", *(t.name for t in SERVER_TABLES)})
"""Hive itself copes without the first two: the features behind them are then off. The others are of no use to us."""
LATER_TABLES = frozenset({"COMPACTION_METRICS_CACHE", "TXN_LOCK_TBL", "TXN_WRITE_NOTIFICATION_LOG"})
"""Those that Hive 3.1 does not have, and that a metastore which counts txns need not have."""
NOT_IN_HIVE_3 = (OPTIONAL_TABLES | LATER_TABLES) - {"MIN_HISTORY_LEVEL"}
"""All that it need not have: readers are protected by MIN_HISTORY_LEVEL alone there."""


_NOT_IN_HIVE_3_1 = (("TBLS", "WRITE_ID"), ("COMPACTION_QUEUE", "CQ_TXN_ID"), ("TAB_COL_STATS", "ENGINE"))
"""Some of the columns that came with Hive 4."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a metastore's tables differ from Hive 4's.

    :param counts_txns: there is NEXT_TXN_ID: it gives the txn ids, and the rows of committed txns go from TXNS.
    :param lower_case: Hive's tables whose names, and whose columns' names, are in lower case.
    :param missing: Hive's tables that are not there.
    :param absent: columns that tables which are there do not have, as (table, column).
    """

    counts_txns: bool = False
    lower_case: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    absent: frozenset[tuple[str, str]] = frozenset()

    @property
    def is_vendors(self) -> bool:
        """Whether it counts txns as a Hive 3.1 does and has columns of Hive 4 all the same: a CDP's, whose protocol
        may be a mixture, too."""
        return self.counts_txns and any(not self.lacks(table, column) for table, column in _NOT_IN_HIVE_3_1)

    @property
    def tag(self) -> str:
        """A text that is equal for equal layouts; empty for Hive 4's own."""
        if self == USUAL:
            return ""
        absent = sorted(f"{table}.{column}" for table, column in self.absent)
        return " ".join([str(self.counts_txns), *sorted(self.lower_case), "-", *sorted(self.missing), "-", *absent])

    def spelled(self, name: str) -> str:
        """The name of one of Hive's tables, as this metastore spells it."""
        return name.lower() if name in self.lower_case else name

    def lower_case_names(self) -> frozenset[str]:
        """All identifiers, of tables and columns, that are in lower case."""
        tables = [t for t in (*METADATA.tables.values(), NEXT_TXN_ID) if t.name in self.lower_case]
        return frozenset(t.name for t in tables) | {c.name for t in tables for c in t.columns}

    def lacks(self, table: str, *columns: str) -> tuple[str, ...]:
        """Those of the columns of a table that are not there; all of them when the table is not."""
        return tuple(c for c in columns if table in self.missing or (table, c) in self.absent)


USUAL = Layout()
"""Hive 4's."""


def layout_of(found: Mapping[str, Collection[str]]) -> Layout:
    """The layout of a metastore.

    :param found: columns by table, views left out, each spelled as it is there.
    """
    ours_or_unused = {*EXTENSION_TABLES, *SERVER_TABLES}
    wanted = {t.name: t for t in METADATA.sorted_tables if t not in ours_or_unused}
    wanted[NEXT_TXN_ID.name] = NEXT_TXN_ID
    lower_case = frozenset(name for name in wanted if name not in found and name.lower() in found)
    missing = frozenset(name for name in wanted if name not in found and name not in lower_case)
    absent = set()
    for name, table in wanted.items():
        if name not in missing:
            there = {c.upper() for c in found[name.lower() if name in lower_case else name]}
            absent |= {(name, c.name) for c in table.columns if c.name.upper() not in there}
    return Layout(
        counts_txns=NEXT_TXN_ID.name not in missing,
        lower_case=lower_case,
        missing=missing - {NEXT_TXN_ID.name},
        absent=frozenset(absent),
    )


def not_served(version: str) -> str:
    """What the owner of a metastore of another version can do, and must not: a live Hive may stand on it.

    :param version: as the metastore's VERSION says.
    """
    number = re.match(r"(\d{1,9})(?:\.(\d{1,9}))?", version)
    found = (int(number[1]), int(number[2] or 0)) if number else None
    if found is None:
        whose = "It is the version of no Hive we know"
    elif found > (4, 2):
        whose = f"It belongs to a Hive {found[0]}.{found[1]}, which needs a newer release of this package"
    elif found >= (4, 0):
        whose = "It belongs to an unreleased or changed build of Hive 4, whose tables may differ"
    elif re.fullmatch(r"3\.1\.\d{4,}.*", version):
        whose = "It names a vendor's Hive (CDP, HDP), but its tables are not those of one (there is no NEXT_TXN_ID)"
    elif found == (3, 1):
        whose = "It names a Hive 3.1, but its tables are not those of one (there is no NEXT_TXN_ID)"
    else:
        whose = f"It belongs to a Hive {found[0]}.{found[1]}, whose transactions follow an older protocol"
    return (
        f"the metastore's schema version is {version}; served are 3.1, 4.0, 4.1 and 4.2, each with the tables of that "
        f"Hive. {whose}: this package neither reads nor writes through it, and has changed nothing. Never change the "
        "schema while that Hive uses it (no schematool -upgradeSchema, no other version in VERSION): that Hive would "
        "fail, or go on and damage its tables. The schema changes only with the Hive itself: all of its services "
        "stopped, a backup made, and the new version's own schematool. Until then give this package a metastore of its "
        "own: 'hive-acid schema create' on an empty database"
    )
