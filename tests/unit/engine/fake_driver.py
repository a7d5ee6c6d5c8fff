"""Stands in for spark-submit in launcher tests: speaks the spool protocol, does what the query of a select says."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path


def write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def answer(spec: dict, spool: Path) -> dict:
    result = {"version": 1, "job_id": spec["job_id"], "application_id": "local-1"}
    verb, _, rest = spec["step"]["query"].partition(" ")
    if verb == "rows":
        rows = [[i, "x\u2028y"] for i in range(int(rest))]
        Path(spec["step"]["rows_uri"].removeprefix("file://")).write_text("".join(json.dumps(r) + "\n" for r in rows))
        return result | {"rows": len(rows), "columns": [{"name": "n", "type": "int"}, {"name": "t", "type": "string"}]}
    if verb == "fail":
        kind, _, message = rest.partition(" ")
        return result | {"error": {"type": kind, "message": message}}
    if verb == "die":
        sys.stderr.write("java.lang.OutOfMemoryError: Java heap space\n")
        os._exit(int(rest))
    if verb == "die-after-answer":
        subprocess.Popen(["/bin/sh", "-c", f"sleep 0.1; kill -9 {os.getpid()}"])
        return result | {"error": {"type": "JobFailedError", "message": "Connection refused"}}
    if verb == "spawn":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(rest).write_text(str(child.pid))
        time.sleep(600)
    if verb == "sleep":
        Path(rest).write_text(str(os.getpid()))
        time.sleep(600)
    if verb == "slow":
        time.sleep(float(rest))
    if verb == "environment":
        Path(rest).write_text(json.dumps({"argv": sys.argv, "environment": dict(os.environ), "properties": PROPERTIES}))
        return result
    if verb == "other-job":
        return result | {"job_id": "somebody-else"}
    if verb == "unknown-field":
        return result | {"surprise": 1}
    return result


def say_here(spool: Path) -> None:
    number = 0
    while True:
        number += 1
        write(spool / "here", str(number))
        time.sleep(0.02)


arguments = sys.argv[1:]
properties_file = Path(arguments[arguments.index("--properties-file") + 1])
PROPERTIES = properties_file.read_text()
if "FAKE_START_FAILS" in os.environ:
    sys.stderr.write("first line\nException in thread main: no such master\n")
    sys.exit(3)
spool = Path(arguments[arguments.index("--spool") + 1].removeprefix("file://"))
if "FAKE_OUTLIVED" in os.environ and "FAKE_CHILD" not in os.environ:
    # As a spark-submit that hangs in its end: whatever becomes of the driver, the program stays.
    subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "FAKE_CHILD": "1"}).wait()
    time.sleep(600)
threading.Thread(target=say_here, args=(spool,), daemon=True).start()
if os.environ.get("FAKE_DIES") == "starting":
    time.sleep(0.1)
    os.kill(os.getpid(), 9)
if "FAKE_NEVER_READY" in os.environ:
    time.sleep(600)
version = os.environ.get("FAKE_SPARK_VERSION", "4.3.0")
write(spool / "ready.json", json.dumps({"application_id": "local-1", "spark_version": version, "pid": os.getpid()}))
number = 0
while not (spool / "close").exists():
    path = spool / f"{number + 1:04d}.spec.json"
    if not path.exists():
        time.sleep(0.002)
        continue
    number += 1
    if os.environ.get("FAKE_DIES") == "running":
        os.kill(os.getpid(), 9)
    write(spool / f"{number:04d}.result.json", json.dumps(answer(json.loads(path.read_text()), spool)))
    if os.environ.get("FAKE_DIES") == "answered":
        os.kill(os.getpid(), 9)
if os.environ.get("FAKE_DIES") == "closing":
    os.kill(os.getpid(), 9)
if "FAKE_NEVER_LEAVES" in os.environ:
    time.sleep(600)
