"""Compiles ``accelerator/`` into the optional jars of the package, one for each Spark that it runs on.

    python scripts/build_accelerator.py [--if-javac]              for the installed pyspark
    python scripts/build_accelerator.py --all                     for all; Maven fetches their jars
    python scripts/build_accelerator.py --spark-home DIR …        for the Sparks in these directories

Needs nothing but a JDK. The same sources, Spark and JDK make the same bytes. A jar that is up to date is left alone.
With ``--if-javac`` a missing compiler is no error: the package works without the jar, only slower.

What all have in common is in ``accelerator/src``. ``accelerator/since/<version>`` has classes that are used from this
Spark on, until a newer folder has one of the same name; ``accelerator/scala/<version>`` those for one Scala.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent
ACCELERATOR = ROOT / "accelerator"
JARS = ROOT / "airflow_hive_acid" / "jars"
FETCHED = ROOT / "build" / "spark-jars"
PROPERTIES = "hiveacid/accelerator.properties"
JAVA_RELEASE = "17"
# The oldest time a zip can hold.
_TIME = (1980, 1, 1, 0, 0, 0)
_CORE = re.compile(r"spark-core_([\d.]+)-(\d+\.\d+\.\d+)[^/]*\.jar$")


class Build(NamedTuple):
    """One jar.

    :param spark: version of Spark without its last number.
    :param scala: version of Scala that this Spark was built with.
    :param against: what Maven fetches where another Spark is installed; any version of its line makes the same classes.
    """

    spark: str
    scala: str
    against: str

    @property
    def jar(self) -> Path:
        """Where it is put."""
        return JARS / f"hive-acid-accelerator-{self.spark}_{self.scala}.jar"


BUILDS = (
    Build("3.5", "2.12", "3.5.9"),
    Build("3.5", "2.13", "3.5.9"),
    Build("4.0", "2.13", "4.0.4"),
    Build("4.1", "2.13", "4.1.3"),
    Build("4.2", "2.13", "4.2.0"),
    Build("4.3", "2.13", "4.3.0"),
)


def main() -> int:
    """Build the jars that are missing or older than what they are made of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--if-javac", action="store_true", help="do nothing where there is no Java compiler")
    parser.add_argument("--all", action="store_true", help="for all Sparks, whose jars are fetched by Maven")
    parser.add_argument("--spark-home", type=Path, nargs="+", default=[], metavar="DIR", help="for these Sparks")
    arguments = parser.parse_args()
    javac = find_javac()
    if javac is None:
        print(
            "No javac on PATH or in JAVA_HOME: the accelerator is not built, jobs use Spark's own ORC source, which is "
            "slower. To have it: a JDK of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless), then "
            "python scripts/build_accelerator.py"
        )
        return 0 if arguments.if_javac else 1
    # A package of a wheel takes all jars there are; this one was that of the only Spark.
    (JARS / "hive-acid-accelerator.jar").unlink(missing_ok=True)
    folders: Iterable[Path] = [home / "jars" for home in arguments.spark_home] or [spark_jars()]
    if arguments.all:
        # Each is built before the next is fetched.
        folders = (_fetched(build) for build in BUILDS if _fault_of(build) is not None)
    for folder in folders:
        one, built = build(javac, folder)
        print(f"{'Built' if built else 'Up to date:'} {one.jar.relative_to(ROOT)}")
    # One of the same version, but made of other sources, would be used, and the job would find no class of its name.
    for one in BUILDS:
        if one.jar.is_file() and _fault_of(one) is not None:
            one.jar.unlink(missing_ok=True)
            print(f"Removed {one.jar.relative_to(ROOT)}, older than its sources; make accelerators builds it again")
    return 0


def find_javac() -> str | None:
    """The Java compiler: that of ``JAVA_HOME`` if it has one, else the first on ``PATH``."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "javac").is_file():
        return str(Path(home) / "bin" / "javac")
    return shutil.which("javac")


def build(javac: str, jars: Path) -> tuple[Build, bool]:
    """Make the jar for the Spark whose jars are in a folder; whether there was anything to do."""
    version, one = _spark_in(jars)
    sources = _sources(one)
    properties = _properties(one, version, sources)
    if one.jar.is_file() and _built_from(one.jar) == properties:
        return one, False
    with tempfile.TemporaryDirectory() as directory:
        classes = Path(directory)
        command = [
            javac,
            "--release",
            JAVA_RELEASE,
            "-Xlint:all,-classfile,-path,-processing,-serial",
            "-Werror",
            "-g",
            "-proc:none",
        ]
        files = map(str, sources.values())
        subprocess.run([*command, "-cp", f"{jars}/*", "-d", str(classes), *files], check=True)
        JARS.mkdir(parents=True, exist_ok=True)
        found = {path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")}
        _write_jar(one.jar, {**found, PROPERTIES: properties.encode()})
    return one, True


def spark_jars() -> Path:
    """The jars of the installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit(f"{sys.executable} has no pyspark; run make install first")
    return Path(spec.origin).parent / "jars"


