"""Compiles ``accelerator/`` into the optional jar of the package, against the jars of the installed pyspark.

    python scripts/build_accelerator.py [--if-javac]

Needs nothing but a JDK. The same sources, pyspark and JDK make the same bytes. A jar that is up to date is left alone.
With ``--if-javac`` a missing compiler is no error: the package works without the jar, only slower.
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

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "accelerator" / "src"
JAR = ROOT / "airflow_hive_acid" / "jars" / "hive-acid-accelerator.jar"
PROPERTIES = "hiveacid/accelerator.properties"
JAVA_RELEASE = "17"
# The oldest time a zip can hold.
_TIME = (1980, 1, 1, 0, 0, 0)


def main() -> int:
    """Build the jar if it is missing or older than what it is made of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--if-javac", action="store_true", help="do nothing where there is no Java compiler")
    arguments = parser.parse_args()
    javac = find_javac()
    if javac is None:
        print(
            "No javac on PATH or in JAVA_HOME: the accelerator is not built, jobs use Spark's own ORC source, which is "
            "slower. To have it: a JDK of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless), then "
            "python scripts/build_accelerator.py"
        )
        return 0 if arguments.if_javac else 1
    built = build(javac)
    print(f"{'Built' if built else 'Up to date:'} {JAR.relative_to(ROOT)}")
    return 0


def find_javac() -> str | None:
    """The Java compiler: that of ``JAVA_HOME`` if it has one, else the first on ``PATH``."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "javac").is_file():
        return str(Path(home) / "bin" / "javac")
    return shutil.which("javac")


def build(javac: str) -> bool:
    """Make the jar; whether there was anything to do."""
    sources = _sources()
    properties = _properties(sources)
    if JAR.is_file() and _built_from(JAR) == properties:
        return False
    jars = spark_jars()
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
        subprocess.run([*command, "-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)], check=True)
        JAR.parent.mkdir(parents=True, exist_ok=True)
        files = {path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")}
        _write_jar({**files, PROPERTIES: properties.encode()})
    return True


def spark_jars() -> Path:
    """The jars of the installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit(f"{sys.executable} has no pyspark; run make install first")
    return Path(spec.origin).parent / "jars"


def fault_of_jar() -> str | None:
    """What is wrong with the jar in the tree, None when it was made from these sources; needs neither JDK nor Spark."""
    where = JAR.relative_to(ROOT)
    if not JAR.is_file():
        return f"({where}) is missing"
    lines = (_built_from(JAR) or "").splitlines()
    if f"version={_version()}" not in lines:
        return f"({where}) is not of version {_version()}"
    if f"sources={_digest(_sources())}" not in lines:
        return f"({where}) was not built from the sources in accelerator/src"
    return None


def _sources() -> list[Path]:
    return sorted(SOURCES.rglob("*.java"))


def _version() -> str:
    text = (ROOT / "airflow_hive_acid" / "__init__.py").read_text()
    (version,) = re.findall(r'__version__ = "([^"]+)"', text)
    return str(version)


def _digest(sources: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _properties(sources: list[Path]) -> str:
    """What a jar is made of; equal texts, equal jars."""
    core = next(spark_jars().glob("spark-core_*.jar")).stem.rpartition("-")[2]
    return (
        f"spark={'.'.join(core.split('.')[:2])}\nversion={_version()}\ncompiled-against={core}\n"
        f"sources={_digest(sources)}\n"
    )


def _built_from(jar: Path) -> str | None:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(PROPERTIES).decode()
    except (KeyError, zipfile.BadZipFile):
        return None


def _write_jar(files: dict[str, bytes]) -> None:
    """Written beside its place and moved there: a running job may have the old one open."""
    handle, temporary = tempfile.mkstemp(dir=JAR.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        manifest = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n"}
        for name, content in (manifest | dict(sorted(files.items()))).items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    os.chmod(temporary, 0o644)
    os.replace(temporary, JAR)


if __name__ == "__main__":
    sys.exit(main())
