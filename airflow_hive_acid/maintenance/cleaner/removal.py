"""Taking away what nobody needs of one directory: to the trash what may be wanted back, the rest for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.cleaner.pins import NOTHING_HELD
from airflow_hive_acid.maintenance.cleaner.trash import is_purged, lacking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.filesystem import FileInfo
    from airflow_hive_acid.maintenance.cleaner.endings import Account
    from airflow_hive_acid.maintenance.cleaner.look import Look
    from airflow_hive_acid.maintenance.cleaner.pins import HeldByPins
    from airflow_hive_acid.maintenance.cleaner.staying import Hold
    from airflow_hive_acid.maintenance.cleaner.subject import Readers
    from airflow_hive_acid.maintenance.cleaner.superfluous import Superfluous
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Compaction


@dataclass(frozen=True, slots=True)
class Removal:
    """From the directory of one table or partition.

    :param location: its URI; nothing outside of it is touched.
    :param table: that it is of.
    :param account: is told what has gone.
    """

    look: Look
    request: Compaction
    location: str
    table: Table
    account: Account

    def missed(
        self, listing: Sequence[FileInfo], found: Sequence[Superfluous], readers: Readers,
        held: HeldByPins = NOTHING_HELD,
    ) -> list[FileInfo]:  # fmt: skip
        """What a batch in the trash will lack of the rows as they were; nothing without a trash."""
        if self.look.trash is None:
            return []
        others = held.names | {one.entry.relative for one in found if one.mixed}
        going = [one.entry.relative for one in found if one.restorable]
        return lacking(listing, going, others, readers.write_ids, readers.txns)

    def remove(
        self, superfluous: Sequence[Superfluous], missed: Sequence[FileInfo], hold: Hold | None = None
    ) -> None:  # fmt: skip
        """Move or delete, one rename or delete each (R13); in a dry run only say what would go.

        :param missed: of the same rows, what stays or is deleted: noted with the batch in the trash.
        :param hold: the lock, kept alive meanwhile.
        """
        look, account, trash = self.look, self.account, self.look.trash
        kept = not is_purged(self.table) and "ifPurge" not in self.request.properties
        if trash is not None and not (kept and trash.takes_from(self.location)):
            trash = None
        wanted = [found.entry for found in superfluous if trash is not None and found.restorable]
        if look.dry_run:
            account.trashed = [entry.path for entry in wanted]
            account.removed = [found.entry.path for found in superfluous]
            return
        if trash is not None and wanted:
            account.trashed = trash.move(self.request, self.location, wanted, missed, table=self.table)
            account.removed += account.trashed
        for found in superfluous:
            if found.entry not in wanted:
                if hold is not None:
                    hold.beat()
                look.filesystem.delete(found.entry.path, inside=self.location)
                account.removed.append(found.entry.path)
