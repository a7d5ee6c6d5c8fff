"""As much of Kubernetes as Spark's client speaks with, on loopback: an API server, a kubelet and a garbage collector.

The server keeps every object that it is sent and every request. The kubelet starts a pod's container as processes of
this machine, with the environment, arguments and config map of the pod's spec and nothing of the submitter's: what
Spark's image does with them (``driver`` and ``executor``) it does with the installed Spark. A pod sees disks of this
machine, so what must not be seen is kept apart by paths. What is deleted takes what it owns with it.

Not here: who may do what (RBAC), admission, scheduling, volumes, names of services (every host is 127.0.0.1), TLS.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pyspark

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATH = re.compile(r"/(?:api|apis/[^/]+)/v\d\w*/namespaces/([^/]+)/([^/]+)(?:/([^/]+))?")
_SPARK_HOME = Path(pyspark.__file__).parent
#: Without this environment's packages: a pod has what its image holds, and what was sent to it.
_PYTHON = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")


@dataclass
class Kubernetes:
    """A cluster.

    :param folder: where pods have their files and logs.
    :param runs: which pods are really started, by the role in their labels.
    """

    folder: Path
    runs: tuple[str, ...] = ("driver", "executor")
    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    _watchers: list[tuple[dict[str, str], queue.Queue[dict[str, Any] | None]]] = field(default_factory=list)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _version: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def asked(self) -> set[tuple[str, str]]:
        """Verbs, as those who grant rights call them, and resources of all requests."""
        found = set()
        for method, path in self.requests:
            parts = urlsplit(path)
            match = _PATH.fullmatch(parts.path)
            assert match is not None
            one = "" if match[3] else "collection"
            get = "watch" if "watch=true" in parts.query else "list" if one else "get"
            verbs = {"GET": [get], "POST": ["create"], "PATCH": ["patch", "create"], "DELETE": [f"delete{one}"]}
            found |= {(verb, match[2]) for verb in verbs[method]}
        return found

    def of_kind(self, kind: str, role: str = "") -> list[dict[str, Any]]:
        """Objects that are there, pods of one role if it is given."""
        with self._lock:
            found = [each for (_, of, _), each in self.objects.items() if of == kind]
        return [each for each in found if not role or _role(each) == role]

    def until(self, what: str, condition: Any, seconds: float = 120) -> Any:
        """Wait for something of the cluster."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            logs = "\n".join(f"{p.name}:\n{p.read_text(errors='replace')[-3000:]}" for p in self.folder.glob("*.log"))
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s\n{self.requests}\n{logs}"
            time.sleep(0.05)
        return found

    def ended(self, name: str, code: int) -> None:
        """Say that a pod's container has ended."""
        state = {"name": "c", "state": {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}}
        self._status(name, "Failed" if code else "Succeeded", state)

    def put(self, namespace: str, kind: str, document: dict[str, Any]) -> dict[str, Any]:
        """Keep an object; a new pod is started."""
        with self._lock:
            self._version += 1
            known = {"uid": f"uid-{self._version}", "namespace": namespace, "resourceVersion": str(self._version)}
            document["metadata"] |= known | {"creationTimestamp": "2026-01-01T00:00:00Z"}
            self.objects[namespace, kind, document["metadata"]["name"]] = document
            if kind == "pods":
                document["status"] = {"phase": "Pending"}
                self._tell("ADDED", document)
        if kind == "pods" and _role(document) in self.runs:
            threading.Thread(target=self._run, args=(document,), daemon=True).start()
        return document

    def delete(self, namespace: str, kind: str, name: str) -> bool:
        """Remove an object and what it owns; a pod is stopped."""
        with self._lock:
            gone = self.objects.pop((namespace, kind, name), None)
            if gone is None:
                return False
            owned = [key for key, each in self.objects.items() if _owned_by(each, gone["metadata"]["uid"])]
            if kind == "pods":
                self._tell("DELETED", gone)
                process = self._processes.pop(name, None)
                if process is not None:
                    _stop(process)
        for key in owned:
            self.delete(*key)
        return True

    def selected(self, namespace: str, kind: str, query: dict[str, str]) -> list[dict[str, Any]]:
        """What a list with selectors holds."""
        with self._lock:
            found = [each for (where, of, _), each in self.objects.items() if (where, of) == (namespace, kind)]
        return [each for each in found if _matches(each, query)]

    def watch(self, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Events of pods, those that are there first."""
        events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        with self._lock:
            for each in self.of_kind("pods"):
                if _matches(each, query):
                    events.put({"type": "ADDED", "object": json.loads(json.dumps(each))})
            self._watchers.append((query, events))
        while (event := events.get()) is not None:
            yield event

    def close(self) -> None:
        """Stop every pod, and whoever watches."""
        with self._lock:
            for _, events in self._watchers:
                events.put(None)
            for process in self._processes.values():
                _stop(process)

    def _tell(self, kind: str, document: dict[str, Any]) -> None:
        for query, events in self._watchers:
            if _matches(document, query):
                events.put({"type": kind, "object": json.loads(json.dumps(document))})

    def _status(self, name: str, phase: str, container: dict[str, Any]) -> None:
        with self._lock:
            for pod in self.of_kind("pods"):
                if pod["metadata"]["name"] == name:
                    self._version += 1
                    pod["metadata"]["resourceVersion"] = str(self._version)
                    ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
                    pod["status"] = {
                        "phase": phase,
                        "podIP": "127.0.0.1",
                        "conditions": [ready],
                        "containerStatuses": [container],
                    }
                    self._tell("MODIFIED", pod)

    def _run(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        home = self.folder / name
        home.mkdir()
        self._mount(pod, home)
        container = pod["spec"]["containers"][0]
        variables = {each["name"]: each.get("value", "127.0.0.1") for each in container["env"]}
        keep = ("PATH", "JAVA_HOME", "SPARK_SUBMIT_OPTS", "LANG", "TZ")
        environment = {key: os.environ[key] for key in keep if key in os.environ} | variables
        environment |= {
            "HOME": str(home),
            "SPARK_HOME": str(_SPARK_HOME),
            "PYSPARK_PYTHON": _PYTHON,
            "SPARK_LOCAL_DIRS": str(home / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(home / "conf"),
        }
        command = _command(container["args"], environment, home)
        with self._lock, (self.folder / f"{name}.log").open("wb") as log:
            if (pod["metadata"]["namespace"], "pods", name) not in self.objects:
                return
            process = subprocess.Popen(
                command, env=environment, cwd=home, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._processes[name] = process
        self._status(name, "Running", {"name": "c", "ready": True, "state": {"running": {}}})
        code = process.wait()
        self.ended(name, code % 256)

    def _mount(self, pod: dict[str, Any], home: Path) -> None:
        (home / "conf").mkdir()
        for volume in pod["spec"]["volumes"]:
            name = volume.get("configMap", {}).get("name")
            if name is None:
                continue
            key = (pod["metadata"]["namespace"], "configmaps", name)
            found = self.until(f"config map {name}", lambda key=key: self.objects.get(key))
            everything = [{"key": key, "path": key} for key in found.get("data", {})]
            for file in volume["configMap"].get("items", everything):
                # The name of the driver's service would be looked up in the cluster's DNS.
                text = re.sub(r"(?m)^(spark\.driver\.host)=.*$", r"\1=127.0.0.1", found["data"][file["key"]])
                (home / "conf" / file["path"]).write_text(text)


def _command(arguments: list[str], environment: dict[str, str], home: Path) -> list[str]:
    """What Spark's image runs."""
    if arguments[0] == "driver":
        given = [each.replace("/opt/spark/conf", str(home / "conf")) for each in arguments[1:]]
        address = environment["SPARK_DRIVER_BIND_ADDRESS"]
        submit = [str(_SPARK_HOME / "bin" / "spark-submit"), "--conf", f"spark.driver.bindAddress={address}"]
        return [*submit, "--deploy-mode", "client", *given]
    environment["SPARK_EXECUTOR_DIRS"] = str(home / "local")
    options = [value for key, value in sorted(environment.items()) if key.startswith("SPARK_JAVA_OPT_")]
    given = {
        "--driver-url": "SPARK_DRIVER_URL",
        "--executor-id": "SPARK_EXECUTOR_ID",
        "--cores": "SPARK_EXECUTOR_CORES",
        "--app-id": "SPARK_APPLICATION_ID",
        "--hostname": "SPARK_EXECUTOR_POD_IP",
        "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "--podName": "SPARK_EXECUTOR_POD_NAME",
    }
    java = str(Path(environment["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in environment else "java"
    backend = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    command = [java, *options, f"-Xmx{environment['SPARK_EXECUTOR_MEMORY']}", "-cp", str(_SPARK_HOME / "jars" / "*")]
    return [*command, backend, *(part for key, name in given.items() for part in (key, environment[name]))]


def _stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _role(document: dict[str, Any]) -> str:
    return str(document["metadata"].get("labels", {}).get("spark-role", ""))


def _owned_by(document: dict[str, Any], uid: str) -> bool:
    return any(owner["uid"] == uid for owner in document["metadata"].get("ownerReferences", []))


def _matches(document: dict[str, Any], query: dict[str, str]) -> bool:
    metadata = document["metadata"]
    labels = metadata.get("labels", {})
    for part in filter(None, query.get("labelSelector", "").split(",")):
        key, sign, value = re.split(r"(!?==?)", part, maxsplit=1)
        if (labels.get(key) == value) is (sign[0] == "!"):
            return False
    name = query.get("fieldSelector", "")
    return not name or name == f"metadata.name={metadata['name']}"


@contextlib.contextmanager
def kubernetes(folder: Path, runs: tuple[str, ...] = ("driver", "executor")) -> Iterator[Kubernetes]:
    """A cluster for a test; what is left of its pods is killed."""
    cluster = Kubernetes(folder, runs)

    class Handler(_Handler):
        of = cluster

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    cluster.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield cluster
    finally:
        cluster.close()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    of: Kubernetes

    def log_message(self, *_: object) -> None:
        """Requests are kept by the cluster."""

    def do_GET(self) -> None:
        namespace, kind, name, query = self._asked()
        if query.get("watch") == "true":
            self._stream(query)
        elif not name:
            self._answer(200, {"kind": "List", "metadata": {}, "items": self.of.selected(namespace, kind, query)})
        else:
            self._answer_object(self.of.objects.get((namespace, kind, name)))

    def do_POST(self) -> None:
        namespace, kind, _, _ = self._asked()
        document = self._document()
        if (namespace, kind, document["metadata"]["name"]) in self.of.objects:
            self._answer(409, {"kind": "Status", "status": "Failure", "code": 409, "reason": "AlreadyExists"})
        else:
            self._answer(201, self.of.put(namespace, kind, document))

    def do_PATCH(self) -> None:
        """Server-side apply sends whole objects; other patches change labels and annotations alone."""
        namespace, kind, name, _ = self._asked()
        document = self._document()
        known = self.of.objects.get((namespace, kind, name))
        if "apply-patch" in str(self.headers["content-type"]) and known is None:
            self._answer(201, self.of.put(namespace, kind, document))
        else:
            self._answer_object(known)

    def do_DELETE(self) -> None:
        namespace, kind, name, query = self._asked()
        self._document()
        names = [name] if name else [e["metadata"]["name"] for e in self.of.selected(namespace, kind, query)]
        done = [self.of.delete(namespace, kind, each) for each in names]
        if name and not all(done):
            self._answer_object(None)
        else:
            self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _asked(self) -> tuple[str, str, str, dict[str, str]]:
        parts = urlsplit(self.path)
        self.of.requests.append((self.command, self.path))
        match = _PATH.fullmatch(parts.path)
        assert match is not None, self.path
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        return match[1], match[2], match[3] or "", query

    def _document(self) -> dict[str, Any]:
        size = int(self.headers["Content-Length"] or 0)
        return dict(json.loads(self.rfile.read(size) or b"{}"))

    def _answer_object(self, found: dict[str, Any] | None) -> None:
        missing = {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}
        self._answer(404 if found is None else 200, missing if found is None else found)

    def _answer(self, code: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, query: dict[str, str]) -> None:
        """Events as lines. A client that asked for a WebSocket asks again without when it gets a plain answer."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if self.headers["upgrade"]:
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            for event in self.of.watch(query):
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
