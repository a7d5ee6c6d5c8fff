"""Metastores as Hive's own SQL scripts make them, of any version and on any database; the scripts come by Maven.

The last distribution of the metastore that is published, 4.0.1, holds the scripts of all versions up to 4.0.0. What
4.1 and 4.2 changed stands in ``tests/interop/oracle/sql``. CDP's script is not published: see
:mod:`tests.hive3_schemas`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sa

ARTIFACT = "org.apache.hive:hive-standalone-metastore-server:4.0.1:tar.gz:bin"
CHANGES = Path(__file__).parent / "interop" / "oracle" / "sql"
LATER = {"4.1.0": ["schema-4.0-to-4.1"], "4.2.0": ["schema-4.0-to-4.1", "schema-4.1-to-4.2"]}
"""Of versions after 4.0.0: what is run after its script."""


def create(url: str, version: str) -> None:
    """Make a metastore of a Hive version in an empty database, as Hive's ``schematool`` does.

    :param url: SQLAlchemy URL of a database of PostgreSQL, MySQL or MariaDB.
    :param version: of the schema: ``3.1.0``.
    """
    on_mysql = sa.make_url(url).get_backend_name() in ("mysql", "mariadb")
    kind = "mysql" if on_mysql else "postgres"
    first = _distribution() / f"hive-schema-{'4.0.0' if version in LATER else version}.{kind}.sql"
    ending = ".mysql.sql" if on_mysql else ".sql"
    scripts = [first, *(CHANGES / f"{name}{ending}" for name in LATER.get(version, ()))]
    run(url, *scripts)


def run(url: str, *scripts: Path) -> None:
    """Run scripts as the database's own shell does: many statements at once, and no placeholders looked for."""
    many = {}
    if sa.make_url(url).get_backend_name() in ("mysql", "mariadb"):
        from pymysql.constants import CLIENT

        many = {"client_flag": CLIENT.MULTI_STATEMENTS}
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool, connect_args=many)
    driver = engine.raw_connection()
    try:
        cursor = driver.cursor()
        for script in scripts:
            cursor.execute(script.read_text() if many else script.read_bytes())  # type: ignore[arg-type]
            while cursor.nextset():
                pass
        driver.commit()
    finally:
        driver.close()


def _distribution() -> Path:
    """The directory of Hive's scripts, fetched by Maven if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "airflow-hive-acid" / "tests"
    base = cache / ARTIFACT.replace(":", "-")
    if base.is_dir():
        return base
    cache.mkdir(parents=True, exist_ok=True)
    maven = shutil.which("mvn")
    if maven is None:
        pytest.fail(
            "Maven is needed to fetch Hive's scripts: install it (Debian: apt-get install maven)", pytrace=False
        )
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={scratch}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch)
        if done.returncode:
            pytest.fail(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4000:]}", pytrace=False)
        unpacked = Path(scratch) / "scripts"
        unpacked.mkdir()
        with tarfile.open(next(Path(scratch).glob("*.tar.gz")), mode="r:gz") as tar:
            for member in tar:
                if Path(member.name).match("upgrade/*/hive-schema-*.sql"):
                    content = tar.extractfile(member)
                    assert content is not None
                    (unpacked / Path(member.name).name).write_bytes(content.read())
        # Two test processes may do this at once: the first one's stays.
        with contextlib.suppress(OSError):
            unpacked.rename(base)
    return base
