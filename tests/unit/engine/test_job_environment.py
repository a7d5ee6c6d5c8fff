"""What of this process's environment a Spark job gets: an allow-list, and what somebody asks for."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine.applications.job_environment import is_passed_on, job_environment, names_of
from airflow_hive_acid.engine.applications.launcher import make_spool
from airflow_hive_acid.engine.applications.spool import put
from airflow_hive_acid.filesystem.local import LocalFilesystem

if TYPE_CHECKING:
    from pathlib import Path

WITHHELD = (
    "AIRFLOW_HOME",
    "AIRFLOW_CONN_X",
    "AIRFLOW_VAR_TOKEN",
    "AIRFLOW__CORE__FERNET_KEY",
    "_AIRFLOW_PROCESS_CONTEXT",
    "HIVE_ACID_METASTORE_URL",
    "HIVE_ACID_SITE_B",
    "HIVE_ACID_LEASE",
    "PGPASSWORD",
    "PGPASSFILE",
    "PGSERVICE",
    "MYSQL_PWD",
    "SQLALCHEMY_DATABASE_URI",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_KEY",
    "VAULT_TOKEN",
    "HADOOP_CREDSTORE_PASSWORD",
    "SPARK_AUTH_SECRET",
    "JAVA_KEYSTORE_PASSWORD",
    "DATABASE_URL",
    "GITHUB_TOKEN",
    "KUBERNETES_TOKEN",
    "SECRET",
)
NEEDED = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "JAVA_HOME",
    "JAVA_TOOL_OPTIONS",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_LOCAL_DIRS",
    "SPARK_SUBMIT_OPTS",
    "PYSPARK_PYTHON",
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
    "HADOOP_USER_NAME",
    "HADOOP_CLASSPATH",
    "HADOOP_TOKEN_FILE_LOCATION",
    "YARN_CONF_DIR",
    "HIVE_CONF_DIR",
    "KRB5CCNAME",
    "KRB5_CONFIG",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "LD_LIBRARY_PATH",
    "NSS_WRAPPER_PASSWD",
    "http_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "KUBERNETES_SERVICE_HOST",
    "AWS_REGION",
    "VIRTUAL_ENV",
)


@pytest.mark.parametrize("name", WITHHELD)
def test_what_opens_something_else_is_withheld(name: str) -> None:
    assert not is_passed_on(name)


@pytest.mark.parametrize("name", NEEDED)
def test_what_programs_are_started_with_is_passed_on(name: str) -> None:
    assert is_passed_on(name)


def test_more_is_passed_on_by_name_or_by_beginning() -> None:
    given = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "MINE", "MINE_TOO", "PATH"), "v")
    found = job_environment("yarn", "cluster", names_of("AWS_*, MINE"), given)
    assert set(found) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MINE", "PATH"}
    # A lone star is no way to switch the list off.
    assert set(job_environment("yarn", "cluster", names_of(" , *"), given)) == {"PATH"}


def test_a_spool_on_a_shared_disk_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_spool((tmp_path / "shared" / "session-1").as_uri(), private=True)
        make_spool((tmp_path / "shared" / "session-2").as_uri(), private=False)
        for session in ("session-1", "session-2"):
            put(LocalFilesystem(), (tmp_path / "shared" / session / "0001.spec.json").as_uri(), "secret")
    finally:
        os.umask(before)
    rights = {p.parent.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.glob("shared/*/0001.spec.json")}
    assert rights == {"session-1": 0o600, "session-2": 0o666}, "the directory decides"
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755, "nobody can put another directory there"
    assert stat.S_IMODE((tmp_path / "shared" / "session-1").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "shared" / "session-2").stat().st_mode) == 0o777
    with pytest.raises(FileExistsError):
        make_spool((tmp_path / "shared" / "session-1").as_uri(), private=True)
