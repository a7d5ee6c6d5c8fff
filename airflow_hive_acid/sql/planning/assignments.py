"""What SET and VALUES give columns, as Spark SQL: expressions, and fields of struct columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.format import jobs
from airflow_hive_acid.sql.planning import targets
from airflow_hive_acid.sql.text.quoting import identifier, quoted
from airflow_hive_acid.sql.text.source import HiveSql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.sql.model.origins import Fragment
    from airflow_hive_acid.sql.model.plans import TableFacts
    from airflow_hive_acid.sql.model.statements import DataStatement
    from airflow_hive_acid.sql.planning.common import Common
    from airflow_hive_acid.sql.planning.references import References
    from airflow_hive_acid.sql.planning.scopes import Scope

_Fields = dict[tuple[str, ...], tuple[str, "Fragment"]]


def is_default(tree: exp.Expr) -> bool:
    """Whether a value is the word DEFAULT."""
    bare = isinstance(tree, exp.Column) and not tree.table and isinstance(tree.this, exp.Identifier)
    return bare and not tree.this.quoted and tree.name.upper() == "DEFAULT"


def default_text(facts: TableFacts, column: str, common: Common | None) -> str:
    """What DEFAULT means for a column: the expression of its constraint, or NULL.

    :param common: what the queries of the statement have in common.
    """
    found = next((c.default for c in facts.columns if c.name == column), None)
    if found is None:
        return "NULL"
    return f"({found})" if common is None else f"({common.timed(found)})"


def timed_defaults(facts: TableFacts, common: Common | None) -> tuple[tuple[str, str], ...]:
    """The DEFAULTs that read the clock, by column, at the time of the statement: all its queries have one time.

    :param common: what these have in common; None for a statement that is one query.
    """
    found = [(c.name, c.default, common.timed(c.default)) for c in facts.columns if common and c.default is not None]
    return tuple((name, timed) for name, default, timed in found if timed != default)


def defaults_in(
    query: Fragment, filled: Sequence[str], facts: TableFacts, common: Common | None
) -> list[tuple[int, int, str]]:
    """What stands for each DEFAULT in ``VALUES (…, DEFAULT), …``: first character, the one after the last, and text.

    :param filled: the columns that the values are for.
    :param common: what the queries of the statement have in common.
    """
    return [
        (start, end + 1, default_text(facts, filled[column], common))
        for column, start, end in query.defaults
        if column < len(filled)
    ]


@dataclass(frozen=True, slots=True)
class Assigned:
    """Makes the assignments of a statement's steps.

    :param qualified: the source of a MERGE is there, too, and not meant.
    """

    statement: DataStatement
    facts: TableFacts
    references: References
    qualified: bool = False

    def of(self, assignments: Sequence[tuple[str, Fragment]], alias: str, scope: Scope) -> tuple[jobs.Assignment, ...]:
        """The assignments of one SET or VALUES clause, one for each column.

        :param alias: of the table that is changed; what a struct keeps is taken from there.
        :raises InvalidArgumentsError: for a field that the column does not have.
        """
        whole: dict[str, str] = {}
        fields: dict[str, _Fields] = {}
        for column, value in assignments:
            if is_default(value.tree) and not value.field:
                text = default_text(self.facts, column, self.references.common)
            else:
                text = self.references.rewrite(value, scope, qualified=self.qualified)
            if value.field:
                fields.setdefault(column, {})[value.field] = (text, value)
                whole.setdefault(column, "")
            else:
                whole[column] = text
        for column, given in fields.items():
            kind = next(c.type for c in (*self.facts.columns, *self.facts.partition_columns) if c.name == column)
            path = f"{identifier(alias)}.{identifier(column)}"
            whole[column] = self._struct(column, exp.DataType.build(kind, dialect=HiveSql), path, given)
        return tuple(jobs.Assignment(column, text) for column, text in whole.items())

    def _struct(self, name: str, kind: exp.DataType, path: str, given: _Fields) -> str:
        """A struct with some fields changed; the others keep their values."""
        parts = {field.name.lower(): field.kind for field in kind.expressions if isinstance(field, exp.ColumnDef)}
        for field, (_, value) in given.items():
            if kind.this is not exp.DataType.Type.STRUCT or field[0] not in parts:
                known = f"its fields are {', '.join(parts)}" if parts else f"it is {kind.sql(dialect=HiveSql).lower()}"
                problem = f"{name} of {self.facts.qualified_name} has no field {field[0]!r}; {known}"
                raise targets.invalid(self.statement, problem, *value.span)
        texts: list[str] = []
        for part, part_kind in parts.items():
            inner = {field[1:]: value for field, value in given.items() if field[0] == part}
            kept = f"{path}.{identifier(part)}"
            if not inner:
                text = kept
            elif () in inner:
                text = f"({inner[()][0]})"
            else:
                text = self._struct(f"{name}.{part}", part_kind or exp.DataType(), kept, inner)
            texts.append(f"{quoted(part)}, {text}")
        return f"named_struct({', '.join(texts)})"
