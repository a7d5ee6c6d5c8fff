"""The eight tables of TPC-H, tiny: the same rows each time, made so that each of the 22 queries finds some.

The columns and the domains of their values are those of the public specification (clauses 1.4 and 4.2). Sizes are those
of a scale factor of about 0.001. The values that the queries' validation parameters ask for come more often than there.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import parquet

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
    ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0),
    ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4), ("VIETNAM", 2),
    ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
KINDS = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
CONTAINERS = (("SM", "LG", "MED", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"))
COLORS = ("almond", "azure", "forest", "green", "ivory", "khaki", "lemon", "linen", "navy", "plum", "rose", "snow")
WORDS = ("quickly", "bold", "packages", "sleep", "furiously", "ironic", "accounts", "among", "the", "deposits")
SUPPLIERS, CUSTOMERS, PARTS, ORDERS = 30, 150, 200, 1500
FIRST, LAST = dt.date(1992, 1, 1), dt.date(1998, 8, 2)
TODAY = dt.date(1995, 6, 17)
"""What the specification calls CURRENTDATE."""

KEYS = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "supplier": ["s_suppkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "customer": ["c_custkey"],
    "orders": ["o_orderkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
}
"""What a row is known by, in each table."""

Rows = list[tuple[Any, ...]]


def tables() -> dict[str, Rows]:
    """The rows of each table, in the order of the columns in ``tables/tpch.sql``."""
    random = Random(19)
    parts = [_part(random, key) for key in range(1, PARTS + 1)]
    suppliers = [_supplier(random, key) for key in range(1, SUPPLIERS + 1)]
    offers = [
        (key, supplier, random.randint(1, 9999), _money(random, 100, 100000), _comment(random))
        for key in range(1, PARTS + 1)
        for supplier in _suppliers_of(key)
    ]
    customers = [_customer(random, key) for key in range(1, CUSTOMERS + 1)]
    orders, lines = _orders(random, parts, [_order_key(n) for n in range(ORDERS)])
    return {
        "region": [(key, name, _comment(random)) for key, name in enumerate(REGIONS)],
        "nation": [(key, name, region, _comment(random)) for key, (name, region) in enumerate(NATIONS)],
        "supplier": suppliers,
        "part": parts,
        "partsupp": offers,
        "customer": customers,
        "orders": orders,
        "lineitem": lines,
    }


def refreshed() -> dict[str, Rows]:
    """What the refresh functions bring (RF1: ``new_orders``, ``new_lines``) and take away (RF2: ``old_orders``)."""
    random = Random(20)
    parts = [_part(random, key) for key in range(1, PARTS + 1)]
    # Clause 4.2.3: of 32 keys 8 are used, so the new orders lie between the old ones.
    orders, lines = _orders(random, parts, [_order_key(n) + 8 for n in range(0, ORDERS, 50)])
    return {
        "new_orders": orders,
        "new_lines": lines,
        "old_orders": [(_order_key(n),) for n in range(7, ORDERS, 50)],
    }


def write(rows: Rows, columns: list[str], path: str) -> None:
    """Write rows as one Parquet file."""
    parquet.write_table(pa.table({name: [row[i] for row in rows] for i, name in enumerate(columns)}), path)


def _order_key(number: int) -> int:
    return number // 8 * 32 + number % 8 + 1


def _money(random: Random, least: int, most: int) -> Decimal:
    return Decimal(random.randint(least, most)) / 100


def _comment(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=4))


def _phone(random: Random, nation: int) -> str:
    return f"{nation + 10}-{random.randint(100, 999)}-{random.randint(100, 999)}-{random.randint(1000, 9999)}"


def _suppliers_of(part: int) -> list[int]:
    return [(part + i * (SUPPLIERS // 4) + (part - 1) // SUPPLIERS) % SUPPLIERS + 1 for i in range(4)]


def _part(random: Random, key: int) -> tuple[Any, ...]:
    maker = random.randint(1, 5)
    brand = "Brand#23" if random.random() < 0.15 else f"Brand#{maker}{random.randint(1, 5)}"
    if random.random() < 0.1:
        brand = "Brand#12"
    kind = " ".join(random.choice(words) for words in KINDS)
    kind = "ECONOMY ANODIZED STEEL" if random.random() < 0.1 else kind
    container = "MED BOX" if brand == "Brand#23" else " ".join(random.choice(words) for words in CONTAINERS)
    container = "SM BOX" if brand == "Brand#12" else container
    size = random.choice((1, 3, 9, 14, 15, 15, 19, 23, 36, 45, 49)) if random.random() < 0.6 else random.randint(1, 50)
    price = Decimal(90000 + (key // 10) % 20001 + 100 * (key % 1000)) / 100
    name = " ".join(random.sample(COLORS, 5))
    return key, name, f"Manufacturer#{maker}", brand, kind, size, container, price, _comment(random)[:23].strip()


def _supplier(random: Random, key: int) -> tuple[Any, ...]:
    # Saudi Arabia, Germany and Canada are asked for by name.
    nation = random.choice((20, 7, 3, 6)) if key % 3 == 0 else random.randrange(25)
    comment = f"{_comment(random)} Customer wise Complaints" if key % 10 == 0 else _comment(random)
    return (
        key, f"Supplier#{key:09}", f"street {random.randint(1, 99)}", nation, _phone(random, nation),
        _money(random, -99999, 999999), comment,
    )  # fmt: skip


def _customer(random: Random, key: int) -> tuple[Any, ...]:
    nation = random.randrange(25)
    return (
        key, f"Customer#{key:09}", f"street {random.randint(1, 99)}", nation, _phone(random, nation),
        _money(random, -99999, 999999), random.choice(SEGMENTS), _comment(random),
    )  # fmt: skip


def _orders(random: Random, parts: Rows, keys: list[int]) -> tuple[Rows, Rows]:
    orders: Rows = []
    lines: Rows = []
    for key in keys:
        # A third of the customers never orders.
        customer = random.choice([k for k in range(1, CUSTOMERS + 1) if k % 3])
        day = FIRST + dt.timedelta(random.randrange((LAST - FIRST).days))
        mine = [
            _line(random, key, number, day, random.choice(parts), large=key % 160 == 1)
            for number in range(1, 8 if key % 160 == 1 else random.randint(2, 8))
        ]
        states = {line[15] for line in mine}
        total = sum((line[5] * (1 + line[7]) * (1 - line[6]) for line in mine), Decimal(0)).quantize(Decimal("0.01"))
        comment = f"{_comment(random)} special requests" if random.random() < 0.1 else _comment(random)
        clerk = f"Clerk#{random.randint(1, 9):09}"
        state = states.pop() if len(states) == 1 else "P"
        orders.append((key, customer, state, total, day, clerk, 0, comment, random.choice(PRIORITIES)))
        lines += mine
    return orders, lines


def _line(random: Random, order: int, number: int, day: dt.date, part: tuple[Any, ...], *, large: bool) -> Any:
    quantity = random.randint(44, 50) if large else random.randint(1, 50)
    if random.random() < 0.05:
        quantity = 1
    shipped = day + dt.timedelta(random.randint(1, 121))
    due = day + dt.timedelta(random.randint(30, 90))
    received = shipped + dt.timedelta(random.randint(1, 30))
    mode = random.choice(MODES)
    back = random.choice("RA") if received <= TODAY else "N"
    return (
        order, part[0], random.choice(_suppliers_of(part[0])), number, Decimal(quantity), quantity * part[7],
        Decimal(random.randint(0, 10)) / 100, Decimal(random.randint(0, 8)) / 100, back, shipped, due, received,
        random.choice(INSTRUCTIONS), mode, _comment(random), "O" if shipped > TODAY else "F",
    )  # fmt: skip
