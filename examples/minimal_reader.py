"""A reader of Hive ACID tables that uses nothing but docs/explanation/format.md: standard library and pyarrow.

It answers the question "is that page enough?", and is a start for readers in other languages. It reads one
unpartitioned table, or one partition, into memory: no push-down, no schema evolution, no streaming deltas.

    python examples/minimal_reader.py DIRECTORY "db.t:5:9223372036854775807::" "9:9223372036854775807::"
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import orc

Identity = tuple[int, int, int]


class Valid(NamedTuple):
    """A valid list (section 3): all ids up to the watermark but the exceptions."""

    watermark: int
    exceptions: frozenset[int]
    lowest_open: int

    @classmethod
    def parse(cls, text: str) -> Valid:
        """Both kinds; the table name of a ValidWriteIdList comes first and may be absent."""
        watermark, lowest_open, first, second = text.split(":")[-4:]
        ids = frozenset(int(i) for i in f"{first},{second}".split(",") if i)
        return cls(int(watermark), ids, int(lowest_open))

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and number <= self.watermark and number not in self.exceptions

    def any_of(self, low: int, high: int) -> bool:
        return any(number in self for number in range(low, min(high, self.watermark) + 1))


class Directory(NamedTuple):
    """Section 1. A base has ``low`` 0."""

    kind: str
    low: int
    high: int
    statement: int
    txn: int
    path: Path


def parse_name(path: Path) -> Directory | None:
    """What a directory name says, None for other things."""
    name, _, txn = path.name.partition("_v")
    match = re.fullmatch(r"base_(\d+)|(delta|delete_delta)_(\d+)_(\d+)(?:_(\d+))?", name)
    if match is None:
        return None
    base, kind, low, high, statement = match.groups()
    if base is not None:
        return Directory("base", 0, int(base), -1, int(txn or 0), path)
    return Directory(kind, int(low), int(high), int(statement or -1), int(txn or 0), path)


def choose(root: Path, write_ids: Valid, txns: Valid) -> tuple[Directory | None, list[Directory]]:
    """Rules 1 to 3: the base and the deltas of a snapshot."""
    found = [d for path in root.iterdir() if path.is_dir() and (d := parse_name(path))]
    found = [d for d in found if not d.txn or d.txn in txns]
    bases = [d for d in found if d.kind == "base"]
    usable = [
        d
        for d in bases
        if (d.high <= write_ids.watermark and d.high < write_ids.lowest_open if d.txn else d.high in write_ids)
    ]
    base = max(usable, key=lambda d: (d.high, d.txn), default=None)
    if base is None and any(d.txn for d in bases):
        raise LookupError("the history that this snapshot needs has been compacted away")
    deltas = [d for d in found if d.kind != "base" and write_ids.any_of(d.low, d.high)]
    deltas.sort(key=lambda d: (d.low, -d.high, d.statement, d.path.name))
    taken: list[Directory] = []
    current = base.high if base else 0
    last: Directory | None = None
    for delta in deltas:
        if delta.high > current and write_ids.any_of(current + 1, delta.high):
            current = delta.high
        elif last is None or not ((delta.high == current and last.statement >= 0) or delta[1:4] == last[1:4]):
            continue
        taken.append(delta)
        last = delta
    return base, taken


def files_of(directory: Path) -> list[Path]:
    """Data files, those in sub-directories of a UNION ALL included."""
    return sorted(p for p in directory.rglob("*") if p.is_file() and not p.name.startswith(("_", ".")))


def events_of(file: Path) -> list[dict[str, Any]]:
    """The rows of an ORC file as dicts."""
    rows: list[dict[str, Any]] = orc.ORCFile(file).read().to_pylist()
    return rows


def with_identities(files: list[Path], write_id: int, statement: int) -> dict[Identity, dict[str, Any]]:
    """Section 4: rows of files without header."""
    rows: dict[Identity, dict[str, Any]] = {}
    next_number: dict[int, int] = defaultdict(int)
    for file in files:
        bucket = int(file.name.partition("_")[0])
        for row in events_of(file):
            rows[write_id, 1 << 29 | bucket << 16 | statement, next_number[bucket]] = row
            next_number[bucket] += 1
    return rows


def read(root: Path, write_ids: str, txns: str) -> dict[Identity, dict[str, Any]]:
    """The rows that a snapshot sees, by identity.

    :param write_ids: text of the ValidWriteIdList.
    :param txns: text of the ValidTxnList.
    """
    seen = Valid.parse(write_ids)
    base, deltas = choose(root, seen, Valid.parse(txns))
    rows: dict[Identity, dict[str, Any]] = {}
    deleted: set[Identity] = set()
    if base is None:
        plain = sorted(p for p in root.iterdir() if p.is_file() and re.fullmatch(r"\d+_\d+(_copy_\d+)?", p.name))
        rows |= with_identities(plain, 0, 0)
    for directory in [*([base] if base else []), *deltas]:
        files = files_of(directory.path)
        rows |= with_identities(
            [f for f in files if not f.name.startswith("bucket_")], directory.high, max(directory.statement, 0)
        )
        for file in (f for f in files if re.fullmatch(r"bucket_\d+(_\d+)?", f.name)):
            for event in events_of(file):
                if directory.kind != "base" and event["currentTransaction"] not in seen:
                    continue  # rule 4; where all of X to Y is valid the test changes nothing
                identity = (event["originalTransaction"], event["bucket"], event["rowId"])
                if directory.kind == "delete_delta":
                    deleted.add(identity)
                else:
                    rows[identity] = event["row"]
    return {identity: row for identity, row in rows.items() if identity not in deleted}


if __name__ == "__main__":
    for found, values in sorted(read(Path(sys.argv[1]), sys.argv[2], sys.argv[3]).items()):
        print(found, values)  # noqa: T201 - a script
