"""Views that are not copied because their text names a database that is called otherwise at the destination.

What a view's text names has its database in front; Hive writes it in, and so do we. The copy would read tables that
are not there, or other ones that have the names. A text cannot be changed here: it may mean a column, or an alias.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.metastore.catalog import Table


@dataclass(slots=True)
class ViewsLeftOut:
    """The views that one cycle has left out.

    :param rename: names of databases at the destination by those at the source.
    """

    rename: Mapping[str, str]
    found: dict[str, str] = field(default_factory=dict)

    def take(self, table: Table | None) -> str | None:
        """Why a table of the source is left out, which is noted; None when it is not.

        :param table: None: there is none.
        """
        text = None if table is None else table.view_text
        if table is None or text is None:
            return None
        for database, called in self.rename.items():
            if database != called and re.search(rf"(?<!\w){re.escape(database)}(?!\w)", text, re.IGNORECASE):
                why = f"its text names the database {database}, which is {called} here"
                self.found[table.qualified_name] = why
                return why
        return None

    def told(self) -> list[str]:
        """What a person should know of them."""
        return [f"view {name} is not replicated: {why}; create it by hand" for name, why in sorted(self.found.items())]
