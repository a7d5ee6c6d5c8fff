"""What names mean in a query: the relations of a FROM clause, and what they offer to those who name them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.lineage.values import NOTHING, How, Use, Uses, through
from airflow_hive_acid.sql.planning.columns import column_names
from airflow_hive_acid.sql.planning.scopes import PSEUDO_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.sql.model.plans import TableFacts

Named = tuple[tuple[str, Uses], ...]


@dataclass(slots=True)
class Offer:
    """A relation of a FROM clause: what it offers to those who name it.

    :param alias: the name its columns are qualified with.
    :param columns: names in order, with the uses behind them.
    :param is_open: it may offer other columns, too, which only Spark knows.
    :param anything: what any of those is made of.
    :param view: name of the files whose columns those are.
    :param qualified_name: ``db.table`` as which its columns can be qualified.
    :param hidden: no part of ``*``: the other side of a SEMI or ANTI join.
    :param rows: of a view the columns that decide about its rows.
    """

    alias: str
    columns: Named
    is_open: bool = False
    anything: Uses = NOTHING
    view: str | None = None
    qualified_name: str | None = None
    hidden: bool = False
    rows: Uses = NOTHING

    def find(self, column: str) -> Uses | None:
        """The column of that name, None if there is none that is known."""
        found = [uses for name, uses in self.columns if name == column]
        return frozenset().union(*found) if found else None

    def guess(self, column: str) -> Uses:
        """The column of that name, which an open relation may have."""
        return self.anything if self.view is None else frozenset({Use(self.view, column)})


@dataclass(slots=True)
class Frame:
    """What names mean in one SELECT.

    :param aliases: names that the select list has given so far.
    :param joined: columns of USING, and NATURAL joins, with what they are made of.
    :param outer: where names are looked up next.
    :param rows: columns that decide about the rows.
    """

    offers: list[Offer]
    outer: Frame | None = None
    aliases: dict[str, Uses] = field(default_factory=dict)
    joined: dict[str, Uses] = field(default_factory=dict)
    rows: Uses = NOTHING
    named_windows: dict[str, exp.Window] = field(default_factory=dict)

    def column(self, parts: list[str], aliases_first: bool = False) -> Uses:
        """What a name means; nothing for one that is no column (a function without parentheses)."""
        found, guessed = self._find(parts, aliases_first)
        if found is not None:
            return found
        outer = self.outer.column(parts) if self.outer is not None else NOTHING
        return guessed | outer

    def _find(self, parts: list[str], aliases_first: bool) -> tuple[Uses | None, Uses]:
        """What surely is the column, and what it may be otherwise."""
        guessed = NOTHING
        for count in (2, 1):
            qualifier = ".".join(parts[:count])
            offer = next((o for o in self.offers if (o.alias if count == 1 else o.qualified_name) == qualifier), None)
            if offer is None or len(parts) <= count:
                continue
            found = offer.find(parts[count])
            if found is not None or parts[count] in PSEUDO_COLUMNS:
                return _field(found or NOTHING, len(parts) > count + 1), NOTHING
            if offer.is_open:
                return _field(offer.guess(parts[count]), len(parts) > count + 1), NOTHING
        name = parts[0]
        if aliases_first and name in self.aliases:
            return _field(self.aliases[name], len(parts) > 1), NOTHING
        found = self._unqualified(name)
        if found is None and name in self.aliases:
            found = self.aliases[name]
        if found is None:
            guesses = [offer.guess(name) for offer in self.offers if offer.is_open]
            guessed = _field(frozenset().union(*guesses), len(parts) > 1)
        return (None if found is None else _field(found, len(parts) > 1)), guessed

    def _unqualified(self, name: str) -> Uses | None:
        if name in PSEUDO_COLUMNS:
            return NOTHING
        if name in self.joined:
            return self.joined[name]
        return next((found for offer in self.offers if (found := offer.find(name)) is not None), None)

    def star(self, alias: str | None) -> tuple[Named, bool]:
        """The columns of ``*`` or ``alias.*``, and whether there may be others."""
        offers = [o for o in self.offers if not o.hidden]
        if alias is not None:
            offers = [o for o in self.offers if alias in (o.alias, o.qualified_name)][:1]
            if not offers and self.outer is not None:
                return self.outer.star(alias)
        columns: list[tuple[str, Uses]] = list(self.joined.items()) if alias is None else []
        for offer in offers:
            columns += [item for item in offer.columns if alias is not None or item[0] not in self.joined]
        return tuple(columns), any(offer.is_open for offer in offers) or not offers


@dataclass(frozen=True, slots=True)
class Derived:
    """What a query offers.

    :param rows: columns that decide which rows it has.
    :param is_open: its columns are not all known, or not by place.
    """

    columns: Named
    rows: Uses = NOTHING
    is_open: bool = False


def offer_of_table(facts: TableFacts, alias: str, *, aliased: bool) -> Offer:
    """A table of the catalog as a relation."""
    table = facts.qualified_name
    columns = tuple((name, frozenset({Use(table, name)})) for name in column_names(facts))
    return Offer(alias, columns, qualified_name=None if aliased else table)


def called(found: Derived, names: Sequence[str]) -> Derived:
    """What a view offers, by the names that its columns have."""
    if not names:
        return found
    if found.is_open or len(found.columns) != len(names):
        return Derived((), found.rows, is_open=True)
    return Derived(tuple((name, uses) for name, (_, uses) in zip(names, found.columns, strict=True)), found.rows)


def renamed(columns: Named, alias: exp.Expr | None) -> Named:
    """Columns with the names that an alias gives them."""
    names = [c.name.lower() for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return columns
    return tuple((name, uses) for name, (_, uses) in zip(names, columns, strict=False))


def _field(uses: Uses, inside: bool) -> Uses:
    """A column, or a field inside of it."""
    return through(uses, How.TRANSFORMATION) if inside else uses
