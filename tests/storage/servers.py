"""What the storage tests run against: an S3 server and an HDFS of their own, on loopback, gone with the tests.

The S3 server is moto's, in a process of its own, and fails when it is asked to (``faulty_s3.py``). HDFS is Hadoop's
MiniDFSCluster: name node and data node in one JVM. Jars come from Maven into ``build/storage/``, once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import pyspark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

RECIPE = Path(__file__).with_name("pom.xml")
OUTPUT = RECIPE.parents[2] / "build" / "storage"
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
START_SECONDS = 240
BUCKET = "hive-acid-tests"
HADOOP = "3.5.0"
"""That of the pom, and of the Spark of ``make install``."""


class StorageError(Exception):
    """A server or its jars cannot be had; the text says what is missing."""


def hadoop_of_spark() -> str:
    """Version of the Hadoop that the installed Spark comes with."""
    (client,) = SPARK_JARS.glob("hadoop-client-api-*.jar")
    return client.stem.removeprefix("hadoop-client-api-")


def s3a_jars() -> list[Path]:
    """What this Spark needs for ``s3a://``: before 3.4, Hadoop had the first of Amazon's SDKs."""
    version = hadoop_of_spark()
    return jars("s3a-v1" if version.startswith("3.3.") else "s3a", version)


def jars(profile: str, hadoop: str = HADOOP) -> list[Path]:
    """The jars of a profile of the pom, fetched if they are not there.

    :param hadoop: another Hadoop than the pom's.
    :raises StorageError: without Maven, or when it fails.
    """
    output = OUTPUT / (profile if hadoop == HADOOP else f"{profile}-{hadoop}")
    stamp = output / "recipe.sha256"
    fingerprint = hashlib.sha256(RECIPE.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != fingerprint:
        maven = shutil.which("mvn")
        if maven is None:
            raise StorageError("Maven is needed to fetch Hadoop's jars: install it (Debian: apt-get install maven)")
        shutil.rmtree(output, ignore_errors=True)
        command = [maven, "-q", "-B", "-f", str(RECIPE), "package", f"-P{profile}"]
        command += [f"-Doutput={output}", f"-Dhadoop.version={hadoop}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StorageError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4000:]}")
        stamp.write_text(fingerprint)
    return sorted(output.glob("*.jar"))


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """A running S3 server with nothing in it; its URL."""
    port = free_port()
    command = [sys.executable, str(Path(__file__).with_name("faulty_s3.py")), str(port)]
    url = f"http://127.0.0.1:{port}"
    with _process(command, folder / "s3.log", lambda: _answers(f"{url}/moto-api/")):
        yield url


_OPENS = ("java.base/java.lang=ALL-UNNAMED", "java.base/java.util=ALL-UNNAMED")


@contextmanager
def kms(folder: Path) -> Iterator[str]:
    """A running key management server of Hadoop, which refuses nobody anything; its ``kms:`` URI."""
    port, conf = free_port(), folder / "kms"
    conf.mkdir()
    site(
        conf / "kms-site.xml",
        {
            "hadoop.kms.http.host": "127.0.0.1",
            "hadoop.kms.http.port": str(port),
            "hadoop.kms.key.provider.uri": f"jceks://file@{conf}/keys.jceks",
            "hadoop.kms.authentication.type": "simple",
        },
    )
    rights = ("MANAGEMENT", "GENERATE_EEK", "DECRYPT_EEK", "READ")
    site(conf / "kms-acls.xml", {f"default.key.acl.{right}": "*" for right in rights})
    site(conf / "core-site.xml", {})
    (conf / "kms-log4j.properties").write_text(
        "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
    )
    command = [_java(), "-Xmx256m", *(f"--add-opens={one}" for one in _OPENS)]
    command += [f"-Dkms.config.dir={conf}", f"-Dkms.log.dir={conf}", f"-Dkms.home.dir={conf}", f"-Dkms.temp.dir={conf}"]
    command += [f"-Dlog4j.configuration=file:{conf}/kms-log4j.properties"]
    command += ["-cp", os.pathsep.join(map(str, [conf, *jars("kms")]))]
    url = f"http://127.0.0.1:{port}/kms/v1/keys/names?user.name=hive"
    main = "org.apache.hadoop.crypto.key.kms.server.KMSWebServer"
    with _process([*command, main], folder / "kms.log", lambda: _answers(url)):
        yield f"kms://http@127.0.0.1:{port}/kms"


def make_key(uri: str, name: str) -> None:
    """Make a key in a key management server."""
    url = f"{uri.replace('kms://http@', 'http://')}/v1/keys?user.name=hive"
    body = json.dumps({"name": name, "cipher": "AES/CTR/NoPadding", "length": 128}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60):
        """It is made."""


def make_encryption_zone(authority: str, path: str, key: str) -> None:
    """Make an empty directory of an HDFS an encryption zone; only its superuser may."""
    command = [_java(), "-cp", os.pathsep.join(map(str, [*jars("hdfs"), *_hadoop_of_spark()]))]
    command += ["org.apache.hadoop.hdfs.tools.CryptoAdmin", "-fs", f"hdfs://{authority}"]
    environment = {name: value for name, value in os.environ.items() if name != "HADOOP_USER_NAME"}
    command += ["-createZone", "-keyName", key, "-path", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=START_SECONDS)
    if done.returncode:
        raise StorageError(f"{path} does not become an encryption zone:\n{(done.stdout + done.stderr)[-4000:]}")


def site(path: Path, settings: Mapping[str, str]) -> None:
    """Write a configuration file of Hadoop's."""
    lines = [f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in settings.items()]
    path.write_text("<configuration>\n" + "\n".join(lines) + "\n</configuration>\n")


def _java() -> str:
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"


def _hadoop_of_spark() -> list[Path]:
    shared = ("hadoop-client-", "slf4j-", "log4j-", "jcl-over-", "commons-cli")
    return [path for path in sorted(SPARK_JARS.glob("*.jar")) if path.name.startswith(shared)]


@contextmanager
def hdfs_cluster(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """A running HDFS: authority of its ``hdfs:`` URIs, and address of its WebHDFS.

    :param more: settings of its servers.
    """
    settings, details = folder / "hdfs.xml", folder / "hdfs.json"
    command = [
        _java(),
        "-Xmx400m",
        "-Djava.net.preferIPv4Stack=true",
        f"-Dtest.build.data={folder / 'hdfs'}",
        "-cp",
        os.pathsep.join(map(str, [*jars("hdfs"), *_hadoop_of_spark()])),
        "org.apache.hadoop.test.MiniDFSClusterManager",
        *("-format", "-datanodes", "1", "-nnport", "0"),
        *("-D", "dfs.replication=1", "-D", "dfs.permissions.enabled=false"),
        *(part for key, value in (more or {}).items() for part in ("-D", f"{key}={value}")),
        *("-writeConfig", str(settings), "-writeDetails", str(details)),
    ]
    with _process(command, folder / "hdfs.log", lambda: _complete(details) and settings.exists()):
        port = json.loads(details.read_text())["namenode_port"]
        yield f"127.0.0.1:{port}", _setting(settings, "dfs.namenode.http-address")


@contextmanager
def _process(command: list[str], log: Path, ready: Callable[[], bool]) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                end = log.read_text(errors="replace")[-4000:]
                raise StorageError(f"{command[0]} … does not start; the end of its log:\n{end}")
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _complete(path: Path) -> bool:
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True


def _setting(path: Path, name: str) -> str:
    text = path.read_text()
    head = f"<name>{name}</name><value>"
    begin = text.index(head) + len(head)
    return text[begin : text.index("</value>", begin)]
