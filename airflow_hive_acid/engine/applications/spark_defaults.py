"""What is asked of a Spark installation before spark-submit is started, and what its refusals mean.

spark-submit reads the site's ``spark-defaults.conf`` beside the settings that we hand over (``--load-spark-defaults``);
what must be set at all may therefore stand there, and is looked for there. That of Spark 3.5 cannot, so for it the
file's settings go into ours.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A key ends at the first of = : and white space that is not escaped.
_ENTRY = re.compile(r"((?:\\.|[^\\=: \t\f])+)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_OLD = re.compile(r"Unrecognized option:? '?--load-spark-defaults")


def site_defaults(environment: Mapping[str, str], program: str | None) -> dict[str, str]:
    """What the site's ``spark-defaults.conf`` says; a spark-submit that is too old leaves it out beside a file of ours.

    :return: Spark's settings; none when there is no such file.
    """
    for file in _defaults_files(environment, program):
        if file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            return {key: value for key, value in _properties(text).items() if key.startswith("spark.")}
    return {}


def old_spark_submit(lines: Iterable[str]) -> str | None:
    """What it means when a spark-submit refuses our command line; None when it does not."""
    if not any(_OLD.search(line) for line in lines):
        return None
    return (
        "this spark-submit is of a Spark older than 4: it does not know --load-spark-defaults. A Spark 3.5 is started "
        "without that when its version can be seen: set SPARK_HOME to its directory. Older ones are not supported. "
        'Look which one is started: SPARK_HOME, PATH, or "spark-binary" of the Spark connection; \'pip install '
        '"airflow-hive-acid[spark]"\' brings a right one'
    )


def _defaults_files(environment: Mapping[str, str], program: str | None) -> list[Path]:
    """Where ``spark-defaults.conf`` may be, in Spark's order: SPARK_CONF_DIR, else conf/ of the installation."""
    if environment.get("SPARK_CONF_DIR"):
        return [Path(environment["SPARK_CONF_DIR"]) / "spark-defaults.conf"]
    homes = []
    if environment.get("SPARK_HOME"):
        homes.append(Path(environment["SPARK_HOME"]))
    else:
        found = None if program is None else shutil.which(program, path=environment.get("PATH"))
        if found is not None:
            homes.append(Path(found).resolve().parent.parent)
        # spark-submit of a pip-installed Spark finds its home beside the Python module.
        spec = importlib.util.find_spec("pyspark")
        if spec is not None and spec.origin is not None:
            homes.append(Path(spec.origin).parent)
    return [home / "conf" / "spark-defaults.conf" for home in homes]


def _properties(text: str) -> dict[str, str]:
    """The entries of a Java properties file, with the space around values cut off, as Spark does."""
    found = {}
    begun: str | None = None
    for line in re.split(r"\r\n|\r|\n", text):
        rest = line.lstrip(" \t\f")
        if begun is None and rest[:1] in ("", "#", "!"):
            continue
        entry = (begun or "") + rest
        if (len(entry) - len(entry.rstrip("\\"))) % 2:
            begun = entry[:-1]
            continue
        begun = None
        match = _ENTRY.fullmatch(entry)
        if match is not None:
            found[_unescaped(match[1])] = _unescaped(match[2]).strip(" \t\f")
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else _CONTROLS.get(m[1], m[1]), text)
