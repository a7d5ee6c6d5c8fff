#!/usr/bin/env bash
# Fills a virtual environment from requirements/lock.txt. Names what the machine lacks, and how to get it.
set -euo pipefail

venv=${1:?usage: install.sh VENV}
python=${PYTHON:-python3}

fail() { printf 'airflow-hive-acid cannot be installed: %s\n' "$*" >&2; exit 1; }

command -v "$python" >/dev/null || fail "'$python' is not on PATH; install Python 3.11, 3.12 or 3.13, or run make with PYTHON=/path/to/python3"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
  || fail "$python is Python $version; 3.11, 3.12 or 3.13 is needed (make PYTHON=/path/to/python3.11)"
"$python" -c 'import venv, ensurepip' 2>/dev/null \
  || fail "$python has no venv module; on Debian and Ubuntu: apt-get install python3-venv"

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
command -v "$java" >/dev/null || fail "Java is not on PATH and JAVA_HOME is not set; Spark needs Java 17 (Debian: apt-get install openjdk-17-jre-headless)"
# A version line reads: openjdk version "17.0.15" 2025-04-15
major=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\)[."].*/\1/p' | head -n 1)
[ "${major:-0}" -ge 17 ] || fail "$java is Java ${major:-of an unknown version}; Spark needs Java 17 or newer (set JAVA_HOME to one)"

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "Installing into $venv (Python $version, Java $major)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv>=0.5"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes -r requirements/lock.txt
# The Spark provider brings pyspark-client, most of whose files lie at pyspark's own paths: pyspark must be the last.
# With its hash, as before: without one uv builds it anew, and leaves 1.4 GB more in its cache each time.
"$venv/bin/uv" pip uninstall --quiet --python "$venv/bin/python" pyspark
sed -n '/^pyspark==/,/--hash/p' requirements/lock.txt \
  | "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --require-hashes -r -
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --editable .
echo "Installed: $("$venv/bin/python" -c 'import airflow_hive_acid as a, pyspark; print("airflow-hive-acid", a.__version__, "with Spark", pyspark.__version__)')"
