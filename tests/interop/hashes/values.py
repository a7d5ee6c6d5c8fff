"""The values whose bucket hashes Hive is asked for, and the asking: see README.md.

``python -m tests.interop.hashes.values`` writes :file:`tests/fixtures/bucket_hashes.jsonl` anew.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.oracle import oracle

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "fixtures" / "bucket_hashes.jsonl"

_TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "x ",
    "  ",
    " y",
    "grüße",
    "漢字",
    "😀",
    "é",
    "aé",
    "abé",
    "a\u0000b",
    "ÿþ",
    "The quick brown fox jumps over the lazy dog",
    "0",
    "-1",
    "\u00a0",
    "z" * 100,
]
_DECIMALS = [
    "0",
    "0.00",
    "1",
    "-1",
    "10",
    "100",
    "100.00",
    "1.5",
    "-1.5",
    "1.50",
    "0.1",
    "-0.1",
    "0.01",
    "127",
    "128",
    "-128",
    "-129",
    "255",
    "256",
    "32767",
    "32768",
    "-32768",
    "-32769",
    "99999999999999999999",
    "-99999999999999999999",
    "12345678.1234567890",
    "-12345678.1234567890",
    "0.0000000001",
    "-0.0000000001",
    "1E5",
    "12300",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "4294967296",
    "-4294967296",
    "2147483648",
    "1234567890123456789012345678",
]
_TIMES = [
    "1970-01-01 00:00:00",
    "1969-12-31 23:59:59",
    "1969-12-31 23:59:59.5",
    "1970-01-01 00:00:00.000001",
    "2024-02-29 12:34:56",
    "2024-02-29 12:34:56.1",
    "2024-02-29 12:34:56.123",
    "2024-02-29 12:34:56.123456",
    "2024-02-29 12:34:56.123456789",
    "2024-02-29 12:34:56.000000001",
    "2038-01-19 03:14:07",
    "2038-01-19 03:14:08",
    "2038-01-19 03:14:08.25",
    "9999-12-31 23:59:59.999999",
    "1900-01-01 00:00:00",
    "1582-10-15 00:00:00",
    "1582-10-04 23:59:59.5",
    "0001-01-01 00:00:00",
    "1000-02-28 01:02:03.25",
    "1500-03-01 12:00:00",
    "1583-01-01 00:00:00.1",
    "1800-06-15 12:00:00.21",
    "1950-05-05 05:05:05.999999",
    "2000-01-01 00:00:00.7",
    "2000-01-01 00:00:00.721",
    "2000-01-01 00:00:00.82",
    "1960-01-01 00:00:00.11",
    "1960-01-01 00:00:00.111",
    "1960-01-01 00:00:00.211",
]

VALUES: dict[str, list[Any]] = {
    "boolean": ["true", "false"],
    "tinyint": ["0", "1", "-1", "127", "-128"],
    "smallint": ["0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "32767", "-32768", "1000"],
    "int": ["0", "1", "-1", "7", "127", "128", "-128", "65535", "-65536", "2147483647", "-2147483648", "123456789"],
    "bigint": [
        "0",
        "1",
        "-1",
        "42",
        "2147483648",
        "-2147483649",
        "4294967296",
        "9223372036854775807",
        "-9223372036854775808",
        "1234567890123456789",
    ],
    "float": [
        "0.0",
        "-0.0",
        "1.0",
        "-1.0",
        "1.5",
        "3.4028235e38",
        "-3.4028235e38",
        "1.4e-45",
        "NaN",
        "Infinity",
        "-Infinity",
        "0.1",
        "1e10",
    ],
    "double": [
        "0.0",
        "-0.0",
        "1.0",
        "-1.0",
        "1.5",
        "1.7976931348623157e308",
        "4.9e-324",
        "NaN",
        "Infinity",
        "-Infinity",
        "0.1",
        "-2.5e-10",
        "1e10",
    ],
    "decimal(38,10)": _DECIMALS,
    "decimal(10,2)": ["0", "1.10", "-1.10", "99999999.99", "-0.01", "100", "12345.6"],
    "decimal(38,0)": [
        "0",
        "99999999999999999999999999999999999999",
        "-99999999999999999999999999999999999999",
        "1000000000000",
    ],
    "decimal(38,18)": ["12345678901234567890.123456789012345678", "-0.000000000000000001", "18446744073709551615.5"],
    "string": _TEXTS,
    "varchar(100)": _TEXTS,
    "char(100)": _TEXTS,
    "char(3)": ["", "a", "ab", "abc", "é", "漢"],
    "binary": [text.encode().hex() for text in _TEXTS] + ["00", "80", "ff", "ff80", "ff80ff", "ff80ff80", "ff80ff80fe"],
    "date": [
        "1970-01-01",
        "1969-12-31",
        "2024-02-29",
        "0001-01-01",
        "9999-12-31",
        "1582-10-04",
        "1582-10-15",
        "1900-01-01",
    ],
    "timestamp": _TIMES,
    "timestamp with local time zone": [f"{text} UTC" for text in _TIMES],
    "array<int>": [[], ["1"], ["1", "2", "3"], ["1", None], [None, "1"], [None]],
    "array<string>": [[], ["a", "é"], ["a", None, "b"]],
    "array<array<bigint>>": [[], [["1", "2"], ["3"]], [[], None]],
    "map<string,int>": [{}, {"a": "1"}, {"a": "1", "b": "2"}, {"b": None}],
    "map<int,string>": [{"1": "a"}, {"1": "x", "-2": "yé"}, {"3": None}],
    "map<string,decimal(10,2)>": [{"k": "1.50"}, {"k": "100.00", "m": "-1.25"}],
    "map<string,timestamp>": [{"k": "2024-02-29 12:34:56.125"}],
    "map<string,char(5)>": [{"k": "ab"}, {"k": "é"}],
    "map<string,array<double>>": [{"k": ["1.5", "-2.0"]}],
    "struct<a:int,b:string>": [["1", "a"], [None, "a"], ["1", None], [None, None]],
    "struct<a:array<int>,b:struct<c:date,d:boolean>>": [[["1", "2"], ["2024-01-01", "true"]], [None, [None, "false"]]],
}


def requests() -> list[dict[str, Any]]:
    """Single values of every type and NULL, random ones, and rows of several columns; the same every time."""
    rows = [{"types": [name], "values": [value]} for name, values in VALUES.items() for value in [*values, None]]
    dice = random.Random(20)
    for bits, name in ((16, "smallint"), (32, "int"), (64, "bigint")):
        numbers = [str(dice.getrandbits(bits) - (1 << (bits - 1))) for _ in range(40)]
        rows += [{"types": [name], "values": [number]} for number in numbers]
    for length in range(40):
        text = "".join(chr(dice.choice([dice.randrange(32, 127), dice.randrange(160, 0x2000)])) for _ in range(length))
        rows += [
            {"types": ["string"], "values": [text]},
            {"types": ["binary"], "values": [dice.randbytes(length).hex()]},
        ]
    for _ in range(60):
        scale = dice.randrange(11)
        number = f"{dice.getrandbits(dice.randrange(1, 90)) * dice.choice((1, -1))}"
        rows.append({"types": ["decimal(38,10)"], "values": [f"{number}E-{scale}"]})
    for _ in range(40):
        seconds, nanos = dice.randrange(0, 86400), dice.choice((0, dice.randrange(10**9)))
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{nanos:09d}"
        stamp = f"{dice.randrange(1600, 9999):04d}-{dice.randrange(1, 13):02d}-{dice.randrange(1, 29):02d} {clock}"
        rows.append({"types": ["timestamp"], "values": [stamp]})
    names = [name for name in VALUES if "<" not in name]
    for _ in range(120):
        types = [dice.choice(names) for _ in range(dice.randrange(2, 6))]
        rows.append({"types": types, "values": [dice.choice([*VALUES[name], None]) for name in types]})
    return rows


def ask_hive(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with Hive's hashes ``v1`` and ``v2``."""
    java = shutil.which("java")
    assert java is not None, "a JDK 17 is needed"
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in oracle.OPENED_PACKAGES]
    jars = f"{oracle.build() / 'lib'}{os.sep}*"
    command = [java, "-Duser.timezone=UTC", *opened, "-cp", jars, str(HERE / "BucketHashes.java")]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    answer = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    assert answer.returncode == 0, answer.stderr[-4000:]
    return [json.loads(line) for line in answer.stdout.split("\n") if line]


if __name__ == "__main__":
    TABLE.write_text("".join(json.dumps(row, ensure_ascii=True) + "\n" for row in ask_hive(requests())))
