"""What the texts of a step name, after Spark's own parsing: the views of the step and nothing else.

The planner has read each text before, with another parser. Where the two parsers see different things in one text,
Spark's counts, because Spark runs it. So a text is parsed here once more: a query must be a query (``spark.sql`` runs a
command at once), every relation in it must be a view of the step, a query of a WITH clause or a function, and nothing
may run a program of the operating system. What was looked at is what runs: a query is not parsed a second time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.jobs import Append, Delete, Export, Insert, Merge, Select, Update
from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.versions import rows_of_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext

    from airflow_hive_acid.format.jobs import JobSpec, Step

# Leaves of a parsed plan that bring no rows from anywhere; functions are the business of Spark's registry.
_HARMLESS = ("OneRowRelation", "LocalRelation", "UnresolvedInlineTable", "UnresolvedTableValuedFunction")
# A node of a printed plan, and not a word in somebody's text.
_SCRIPT = re.compile(r"^[ :+'-]*ScriptTransformation\b", re.MULTILINE)
_CHECKED: WeakKeyDictionary[SparkSession, dict[str, Any]] = WeakKeyDictionary()
"""Plans of the queries of a step that were looked at and are still to run, by the step's session and text."""


def check_texts(session: SparkSession, spec: JobSpec) -> None:
    """Refuse texts of a step that name anything but its views and sources.

    :raises UnsupportedStatementError: names the relation.
    :raises pyspark.errors.ParseException: for what is no query, or no expression, to Spark.
    """
    queries, expressions = _texts_of(spec.step)
    if not queries and not expressions:
        return
    views, sources = ({named.name.lower() for named in names} for names in (spec.views, spec.sources))
    check = _Check(session, views | sources)
    _CHECKED[session] = {query: check.query(query) for query in queries}
    for expression in expressions:
        check.expression(expression)


def check_query(session: SparkSession, query: str, views: set[str]) -> None:
    """Refuse a query that names anything but these views, in lower case.

    :raises UnsupportedStatementError: names the relation.
    :raises pyspark.errors.ParseException: for what is no query to Spark.
    """
    _Check(session, set(views)).query(query)


def rows_of(session: SparkSession, query: str) -> DataFrame:
    """The rows of a query of the step, from the plan that was checked; one that was not is parsed.

    :param session: of the step, with its views.
    """
    plan = _CHECKED.get(session, {}).pop(query, None)
    if plan is None:
        return session.sql(query)
    return DataFrame(rows_of_plan(session, plan), session)


def _texts_of(step: Step) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The queries and the expressions of a step that somebody wrote."""
    match step:
        case Select() | Export() | Insert():
            return (step.query,), ()
        case Append():
            return (step.insert.query,), ()
        case Update():
            return (), (*([step.where] if step.where else []), *(a.expression for a in step.assignments))
        case Delete():
            return (), (step.where,) if step.where else ()
        case Merge():
            conditions = [clause.condition for clause in step.clauses if clause.condition]
            values = [a.expression for clause in step.clauses for a in clause.assignments]
            return (step.source,), (step.on, *conditions, *values)
    return (), ()


class _Check:
    """The relations of parsed texts.

    :param views: what they may name, in lower case.
    """

    def __init__(self, session: SparkSession, views: set[str]) -> None:
        java: Any = session._jsparkSession
        self._parser = java.sessionState().sqlParser()
        self._views = views
        self._logical, self._with, self._window, self._query = _words(session.sparkContext)

    def query(self, text: str) -> Any:
        """A text that Spark is to run.

        :return: its plan, which names nothing but views.
        """
        plan = self._parser.parseQuery(text)
        self._plan(plan)
        return plan

    def expression(self, text: str) -> None:
        """A condition or a value, with queries in it or without."""
        found = self._parser.parseExpression(text)
        if found.containsPattern(self._query):
            self._plan(self._asking(found))

    def _asking(self, expression: Any) -> Any:
        """A plan around an expression: only plans tell the queries in them."""
        return self._logical.Filter(expression, self._logical.OneRowRelation())

    def _plan(self, plan: Any) -> None:
        if _SCRIPT.search(plan.treeString()):
            raise UnsupportedStatementError("SELECT TRANSFORM, MAP and REDUCE … USING are not supported")
        named = set(self._views)
        leaves: list[Any] = []
        self._collect(plan, leaves, named)
        for leaf in leaves:
            kind = str(leaf.getClass().getSimpleName())
            if kind in _HARMLESS:
                continue
            parts = [str(p) for p in _each(leaf.multipartIdentifier())] if kind == "UnresolvedRelation" else [kind]
            if kind != "UnresolvedRelation" or len(parts) != 1 or parts[0].lower() not in named:
                name = ".".join(f"`{part}`" for part in parts)
                raise UnsupportedStatementError(
                    f"Spark reads {name} as a relation, which is no table that was locked and looked for, and no view "
                    "of the script; write the name itself"
                )

    def _collect(self, plan: Any, leaves: list[Any], named: set[str]) -> None:
        """The leaves of a plan and of all queries in it, and the names that WITH clauses give."""
        for part in (plan, *_each(plan.subqueriesAll())):
            leaves.extend(_each(part.collectLeaves()))
            self._collect_named(part, leaves, named)

    def _collect_named(self, plan: Any, leaves: list[Any], named: set[str]) -> None:
        """What a clause defines by a name, WITH and WINDOW, is neither a child of its plan nor a query in it."""
        if not (plan.containsPattern(self._with) or plan.containsPattern(self._window)):
            return
        kind = str(plan.getClass().getSimpleName())
        if kind == "UnresolvedWith":
            for relation in _each(plan.cteRelations()):
                named.add(str(relation._1()).lower())
                self._collect(relation._2(), leaves, named)
        if kind == "WithWindowDefinition":
            for definition in _each(plan.windowDefinitions().values().toSeq()):
                if definition.containsPattern(self._query):
                    self._collect(self._asking(definition), leaves, named)
        for child in _each(plan.children()):
            self._collect_named(child, leaves, named)


@lru_cache(maxsize=1)
def _words(context: SparkContext) -> tuple[Any, Any, Any, Any]:
    """Spark's package of logical plans, and its patterns WITH, WINDOW and query: looking them up takes 22 calls."""
    catalyst = java_names(context).org.apache.spark.sql.catalyst
    patterns = catalyst.trees.TreePattern
    return (
        catalyst.plans.logical,
        patterns.UNRESOLVED_WITH(),
        patterns.WITH_WINDOW_DEFINITION(),
        patterns.PLAN_EXPRESSION(),
    )


def _each(sequence: Any) -> Iterator[Any]:
    """The members of a Scala sequence."""
    for index in range(sequence.size()):
        yield sequence.apply(index)