def fault_of_jars() -> str | None:
    """What is wrong with the jars in the tree, None when there is one for each Spark, made from these sources.

    Needs neither JDK nor Spark.
    """
    return next((f for build in BUILDS if (f := _fault_of(build)) is not None), None)


def _fault_of(one: Build) -> str | None:
    where = one.jar.relative_to(ROOT)
    if not one.jar.is_file():
        return f"({where}) is missing"
    lines = (_built_from(one.jar) or "").splitlines()
    if f"version={_version()}" not in lines:
        return f"({where}) is not of version {_version()}"
    if f"sources={_digest(_sources(one))}" not in lines:
        return f"({where}) was not built from the sources in accelerator/"
    return None


def _sources(one: Build) -> dict[str, Path]:
    """The classes of one jar: those of all, of its Scala, and of the newest Spark that is not newer than its own."""
    since = [folder for folder in (ACCELERATOR / "since").iterdir() if _numbers(folder.name) <= _numbers(one.spark)]
    found: dict[str, Path] = {}
    for root in (
        ACCELERATOR / "src",
        ACCELERATOR / "scala" / one.scala,
        *sorted(since, key=lambda f: _numbers(f.name)),
    ):
        found |= {path.relative_to(root).as_posix(): path for path in root.rglob("*.java")}
    return dict(sorted(found.items()))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _version() -> str:
    text = (ROOT / "airflow_hive_acid" / "__init__.py").read_text()
    (version,) = re.findall(r'__version__ = "([^"]+)"', text)
    return str(version)


def _digest(sources: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, path in sources.items():
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _spark_in(jars: Path) -> tuple[str, Build]:
    """The version of the Spark in a folder of jars, and what is built for it."""
    found = [match for path in jars.glob("spark-core_*.jar") if (match := _CORE.search(path.name))]
    if len(found) != 1:
        raise SystemExit(f"{jars} is no folder with the jars of a Spark: there is no spark-core_*.jar, or several")
    scala, version = found[0][1], found[0][2]
    for one in BUILDS:
        if _numbers(one.spark) == _numbers(version)[:2] and one.scala == scala:
            return version, one
    known = ", ".join(f"{one.spark} with Scala {one.scala}" for one in BUILDS)
    raise SystemExit(f"{jars} is of Spark {version} with Scala {scala}; there are sources for {known}")


def _fetched(one: Build) -> Path:
    """A folder with the jars of a Spark: those of the installed pyspark, or from Maven."""
    if importlib.util.find_spec("pyspark") and list(spark_jars().glob(f"spark-core_{one.scala}-{one.spark}.*.jar")):
        return spark_jars()
    folder = FETCHED / f"{one.against}_{one.scala}"
    if not list(folder.glob("spark-core_*.jar")):
        maven = shutil.which("mvn")
        if maven is None:
            raise SystemExit(
                f"Maven is needed to fetch the jars of Spark {one.against}: install it (Debian: apt-get install "
                "maven), or name the directory of such a Spark with --spark-home"
            )
        # Beside its place first: a fetch that was stopped is no folder with half of the jars.
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        which = (f"-Dspark={one.against}", f"-Dscala={one.scala}", f"-DoutputDirectory={part}")
        subprocess.run([maven, "-q", "-B", "-f", str(ACCELERATOR / "pom.xml"), goal, *which], check=True)
        part.rename(folder)
    return folder


def _properties(one: Build, version: str, sources: dict[str, Path]) -> str:
    """What a jar is made of; equal texts, equal jars."""
    return (
        f"spark={one.spark}\nscala={one.scala}\nversion={_version()}\ncompiled-against={version}\n"
        f"sources={_digest(sources)}\n"
    )


def _built_from(jar: Path) -> str | None:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(PROPERTIES).decode()
    except (KeyError, zipfile.BadZipFile):
        return None


def _write_jar(jar: Path, files: dict[str, bytes]) -> None:
    """Written beside its place and moved there: a running job may have the old one open."""
    handle, temporary = tempfile.mkstemp(dir=jar.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        manifest = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n"}
        for name, content in (manifest | dict(sorted(files.items()))).items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    os.chmod(temporary, 0o644)
    os.replace(temporary, jar)


if __name__ == "__main__":
    sys.exit(main())
