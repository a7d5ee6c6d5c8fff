"""Random queries that both SQLite and our parser read, over three small tables of integers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

TABLES = {"ta": ("id", "x", "y"), "tb": ("id", "u", "v"), "tc": ("id", "x", "w")}


def random_query(numbers: random.Random) -> str:
    """A query whose answer depends on nothing but the rows of the tables."""
    maker = _Maker(numbers)
    for number in range(numbers.randrange(3)):
        query, names = maker.query(2)
        maker.ctes[f"q{number}"] = names
        maker.texts.append(f"q{number} AS ({query})")
    query, names = maker.query(2)
    if numbers.random() < 0.3:
        keys = ", ".join(str(i + 1) for i in range(len(names)))
        query = f"SELECT * FROM ({query}) AS whole ORDER BY {keys} LIMIT 4"  # noqa: S608 - for an empty database
    return f"WITH {', '.join(maker.texts)} {query}" if maker.texts else query


@dataclass
class _Maker:
    numbers: random.Random
    ctes: dict[str, list[str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    aliases: int = 0

    def query(self, depth: int) -> tuple[str, list[str]]:
        if depth and self.numbers.random() < 0.15:
            width = self.numbers.randrange(1, 3)
            left, names = self.select(depth - 1, width)
            right, _ = self.select(depth - 1, width)
            return f"{left} {self.one('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT')} {right}", names
        return self.select(depth, None)

    def select(self, depth: int, width: int | None) -> tuple[str, list[str]]:
        source, scope, star = self.source(depth)
        where = f" WHERE {self.condition(scope, 2)}" if self.numbers.random() < 0.4 else ""
        if width is None and self.numbers.random() < 0.12 and len(set(star)) == len(star):
            return f"SELECT * FROM {source}{where}", star  # noqa: S608
        count = width or self.numbers.randrange(1, 4)
        names = [self.one("id", f"c{i}", f"c{i}", f"c{i}") if i == 0 else f"c{i}" for i in range(count)]
        if self.numbers.random() < 0.25:
            return self.grouped(source, where, scope, names), names
        values = [self.value(scope, 2) if self.numbers.random() < 0.85 else self.window(scope) for _ in names]
        listed = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
        return f"SELECT {self.one('', '', '', 'DISTINCT ')}{listed} FROM {source}{where}", names  # noqa: S608

    def grouped(self, source: str, where: str, scope: list[str], names: list[str]) -> str:
        keys = [self.numbers.choice(scope) for _ in range(self.numbers.randrange(1, 3))]
        values = [
            self.numbers.choice(keys)
            if self.numbers.random() < 0.4
            else f"{self.one('sum', 'max', 'count')}({self.value(scope, 1)})"
            for _ in names
        ]
        listed = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
        having = f" HAVING count({self.numbers.choice(scope)}) > 1" if self.numbers.random() < 0.3 else ""
        return f"SELECT {listed} FROM {source}{where} GROUP BY {', '.join(keys)}{having}"  # noqa: S608

    def source(self, depth: int) -> tuple[str, list[str], list[str]]:
        """A FROM clause, the names it offers, and the columns of its star."""
        text, columns, alias = self.relation(depth)
        scope, star = [f"{alias}.{c}" for c in columns], list(columns)
        for _ in range(self.numbers.choice((0, 0, 1, 1, 2))):
            relation, columns, alias = self.relation(depth)
            offered = [f"{alias}.{c}" for c in columns]
            kind = self.one("JOIN", "LEFT JOIN")
            if star.count("id") == 1 and columns.count("id") == 1 and self.numbers.random() < 0.3:
                text += f" {kind} {relation} USING (id)"
                star = ["id", *(c for c in star if c != "id"), *(c for c in columns if c != "id")]
                scope = [*scope, *offered, "id"]
                return text, scope, star
            text += f" {kind} {relation} ON {self.condition([*scope, *offered], 1)}"
            scope, star = [*scope, *offered], [*star, *columns]
        return text, scope, star

    def relation(self, depth: int) -> tuple[str, list[str], str]:
        self.aliases += 1
        alias = f"r{self.aliases}"
        if depth and self.numbers.random() < 0.25:
            query, names = self.query(depth - 1)
            return f"({query}) AS {alias}", names, alias
        if self.ctes and self.numbers.random() < 0.5:
            name = self.numbers.choice(list(self.ctes))
            return f"{name} AS {alias}", self.ctes[name], alias
        name = self.numbers.choice(list(TABLES))
        return f"{name} AS {alias}", list(TABLES[name]), alias

    def value(self, scope: list[str], depth: int) -> str:
        column = self.numbers.choice(scope)
        if not depth or self.numbers.random() < 0.45:
            return column
        inner = self.value(scope, depth - 1)
        match self.numbers.randrange(6):
            case 0:
                return f"({column} + {inner})"
            case 1:
                return f"coalesce({column}, {inner})"
            case 2:
                condition = self.condition(scope, 1)
                return f"CASE WHEN {condition} THEN {inner} ELSE {self.numbers.choice(scope)} END"
            case 3:
                return f"({inner} * 2)"
            case 4:
                name = self.numbers.choice(list(TABLES))
                mine = self.numbers.choice(TABLES[name])
                return f"(SELECT max(z.{mine}) FROM {name} AS z WHERE z.id = {column})"  # noqa: S608
            case _:
                return str(self.numbers.randrange(5))

    def window(self, scope: list[str]) -> str:
        function = f"{self.one('sum', 'max')}({self.value(scope, 1)})" if self.numbers.random() < 0.6 else "rank()"
        return f"{function} OVER (PARTITION BY {self.numbers.choice(scope)} ORDER BY {self.numbers.choice(scope)})"

    def condition(self, scope: list[str], depth: int) -> str:
        column = self.numbers.choice(scope)
        if depth and self.numbers.random() < 0.3:
            return f"({self.condition(scope, 0)} {self.one('AND', 'OR')} {self.condition(scope, depth - 1)})"
        match self.numbers.randrange(5):
            case 0:
                return f"{column} IS NOT NULL"
            case 1:
                name = self.numbers.choice(list(TABLES))
                mine = self.numbers.choice(TABLES[name])
                return f"{column} IN (SELECT {mine} FROM {name} WHERE id > 1)"  # noqa: S608
            case 2:
                name = self.numbers.choice(list(TABLES))
                mine = self.numbers.choice(TABLES[name])
                return f"EXISTS (SELECT 1 FROM {name} AS e WHERE e.{mine} = {column})"  # noqa: S608
            case _:
                return f"{column} {self.one('<', '=', '>')} {self.value(scope, min(depth, 1))}"

    def one(self, *choices: str) -> str:
        return self.numbers.choice(choices)
