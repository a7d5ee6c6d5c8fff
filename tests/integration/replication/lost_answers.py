"""A connection that breaks when a COMMIT has happened and before its answer is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    import pytest

    from airflow_hive_acid.replication.site import Site


class LostAnswers:
    """The connection to a metastore breaks right after a COMMIT has happened: the n-th one, counted from 1.

    :param for_good: nothing is committed any more afterwards.
    """

    def __init__(self, site: Site, number: int, monkeypatch: pytest.MonkeyPatch, *, for_good: bool) -> None:
        self.number, self.commits = number, 0
        database = site.client.database
        do_commit = database.engine.dialect.do_commit

        def commit(connection: Any) -> None:
            self.commits += 1
            if self.commits <= self.number or not for_good:
                do_commit(connection)
            if self.commits == self.number or (for_good and self.happened):
                raise sa.exc.OperationalError("COMMIT", {}, Exception("lost"), connection_invalidated=True)

        monkeypatch.setattr(database.engine.dialect, "do_commit", commit)
        monkeypatch.setattr(database, "_sleep", lambda _seconds: None)

    @property
    def happened(self) -> bool:
        return self.commits >= self.number
