"""Whether a Spark is one that this package supports: that of this machine before it starts, any driver once it has.

A Spark of the machine is looked at without starting it: the name of its core jar has its version, and so has the file
``version.py`` of its Python side. What cannot be told is left to the driver, which says its version when it is ready.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.applications.java import SPARK_REMEDY
from airflow_hive_acid.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Versions of Spark that this package runs on, without their last number.
SUPPORTED = ("3.5", "4.0", "4.1", "4.2", "4.3")

_CORE = re.compile(r"spark-core_([\d.]+)-(\d+\.\d+(?:\.\d+)?)[^/]*\.jar$")
_PYTHON = re.compile(r"""^__version__[^=]*=\s*["'](\d+\.\d+(?:\.\d+)?)""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InstalledSpark:
    """A Spark of this machine, as the name of its core jar tells it.

    :param home: its directory.
    :param version: for example ``4.1.4``.
    :param scala: the version of Scala that it was built with, for example ``2.13``.
    """

    home: Path
    version: str
    scala: str

    @property
    def line(self) -> str:
        """The version without its last number: ``4.1`` of ``4.1.4``."""
        return _line(self.version)

    @property
    def loads_defaults(self) -> bool:
        """Whether its spark-submit reads the site's defaults beside a file of ours: ``--load-spark-defaults``."""
        return int(self.version.split(".")[0]) >= 4


def name_home(environment: dict[str, str], deploy_mode: str, spark: InstalledSpark | None) -> None:
    """Tell Spark's scripts where they are, for a driver on the cluster.

    They would look for it with the first ``python`` on PATH; a variable that names a Python, as drivers on this machine
    have it, would go to the cluster.

    :param environment: of the spark-submit to be started; ``SPARK_HOME`` is set in it where it is not.
    """
    if deploy_mode == "cluster" and spark is not None:
        environment.setdefault("SPARK_HOME", str(spark.home))


def require_spark(program: str, environment: Mapping[str, str]) -> InstalledSpark | None:
    """Refuse a Spark of this machine that is known not to fit, before it is started.

    :param program: the ``spark-submit`` that will be started.
    :param environment: variables of the process to be started; Spark's scripts obey its ``SPARK_HOME``.
    :return: what it is; None when that cannot be told.
    :raises ConfigurationError: names both versions, where they were found, and the remedy.
    """
    found = installed_spark(program, environment)
    if found is None:
        return None
    _require(found.version, f"the Spark in {found.home}")
    python = _version_of_python(found.home)
    if python is not None and _line(python) != found.line:
        raise ConfigurationError(
            f"the Spark in {found.home} has jars of {found.version} and Python files of {python}. {_remedy(found)}"
        )
    left = _left_of_another(found.home)
    if left is not None:
        raise ConfigurationError(
            f"the Spark in {found.home} is {found.version}, and {left} is of another version: Python would read it "
            f"instead of the file {left.name}.py beside it. {_remedy(found)}"
        )
    return found


def _remedy(found: InstalledSpark) -> str:
    commands = f"'pip install --force-reinstall --no-deps \"pyspark=={found.version}\"'"
    if not found.loads_defaults:
        # What was a module in 3.5 is a folder since 4.0; a folder that lies there would win.
        commands = f"'pip uninstall --yes pyspark-client pyspark', then {commands}"
    return (
        "The package pyspark-client, which Airflow's Spark provider brings, unpacks its files over those of pyspark; "
        f"put them right with {commands}"
    )


def _left_of_another(home: Path) -> Path | None:
    """A folder of Python files that hides a module of the same name: what another version has left."""
    for sql in (home / "sql", home / "python" / "pyspark" / "sql"):
        for module in sorted(sql.glob("*.py")):
            if (module.with_suffix("") / "__init__.py").is_file():
                return module.with_suffix("")
    return None


def installed_spark(program: str, environment: Mapping[str, str]) -> InstalledSpark | None:
    """The Spark of this machine that a ``spark-submit`` starts; None when that cannot be told."""
    home = _home(program, environment)
    return None if home is None else _spark_in(home)


def spark_of_python() -> InstalledSpark | None:
    """The Spark whose Python package this environment has; None when it has none, or one without jars."""
    home = _home_of_python()
    return None if home is None else _spark_in(home)


def require_driver_version(version: str) -> None:
    """Refuse a driver, wherever it runs, whose Spark is none that this package supports.

    :param version: what it has said; empty when it has not.
    :raises ConfigurationError: names the version and the remedy.
    """
    if _line(version):
        _require(version, "the Spark of the driver")


def _home(program: str, environment: Mapping[str, str]) -> Path | None:
    """Where the Spark of a ``spark-submit`` lies, in the order of Spark's own scripts; None when it does not show."""
    if environment.get("SPARK_HOME"):
        return Path(environment["SPARK_HOME"])
    found = shutil.which(program, path=environment.get("PATH"))
    if found is None:
        return None
    above = Path(found).resolve().parent.parent
    if (above / "jars").is_dir():
        return above
    # spark-submit of a pip-installed Spark finds its home beside the Python module.
    if Path(found).parent != Path(sys.executable).parent:
        return None
    return _home_of_python()


def _home_of_python() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _require(version: str, what: str) -> None:
    if _line(version) not in SUPPORTED:
        raise ConfigurationError(
            f"{what} is {version}; this package runs on {', '.join(SUPPORTED[:-1])} and {SUPPORTED[-1]}. "
            f"{SPARK_REMEDY}. The Spark of a "
            'cluster counts where its drivers run there; a Spark connection can name another program ("spark-binary")'
        )


def _line(version: str) -> str:
    """``4.3`` of ``4.3.0``; empty when it is no version."""
    parts = version.split(".")
    return ".".join(parts[:2]) if len(parts) > 1 else ""


def _spark_in(home: Path) -> InstalledSpark | None:
    found = [match for jar in (home / "jars").glob("spark-core_*.jar") if (match := _CORE.search(jar.name))]
    return InstalledSpark(home, found[0][2], found[0][1]) if len(found) == 1 else None


def _version_of_python(home: Path) -> str | None:
    # A pip-installed Spark is its Python package; others have it as an archive beside these files.
    for file in (home / "version.py", home / "python" / "pyspark" / "version.py"):
        if file.is_file():
            match = _PYTHON.search(file.read_text(encoding="utf-8", errors="replace"))
            return None if match is None else match[1]
    return None
