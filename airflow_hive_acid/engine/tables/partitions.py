"""The partitions a transaction knows of a table: asked for by name or by condition, never all of them without need.

A write asks for the partitions it has touched, a read for those its WHERE clause leaves. What the catalog can decide
surely, conditions on text, becomes part of the statement; the rest is judged while the rows are read, so that a table
of 100,000 partitions costs the memory of those that matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.engine.tables.snapshots import partition_refs
from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.jobs import PartitionRef
from airflow_hive_acid.metastore.catalog import And, Between, Compare, Condition, In, Or
from airflow_hive_acid.metastore.names import as_stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_hive_acid.metastore.catalog import Catalog, Partition, Table
    from airflow_hive_acid.sql.model.pruning import PartitionFilter

_OPERATORS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_VALUES = 1000
_MOST_TERMS = 200
"""Of one AND or OR in a statement to the catalog; SQLite takes a thousand in all."""
_DEEPEST = 20


class KnownPartitions(Mapping[str, "PartitionRef"]):
    """The partitions of the catalog, and those that this transaction has made, by name; none without partitions.

    As a mapping it answers for single names with one look-up each, which is remembered; going through it loads all.

    :param listed: answers that were given under the locks and are given again, by what was asked for.
    :param is_new: the table is made in the same commit; the catalog does not know it yet.
    """

    def __init__(
        self, catalog: Catalog, table: Table, listed: Mapping[PartitionFilter, list[PartitionRef]] | None = None,
        *, is_new: bool = False,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._table = table
        self._listed = listed or {}
        self._is_new = is_new
        self._found: dict[str, PartitionRef | None] = {}
        self._made: dict[str, PartitionRef] = {}

    def matching(self, keep: PartitionFilter) -> list[PartitionRef]:
        """Those that may hold rows that matter."""
        if not self._table.is_partitioned:
            return []
        if self._is_new:
            return [ref for ref in self._made.values() if keep.keeps(ref.values)]
        listed = self._listed.get(keep)
        if listed is None:
            found = self._catalog.list_partitions(self._table.qualified_name, condition_of(keep), keeps=keep.keeps)
            listed = list(partition_refs(self._readable(found)))
        self._found |= {ref.name: ref for ref in listed}
        known = {ref.name: ref for ref in listed}
        return list((known | {name: ref for name, ref in self._made.items() if keep.keeps(ref.values)}).values())

    def look_up(self, names: Iterable[str]) -> None:
        """Ask for several at once; those known already are not asked for again."""
        wanted = [name for name in dict.fromkeys(names) if name not in self._found and name not in self._made]
        if wanted and self._table.is_partitioned and self._is_new:
            self._found |= dict.fromkeys(wanted)
        elif wanted and self._table.is_partitioned:
            found = self._catalog.find_partitions(self._table.qualified_name, wanted)
            self._found |= dict.fromkeys(wanted) | {r.name: r for r in partition_refs(self._readable(found.values()))}

    def _readable(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        """Hive may store a partition in a format of its own; read as the table's its rows would be nonsense."""
        for partition in partitions:
            if partition.input_format not in (None, self._table.input_format):
                raise UnsupportedStatementError(
                    f"partition {partition.name} of {self._table.qualified_name} is stored as "
                    f"{partition.input_format}, and all files of a table are read in one format here, which is "
                    f"{self._table.input_format}; keep the partition to Hive, or copy it there into a table of its own"
                )
            yield partition

    def made(self, ref: PartitionRef) -> None:
        """Note a partition that the catalog gets at the commit."""
        self._made[ref.name] = ref

    def with_values(self, given: Mapping[str, str]) -> list[PartitionRef]:
        """Those with the given values of some columns; one without a name for a table that has no partitions."""
        if not self._table.is_partitioned:
            return [PartitionRef("", self._table.location)]
        columns = self._table.partition_columns
        names = [column.name for column in columns]
        if set(names) <= given.keys():
            spelled = self._table.spellings({column: given[column] for column in names})
            self.look_up(spelled.names)
            name = spelled.choose(self._table.qualified_name, [n for n in spelled.names if n in self])
            return [self[name]] if name in self else []
        wanted = [(i, as_stored(c.type, given[c.name])) for i, c in enumerate(columns) if c.name in given]
        return [
            part
            for part in self.values()
            if all(as_stored(columns[i].type, part.values[i]) == value for i, value in wanted)
        ]

    def __getitem__(self, name: str) -> PartitionRef:
        self.look_up([name])
        ref = self._made.get(name) or self._found.get(name)
        if ref is None:
            raise KeyError(name)
        return ref

    def __iter__(self) -> Iterator[str]:
        if self._table.is_partitioned and not self._is_new:
            listed = partition_refs(self._readable(self._catalog.list_partitions(self._table.qualified_name)))
            self._found |= {ref.name: ref for ref in listed}
        return iter([name for name, ref in (self._found | self._made).items() if ref is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def condition_of(keep: PartitionFilter) -> Condition | None:
    """What of a filter the catalog can decide as surely as the filter itself; None when nothing.

    Only text compares there exactly as in Spark: a number or date may be written in several ways.
    """
    texts = {name for name, kind in keep.columns if kind == "string" or kind.startswith("varchar")}
    alternatives = []
    for terms in keep.alternatives:
        sure = (c for term in terms if (c := _condition(term, texts)) is not None)
        decided = list(itertools.islice(sure, _MOST_TERMS))
        if not decided:
            return None
        alternatives.append(decided[0] if len(decided) == 1 else And(decided))
    if not 0 < len(alternatives) <= _MOST_TERMS:
        return None
    return alternatives[0] if len(alternatives) == 1 else Or(alternatives)


def _condition(term: exp.Expr, texts: set[str], depth: int = 0) -> Condition | None:
    term = term.unnest()
    if depth > _DEEPEST:
        return None
    match term:
        case exp.And():
            # Some of them are as sure as all, and keep more.
            decided = (c for part in term.flatten() if (c := _condition(part, texts, depth + 1)) is not None)
            return And(some) if (some := list(itertools.islice(decided, _MOST_TERMS))) else None
        case exp.Or():
            return _either([_condition(part, texts, depth + 1) for part in term.flatten()])
        case exp.In():
            values = [_text(value) for value in term.expressions]
            name = _column(term.this, texts)
            plain = {key for key, given in term.args.items() if given} == {"this", "expressions"}
            if name is None or not plain or not values or len(values) > _MOST_VALUES or None in values:
                return None
            return In(name, [value for value in values if value is not None])
        case exp.Between():
            name, low, high = _column(term.this, texts), _text(term.args["low"]), _text(term.args["high"])
            plain = {key for key, given in term.args.items() if given} == {"this", "low", "high"}
            return None if not plain or name is None or low is None or high is None else Between(name, low, high)
    operator = _OPERATORS.get(type(term))
    if operator is None:
        return None
    name, value = _column(term.this, texts), _text(term.expression)
    if name is None:
        name, value, operator = _column(term.expression, texts), _text(term.this), _MIRRORED[operator]
    return None if name is None or value is None else Compare(name, operator, value)


def _either(alternatives: Sequence[Condition | None]) -> Condition | None:
    """One of several, of which each must be decided."""
    values = [(c.column, c.value) for c in alternatives if isinstance(c, Compare) and c.operator == "="]
    if len(values) == len(alternatives) <= _MOST_VALUES and len({column for column, _ in values}) == 1:
        return In(values[0][0], [value for _, value in values])
    decided = [c for c in alternatives if c is not None]
    return Or(decided) if len(decided) == len(alternatives) <= _MOST_TERMS else None


def _column(node: exp.Expr, texts: set[str]) -> str | None:
    return node.name if isinstance(node, exp.Column) and node.name in texts else None


def _text(node: exp.Expr) -> str | None:
    """A string literal that can be a value in the catalog."""
    usable = isinstance(node, exp.Literal) and node.is_string and 0 < len(node.name) <= 256 and "\0" not in node.name
    return node.name if usable else None
