"""What an expression makes of its parts: how each value goes into the result, and whether it is hidden there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.lineage.values import How, Use

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

Part = tuple[exp.Expr, How, bool]


def parts_of(node: exp.Expr, windows: Mapping[str, exp.Window]) -> Iterable[Part]:
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
            return _window(node, windows)
    how, masks = How.TRANSFORMATION, isinstance(node, _MASKS)
    if isinstance(node, exp.WithinGroup) or (isinstance(node, exp.AggFunc) and not isinstance(node, _ROW_FUNCTIONS)):
        how = How.AGGREGATION
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        masks = name in _MASK_NAMES
        how = How.AGGREGATION if name in _AGGREGATE_NAMES else how
    return [(child, how, masks) for child in node.iter_expressions()]


def choices_of(node: exp.Expr) -> list[exp.Expr] | None:
    """The values whose type an expression has, without those that are NULL; None for any other expression.

    It is one of them as it is, or in upper or lower case.
    """
    found: list[exp.Expr | None]
    match node:
        case exp.If():
            found = [node.args.get("true"), node.args.get("false")]
        case exp.Case():
            found = [*(branch.args.get("true") for branch in node.args["ifs"]), node.args.get("default")]
        case exp.Coalesce():
            found = [node.this, *node.expressions]
        case exp.Nullif() | exp.Upper() | exp.Lower():
            found = [node.this]
        case exp.Lag() | exp.Lead():
            found = [node.this, node.args.get("default")]
        case exp.Max() | exp.Min() if node.expressions:
            return None
        case exp.Max() | exp.Min() | exp.First() | exp.Last() | exp.FirstValue() | exp.LastValue():
            of_distinct = isinstance(node.this, exp.Distinct) and len(node.this.expressions) == 1
            found = [node.this.expressions[0] if of_distinct else node.this]
        case exp.IgnoreNulls() | exp.RespectNulls():
            return choices_of(node.this)
        case _:
            return None
    return [value for value in found if value is not None and not isinstance(value.unnest(), exp.Null)]


def _branches(ifs: Iterable[exp.Expr], default: exp.Expr | None = None) -> list[Part]:
    parts: list[Part] = []
    for branch in ifs:
        parts.append((branch.this, How.CONDITIONAL, False))
        values = (branch.args.get("true"), branch.args.get("false"))
        parts += [(value, How.TRANSFORMATION, False) for value in values if value is not None]
    return parts if default is None else [*parts, (default, How.TRANSFORMATION, False)]


def _window(window: exp.Window, windows: Mapping[str, exp.Window]) -> list[Part]:
    """``f(…) OVER (…)``; the words of a named window stand elsewhere."""
    parts: list[Part] = [(window.this, How.IDENTITY, False)]
    specification: exp.Window | None = window
    seen = 0
    while specification is not None and seen <= len(windows):
        keys = [*(specification.args.get("partition_by") or []), specification.args.get("order")]
        for key in keys:
            if key is not None:
                parts += [(k, How.WINDOW, False) for k in (key.expressions if isinstance(key, exp.Order) else [key])]
        name = specification.args.get("alias")
        specification = windows.get(name.name.lower()) if isinstance(name, exp.Identifier) else None
        seen += 1
    return parts


def composed(outer: How, inner: How) -> How:
    return Use("", "", inner).through(outer).how


def is_generator(node: exp.Expr) -> bool:
    anonymous = isinstance(node, exp.Anonymous) and node.name.lower() in _GENERATOR_NAMES
    return anonymous or isinstance(node, _GENERATORS)
