"""What ought to be there: the rows that commits have counted, and the files that manifests name, beside what is there.

A listing does not show that a bucket, a delta or a delete delta is gone as a whole. The catalog knows how many rows
there ought to be, and the manifest of a job that committed minutes ago which files. The doctor compares them, and so
do reads, as far as ``hive.acid.read.verify`` says: by the same rules, which are these. Pure: listings come in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_hive_acid.format.damage import is_batch
from airflow_hive_acid.format.names import DirectoryKind, parse_directory, parse_original_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from airflow_hive_acid.format.acid_state import AcidState, FileEntry
    from airflow_hive_acid.format.write_ids import ValidWriteIdList


class CountedRows(NamedTuple):
    """The catalog's number of rows.

    :param claimed: whether it is called exact.
    """

    rows: int
    claimed: bool


class Gone(NamedTuple):
    """What a manifest names and a listing does not.

    :param path: of the file or directory, relative to the table or partition.
    :param is_file: whether its directory is still there.
    """

    path: str
    is_file: bool


def counted_files(state: AcidState, *, insert_only: bool = False) -> list[FileEntry]:
    """The files whose footers say how many rows a reader sees; open ones of streaming batches are not among them."""
    directories = (*state.inserts, *state.deletes)
    if insert_only:
        return [entry for directory in directories for entry in directory.plain_files()]
    return [e for d in directories if not is_batch(d) for e, _ in d.bucket_files() if e.size]


def count_live(state: AcidState, rows: Callable[[FileEntry], int | None], *, insert_only: bool = False) -> int | None:
    """How many rows a reader sees: those of bases and deltas less the events of delete deltas.

    :param rows: how many rows a file has; None where its end does not say.
    :return: None where that cannot be said: files without ACID columns (LOAD DATA brings them and counts nothing),
        open files of streaming batches, and files whose updates may lie among their inserts.
    """
    if state.originals or (state.files_of_older_hives and not insert_only):
        return None
    live = 0
    for directory in (*state.inserts, *state.deletes):
        if insert_only:
            files = list(directory.plain_files())
            unknown = not all(map(_is_of_a_writer, files))
        else:
            files = [entry for entry, _ in directory.bucket_files()]
            unknown = is_batch(directory) or bool(directory.original_files())
        if unknown:
            return None
        removed = directory.directory.kind is DirectoryKind.DELETE_DELTA
        for entry in files:
            found = rows(entry)
            if found is None:
                return None
            live += -found if removed else found
    return live


def _is_of_a_writer(entry: FileEntry) -> bool:
    """Whether a file of an insert-only table is called as a writer calls it; what LOAD DATA brought is not counted."""
    return parse_original_file(entry.path.rpartition("/")[2]) is not None


def differs(counted: CountedRows | None, live: int | None) -> str | None:
    """What is there, beside what the catalog has counted commit by commit: it knows of files that are gone.

    :param counted: the catalog's number; None where it has none.
    :param live: :func:`count_live`.
    :return: both numbers and what they may mean; None where they are the same, or where one is not known.
    """
    if counted is None or live is None or counted.rows == live:
        return None
    if live < counted.rows:
        gone = "files with inserted rows (a base, a delta, a bucket of one) may be gone"
    else:
        gone = "files with delete events may be gone, and deleted rows are back"
    stale = "its number is wrong (a writer that does not count, an aborted txn that a Hive has counted)"
    exact = " and calls that exact" if counted.claimed else ""
    return f"the catalog counts {counted.rows} rows{exact}, the files hold {live}: {gone}, or {stale}"


def is_of(seen: ValidWriteIdList, now: ValidWriteIdList, own: int | None = None) -> bool:
    """Whether the catalog's number, read before ``now`` was, is that of the rows which ``seen`` sees.

    Not while a write id is open: a Hive counts the rows of a txn before it commits.

    :param seen: the write ids of a reader.
    :param now: those of the table, taken after the number was read.
    :param own: the reader's own write id, under which it has written nothing yet.
    """
    mine = {own}
    if any(i not in mine for i in now.open_ids) or any(i not in mine for i in seen.open_ids):
        return False
    low, high = sorted((seen.high_watermark, now.high_watermark))
    if not (low == high or (high - low == 1 and high in mine)):
        return False
    return set(seen.aborted_ids) - mine == set(now.aborted_ids) - mine


def missing_files(state: AcidState, published: Iterable[tuple[str, Collection[str]]]) -> list[Gone]:
    """What was published by txns that have committed, and is gone without anything that replaces it.

    :param published: names of directories and of the files in each, by the manifests that are still recorded, of write
        ids that the state's reader sees.
    """
    there = {d.name: {entry.path.rpartition("/")[2] for entry in d.files} for d in (*state.inserts, *state.deletes)}
    replaced = [d.directory for d in (*state.inserts, *state.deletes, *state.obsolete)]
    gone = []
    for name, files in published:
        named = parse_directory(name)
        if named is None:
            continue
        if name in there:
            # Not the marker of the version: nobody's rows depend on it.
            lost = sorted(file for file in set(files) - there[name] if file[0] not in "._")
            gone += [Gone(f"{name}/{file}", is_file=True) for file in lost]
        # A base hides what is before it, a compaction what it covers; the same name is the directory itself.
        elif not any(
            other.max_write_id >= named.max_write_id
            and (other.kind is DirectoryKind.BASE or other.min_write_id <= named.min_write_id)
            # A minor compaction of a Hive before version 4 has no txn in its name, but no statement either.
            and (other.kind is DirectoryKind.BASE or other.visibility_txn_id or other.statement_id is None)
            for other in replaced
        ):
            gone.append(Gone(name, is_file=False))
    return gone
