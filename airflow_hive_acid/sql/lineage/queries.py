"""Column lineage of queries and expressions: a walk over sqlglot's tree that follows names to columns of tables.

Each query becomes what it offers: its columns with the uses behind them, and the columns that decide about its rows.
An outer query composes what the inner ones offer; so nothing is expanded, and the work grows with the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.lineage.values import NOTHING, How, Use, Uses, through
from airflow_hive_acid.sql.planning.columns import column_names
from airflow_hive_acid.sql.planning.scopes import PSEUDO_COLUMNS, visible_cte
from airflow_hive_acid.sql.planning.view_texts import Parse, is_view, no_parser, query_of_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_hive_acid.format.jobs import Source
    from airflow_hive_acid.sql.model.plans import TableFacts, TableLookup
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery

Named = tuple[tuple[str, Uses], ...]
_GENERATORS = (exp.Explode, exp.Inline, exp.Stack)
_GENERATOR_NAMES = frozenset({"json_tuple", "inline_outer", "variant_explode", "variant_explode_outer"})
_AGGREGATE_NAMES = frozenset(
    {"percentile", "histogram_numeric", "regr_count", "bit_and_agg", "any", "some", "every", "mode", "kurtosis"}
)
# sqlglot counts them among the aggregates; each gives the value of one row.
_ROW_FUNCTIONS = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_MASKS = (exp.MD5, exp.MD5Digest, exp.SHA, exp.SHA2, exp.Count)
_MASK_NAMES = frozenset(
    {"crc32", "hash", "xxhash64", "mask", "mask_first_n", "mask_last_n", "mask_show_first_n", "mask_show_last_n",
     "mask_hash", "sha1", "sha", "md5", "sha2"}
)  # fmt: skip
_SORTS = ("order", "sort", "cluster", "distribute")


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


@dataclass(slots=True)
class Walker:
    """Follows the names of one statement.

    :param inputs: what it reads, in the order of first appearance: of a view the tables below.
    :param queries: temporary views of a query, by lower-case name.
    :param parse: reads the text of a view; ``path`` are the views around this text.
    """

    table_of: TableLookup
    views: Mapping[str, Source]
    default_database: str
    inputs: dict[str, None] = field(default_factory=dict)
    queries: Mapping[str, CreateTemporaryQuery] = field(default_factory=dict)
    parse: Parse = no_parser
    path: tuple[str, ...] = ()
    _ctes: dict[int, Derived] = field(default_factory=dict)

    def query(self, node: exp.Expr, outer: Frame | None = None) -> Derived:
        """What a query offers.

        :param outer: what names mean around it, if it may use them.
        """
        match node:
            case exp.Subquery():
                found = self.query(node.this, outer)
                return self._sorted(node, found, outer)
            case exp.SetOperation():
                return self._sorted(node, self._set_operation(node, outer), outer)
            case exp.Select():
                return self._select(node, outer)
            case exp.Values():
                return self._values(node, outer)
            case exp.Table():
                offer = self.table(node)
                return Derived(offer.columns, offer.rows, offer.is_open)
        return Derived((), is_open=True)

    def value(self, frame: Frame, node: exp.Expr, aliases_first: bool = False) -> Uses:
        """What an expression is made of."""
        found: set[Use] = set()
        # No recursion: a condition of a thousand terms is a tree as deep.
        stack: list[tuple[exp.Expr, How, bool]] = [(node, How.IDENTITY, False)]
        while stack:
            part, how, masking = stack.pop()
            if isinstance(part, exp.Column):
                parts = [p.name.lower() for p in part.parts if not isinstance(p, exp.Star)]
                found |= through(frame.column(parts, aliases_first) if parts else NOTHING, how, masking)
            elif isinstance(part, exp.Exists) and isinstance(part.this, exp.Query):
                found |= through(self.query(part.this, frame).rows, how, masking)
            elif isinstance(part, exp.Query):
                found |= through(self._scalar(part, frame), how, masking)
            else:
                stack += [
                    (child, _composed(how, inner), masking or masks) for child, inner, masks in _parts(part, frame)
                ]
        return frozenset(found)

    def table(self, item: exp.Table) -> Offer:
        """The relation that a table name means."""
        alias, name, database = item.alias_or_name.lower(), item.name.lower(), item.db.lower()
        cte = None if database else visible_cte(item)
        if cte is not None:
            found = self._cte(cte)
            return Offer(alias, found.columns, found.is_open)
        if not database and name in self.views:
            self.inputs.setdefault(name)
            columns = tuple(column.name.lower() for column in self.views[name].columns)
            uses = tuple((column, frozenset({Use(name, column)})) for column in columns)
            return Offer(alias, uses, is_open=not columns, view=None if columns else name)
        view = self._view(item)
        if view is not None:
            return Offer(alias, view.columns, view.is_open, rows=view.rows)
        facts = self.table_of(f"{database or self.default_database}.{name}")
        self.inputs.setdefault(facts.qualified_name)
        return offer_of_table(facts, alias, aliased=bool(item.alias))

    def _view(self, item: exp.Table) -> Derived | None:
        """What a view offers, by its query; None for a table."""
        name, database = item.name.lower(), item.db.lower()
        temporary = None if database or name in self.views else self.queries.get(name)
        if temporary is not None:
            earlier = {other: query for other, query in self.queries.items() if other != name}
            inner = replace(self, default_database=temporary.default_database, queries=earlier, _ctes={})
            found = inner.query(temporary.query.tree)
            return _called(found, temporary.columns)
        if not database and name in self.views:
            return None
        facts = self.table_of(f"{database or self.default_database}.{name}")
        if not is_view(facts):
            return None
        select = query_of_view(facts, self.path, self.parse)
        inner = replace(
            self, views={}, queries={}, default_database=select.default_database, _ctes={},
            path=(*self.path, facts.qualified_name),
        )  # fmt: skip
        return _called(inner.query(select.query.tree), column_names(facts))

    def _cte(self, cte: exp.CTE) -> Derived:
        if id(cte) not in self._ctes:
            found = self.query(cte.this)
            self._ctes[id(cte)] = Derived(_renamed(found.columns, cte.args["alias"]), found.rows, found.is_open)
        return self._ctes[id(cte)]

    def _scalar(self, query: exp.Expr, frame: Frame) -> Uses:
        """A query in the place of a value."""
        found = self.query(query, frame)
        return frozenset().union(found.rows, *(uses for _, uses in found.columns))

    def _values(self, node: exp.Values, outer: Frame | None) -> Derived:
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        frame = Frame([], outer)
        columns = tuple(
            (f"col{i + 1}", frozenset().union(*(self.value(frame, row[i]) for row in rows if i < len(row))))
            for i in range(len(rows[0]) if rows else 0)
        )
        return Derived(_renamed(columns, node.args.get("alias")))

    def _set_operation(self, node: exp.SetOperation, outer: Frame | None) -> Derived:
        left, right = self.query(node.left, outer), self.query(node.right, outer)
        rows = left.rows | right.rows
        if isinstance(node, exp.Union):
            there = dict(enumerate(uses for _, uses in right.columns))
            columns = tuple((name, uses | there.get(i, NOTHING)) for i, (name, uses) in enumerate(left.columns))
        else:
            columns = left.columns
            for _, uses in (*left.columns, *right.columns):
                rows |= through(uses, How.FILTER)
        if node.args.get("distinct"):
            rows |= through((use for _, uses in columns for use in uses), How.GROUP_BY)
        return Derived(columns, rows, left.is_open or right.is_open)

    def _sorted(self, node: exp.Expr, found: Derived, outer: Frame | None) -> Derived:
        """ORDER BY behind a set operation or parentheses: it names columns of the result."""
        frame = Frame([Offer("", found.columns, found.is_open)], outer)
        rows = found.rows | self._sort_keys(node, frame, found.columns)
        return Derived(found.columns, rows, found.is_open)

    def _select(self, select: exp.Select, outer: Frame | None) -> Derived:
        frame = Frame([], outer)
        for window in select.args.get("windows") or []:
            frame.named_windows[window.name.lower()] = window
        first = select.args.get("from_")
        if first is not None:
            self._bind(frame, first.this)
        for join in select.args.get("joins") or []:
            self._join(frame, join)
        for lateral in select.args.get("laterals") or []:
            self._bind(frame, lateral)
        self._decide(frame, select.args.get("where"), How.FILTER)
        columns, is_open = self._select_list(frame, select)
        self._group(frame, select, columns)
        for clause in ("having", "qualify"):
            self._decide(frame, select.args.get(clause), How.FILTER)
        if select.args.get("distinct"):
            frame.rows |= through((use for _, uses in columns for use in uses), How.GROUP_BY)
        frame.rows |= self._sort_keys(select, frame, columns)
        return Derived(columns, frame.rows, is_open)

    def _select_list(self, frame: Frame, select: exp.Select) -> tuple[Named, bool]:
        columns: list[tuple[str, Uses]] = []
        is_open = False
        for projection in select.expressions:
            star = projection.this if isinstance(projection, exp.Column) else projection
            if isinstance(star, exp.Star):
                qualifier = ".".join(p.name.lower() for p in projection.parts[:-1]) if star is not projection else None
                named, opened = frame.star(qualifier)
                columns += self._edited(frame, star, named)
                is_open = is_open or opened
                continue
            generated = self._generated(frame, projection)
            for name, uses in generated if generated is not None else [(projection.alias_or_name.lower(), None)]:
                uses = self.value(frame, projection) if uses is None else uses
                columns.append((name, uses))
                if name and (isinstance(projection, exp.Alias) or generated is not None):
                    frame.aliases.setdefault(name, uses)
            is_open = is_open or generated == []
        return tuple(columns), is_open

    def _edited(self, frame: Frame, star: exp.Star, columns: Named) -> Iterator[tuple[str, Uses]]:
        """The columns of a star with ``EXCEPT`` and ``REPLACE``."""
        left_out = {e.name.lower() for e in star.args.get("except_") or []}
        replaced = {e.alias.lower(): self.value(frame, e) for e in star.args.get("replace") or []}
        renamed = {e.this.name.lower(): e.alias.lower() for e in star.args.get("rename") or []}
        for name, uses in columns:
            if name not in left_out:
                yield renamed.get(name, name), replaced.get(name, uses)

    def _generated(self, frame: Frame, projection: exp.Expr) -> list[tuple[str, Uses]] | None:
        """The columns of a generator in a select list; none when only Spark knows how many; None for anything else."""
        inner = projection.this if isinstance(projection, exp.Alias | exp.Aliases) else projection
        if not _is_generator(inner) and not isinstance(projection, exp.Aliases):
            return None
        uses = through(self.value(frame, inner), How.TRANSFORMATION)
        if isinstance(projection, exp.Aliases):
            return [(alias.name.lower(), uses) for alias in projection.expressions]
        if isinstance(projection, exp.Alias):
            return [(projection.alias.lower(), uses)]
        return []

    def _bind(self, frame: Frame, item: exp.Expr) -> Offer:
        """Add a relation to a frame; of several in parentheses the last one is returned."""
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table):
            inner = item.this
            offer = self._bind(frame, inner)
            for join in inner.args.get("joins") or []:
                offer = self._join(frame, join)
            return offer
        offer = self._offer(frame, item)
        alias = item.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns and not isinstance(item, exp.Lateral):
            offer.columns = _renamed(offer.columns, alias)
        if item.args.get("pivots"):
            anything = frozenset().union(*(uses for _, uses in offer.columns), offer.anything)
            offer = Offer(offer.alias, (), is_open=True, anything=through(anything, How.AGGREGATION))
        frame.offers.append(offer)
        return offer

    def _offer(self, frame: Frame, item: exp.Expr) -> Offer:
        alias = item.alias_or_name.lower()
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            cte = None if item.db else visible_cte(item)
            if cte is not None:
                frame.rows |= self._cte(cte).rows
            offer = self.table(item)
            frame.rows |= offer.rows
            return offer
        if isinstance(item, exp.Lateral) and not isinstance(item.this, exp.Subquery):
            uses = through(self.value(frame, item.this), How.TRANSFORMATION)
            named = item.args.get("alias")
            columns = tuple((c.name.lower(), uses) for c in named.columns) if named is not None else ()
            return Offer(alias, columns, is_open=not columns, anything=uses)
        if isinstance(item, exp.Lateral):
            found = self.query(item.this, frame)
            columns = _renamed(found.columns, item.args.get("alias"))
        elif isinstance(item, exp.Query | exp.Values):
            found = self.query(item, frame.outer)
            columns = found.columns
        else:
            # A function that gives rows: its columns are its own.
            return Offer(alias, (), is_open=True, anything=through(self.value(frame, item), How.TRANSFORMATION))
        frame.rows |= found.rows
        return Offer(alias, columns, found.is_open)

    def _join(self, frame: Frame, join: exp.Join) -> Offer:
        before = list(frame.offers)
        offer = self._bind(frame, join.this)
        using = [name.name.lower() for name in join.args.get("using") or []]
        if join.method == "NATURAL":
            using = [name for name, _ in offer.columns if any(o.find(name) is not None for o in before)]
        left = Frame(before, joined=frame.joined)
        for name in using:
            here, there = left.column([name]), offer.find(name) or offer.guess(name)
            frame.rows |= through(here | there, How.JOIN)
            frame.joined[name] = {"RIGHT": there, "FULL": here | there}.get(join.side, here)
        self._decide(frame, join.args.get("on"), How.JOIN)
        offer.hidden = join.kind in ("SEMI", "ANTI")
        return offer

    def _decide(self, frame: Frame, clause: exp.Expr | None, how: How) -> None:
        if clause is not None:
            frame.rows |= through(self.value(frame, clause), how)

    def _group(self, frame: Frame, select: exp.Select, columns: Named) -> None:
        group = select.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            keys = [uses for (_, uses), p in zip(columns, select.expressions, strict=False) if not p.find(exp.AggFunc)]
        else:
            keys = [self._key(frame, key, columns) for key in group.iter_expressions()]
        frame.rows |= through((use for uses in keys for use in uses), How.GROUP_BY)

    def _sort_keys(self, node: exp.Expr, frame: Frame, columns: Named) -> Uses:
        clauses = [clause for name in _SORTS if (clause := node.args.get(name)) is not None]
        keys = [self._key(frame, key, columns, True) for clause in clauses for key in clause.iter_expressions()]
        return through((use for uses in keys for use in uses), How.SORT)

    def _key(self, frame: Frame, key: exp.Expr, columns: Named, aliases_first: bool = False) -> Uses:
        """A key of GROUP BY or ORDER BY, which may be the number of a column."""
        plain = key.this if isinstance(key, exp.Ordered) else key
        if isinstance(plain, exp.Literal) and not plain.is_string:
            number = int(plain.name) if plain.name.isdecimal() else 0
            return columns[number - 1][1] if 0 < number <= len(columns) else NOTHING
        return self.value(frame, key, aliases_first)


def offer_of_table(facts: TableFacts, alias: str, *, aliased: bool) -> Offer:
    """A table of the catalog as a relation."""
    table = facts.qualified_name
    columns = tuple((name, frozenset({Use(table, name)})) for name in column_names(facts))
    return Offer(alias, columns, qualified_name=None if aliased else table)


def _field(uses: Uses, inside: bool) -> Uses:
    """A column, or a field inside of it."""
    return through(uses, How.TRANSFORMATION) if inside else uses


def _called(found: Derived, names: Sequence[str]) -> Derived:
    """What a view offers, by the names that its columns have."""
    if not names:
        return found
    if found.is_open or len(found.columns) != len(names):
        return Derived((), found.rows, is_open=True)
    return Derived(tuple((name, uses) for name, (_, uses) in zip(names, found.columns, strict=True)), found.rows)


def _renamed(columns: Named, alias: exp.Expr | None) -> Named:
    """Columns with the names that an alias gives them."""
    names = [c.name.lower() for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return columns
    return tuple((name, uses) for name, (_, uses) in zip(names, columns, strict=False))


def _composed(outer: How, inner: How) -> How:
    return Use("", "", inner).through(outer).how


def _is_generator(node: exp.Expr) -> bool:
    anonymous = isinstance(node, exp.Anonymous) and node.name.lower() in _GENERATOR_NAMES
    return anonymous or isinstance(node, _GENERATORS)


_Part = tuple[exp.Expr, How, bool]


def _parts(node: exp.Expr, frame: Frame) -> Iterable[_Part]:
    """The parts of an expression, with what it makes of each."""
    match node:
        case exp.Hint():
            return []
        case exp.Alias() | exp.Paren() | exp.Ordered() | exp.Where() | exp.Having() | exp.Qualify():
            return [(node.this, How.IDENTITY, False)]
        case exp.If():
            return _branches([node])
        case exp.Case():
            parts = _branches(node.args["ifs"], node.args.get("default"))
            return [*parts, (node.this, How.CONDITIONAL, False)] if node.this is not None else parts
        case exp.Filter():
            return [(node.this, How.IDENTITY, False), (node.expression, How.CONDITIONAL, False)]
        case exp.Window():
            return _window(node, frame)
    how, masks = How.TRANSFORMATION, isinstance(node, _MASKS)
    if isinstance(node, exp.WithinGroup) or (isinstance(node, exp.AggFunc) and not isinstance(node, _ROW_FUNCTIONS)):
        how = How.AGGREGATION
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        masks = name in _MASK_NAMES
        how = How.AGGREGATION if name in _AGGREGATE_NAMES else how
    return [(child, how, masks) for child in node.iter_expressions()]


def _branches(ifs: Iterable[exp.Expr], default: exp.Expr | None = None) -> list[_Part]:
    parts: list[_Part] = []
    for branch in ifs:
        parts.append((branch.this, How.CONDITIONAL, False))
        values = (branch.args.get("true"), branch.args.get("false"))
        parts += [(value, How.TRANSFORMATION, False) for value in values if value is not None]
    return parts if default is None else [*parts, (default, How.TRANSFORMATION, False)]


def _window(window: exp.Window, frame: Frame) -> list[_Part]:
    """``f(…) OVER (…)``; the words of a named window stand elsewhere."""
    parts: list[_Part] = [(window.this, How.IDENTITY, False)]
    specification: exp.Window | None = window
    seen = 0
    while specification is not None and seen <= len(frame.named_windows):
        keys = [*(specification.args.get("partition_by") or []), specification.args.get("order")]
        for key in keys:
            if key is not None:
                parts += [(k, How.WINDOW, False) for k in (key.expressions if isinstance(key, exp.Order) else [key])]
        name = specification.args.get("alias")
        specification = frame.named_windows.get(name.name.lower()) if isinstance(name, exp.Identifier) else None
        seen += 1
    return parts
