# The commands of the README. Everything runs from .venv/, which `make install` fills from the committed lock.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JAR    := airflow_hive_acid/jars/.built
CLASSES := build/spark-classes.jsa
export PATH := $(abspath $(BIN)):$(PATH)
# Airflow and Spark start Python many times: without cached bytecode each start compiles thousands of files again.
unexport PYTHONDONTWRITEBYTECODE
# Tests of one file stay together, and a worker keeps to files that share what it has started (tests/scheduling.py). Many
# tests wait, for a lease to end or for a process to start, so there are more workers than two cores.
PARALLEL ?= -n 4 --dist loadfile --no-loadscope-reorder
# A server of MariaDB or MySQL for each worker is more than two cores bear: clients would wait for longer than they allow.
PARALLEL_SERVERS ?= -n 2 --dist loadfile
# Layers with servers of their own have targets of their own.
HERE := "not mirror and not interop and not storage and not cluster and not zookeeper and not live and not browser and not corpus"

.PHONY: histories install accelerator accelerators dist demo test test-unit test-mariadb test-mysql test-object-store test-zookeeper test-airflow bench-peers test-interop test-interop-long test-programs test-programs-long mutants soak mariadb libaio ui test-browser chromium lint format bench clean lock help

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make install        create .venv/ with everything, hive-acid and airflow included
install: $(STAMP) $(JAR)

$(STAMP): requirements/lock.txt pyproject.toml scripts/install.sh
	@PYTHON=$(PYTHON) bash scripts/install.sh $(VENV)
	@touch $@

## make accelerator    the optional jar that makes Spark jobs cheaper; part of install where a Java compiler is found
accelerator: $(JAR)

## make accelerators   that jar for each supported Spark, as a release has them (needs Maven, about 130 MB for each)
accelerators: $(STAMP)
	@$(BIN)/python scripts/build_accelerator.py --all

$(JAR): $(STAMP) scripts/build_accelerator.py airflow_hive_acid/__init__.py $(shell find accelerator -name '*.java')
	@$(BIN)/python scripts/build_accelerator.py --if-javac
	@mkdir -p $(@D) && touch $@

## make dist           the sdist and the wheel of a release in dist/, with the jars (needs a JDK 17 and Maven)
dist: install accelerators
	@$(BIN)/python -m build --no-isolation

## make demo           real flights through a DAG: load, change, compact, clean, check
demo: install
	@$(BIN)/python scripts/run_dag.py hive_acid_demo

# Spark's classes as an archive: with it a short Spark of the tests costs two thirds of the CPU.
$(CLASSES): $(STAMP) scripts/class_archive.py
	@$(BIN)/python scripts/class_archive.py $@

## make test           unit, integration and acceptance tests on SQLite and PostgreSQL, with real Spark jobs and DAG runs
test: install $(CLASSES)
	@$(BIN)/python -m pytest -q -m "not story and not crossing and "$(HERE) $(PARALLEL)

## make test-crossings  features that meet: every kind of table x whatever is done to it x who dies, with real Sparks and DAGs
.PHONY: test-crossings
test-crossings: install $(CLASSES)
	@$(BIN)/python -m pytest -q -m "crossing and not story and "$(HERE) $(PARALLEL)

## make test-stories   examples, demos, the README's DAG, a standalone cluster, Kubernetes: each as a whole, as users run it
.PHONY: test-stories
test-stories: install $(CLASSES)
	@$(BIN)/python -m pytest -q -m "story and "$(HERE) $(PARALLEL)

## make test-all       the same with every test on both databases, what repeats a rule, all examples, and Sparks that compile
.PHONY: test-all
WHOLE := --every-database --repetitions --compiled
test-all: install $(CLASSES)
	@$(BIN)/python -m pytest -q $(WHOLE) -m $(HERE) $(PARALLEL)

## make coverage       make test under coverage: lines and branches of the package, other processes included (TESTS="tests/unit")
.PHONY: coverage
coverage: install $(CLASSES)
	@rm -rf build/coverage && mkdir -p build/coverage
	@status=0; $(BIN)/python -m coverage run -m pytest -q -m $(HERE) $(PARALLEL) $(TESTS) || status=$$?; \
	  $(BIN)/python -m coverage combine -q && $(BIN)/python -m coverage report > build/coverage/report.txt; \
	  sed -n '1p;$$p' build/coverage/report.txt; echo "by file: build/coverage/report.txt"; exit $$status

## make test-postgresql  what make test runs on SQLite alone, without Spark and Airflow, on PostgreSQL
.PHONY: test-postgresql
test-postgresql: install
	@$(BIN)/python -m pytest -q --backend postgresql -k postgresql -m "not every_database and not spark" $(PARALLEL) \
	  $(addprefix tests/integration/,engine maintenance replication mirrors cli) \
	  $(addprefix tests/integration/metastore/,cache catalog database listing replica) tests/unit/airflow tests/unit/engine

## make ui             Airflow with the page "Hive ACID", the demo's data and work that goes on; Ctrl-C stops it (PORT=8080)
ui: install
	@$(BIN)/python scripts/ui.py $(if $(PORT),--port $(PORT))

## make test-browser   the page in a real Chromium (Debian's package chromium), in an Airflow of its own
test-browser: install chromium
	@$(BIN)/python -m pytest -q -m browser --durations 5 tests/browser

## make test-unit      the part that needs neither Spark nor Airflow
test-unit: install
	@$(BIN)/python -m pytest -q tests/unit -m "not spark and not airflow and not interop"

## make test-mariadb   everything that needs a metastore but no Spark, on MariaDB (Debian's package mariadb-server)
MARIADB_TESTS := tests/integration/metastore tests/integration/maintenance tests/integration/cli
test-mariadb: install mariadb
	@$(BIN)/python -m pytest -q --backend mariadb -m "not spark and not airflow and not interop" $(PARALLEL_SERVERS) $(MARIADB_TESTS)

## make test-mysql     the same on MySQL 8 (its server is fetched by Maven; needs Debian's package libaio1)
test-mysql: install libaio
	@$(BIN)/python -m pytest -q --backend mysql -m "not spark and not airflow and not interop" $(PARALLEL_SERVERS) $(MARIADB_TESTS)

## make histories      20,000 txns of processes that are killed, on servers that crash, checked for anomalies (TXNS=…)
TXNS ?= 20000
histories: install mariadb
	@$(BIN)/python -m tests.histories.run --txns $(TXNS) $(if $(SEED),--seed $(SEED))

## make test-object-store  tables on an S3 server (s3a://) and on an HDFS, both started by the tests (needs Maven)
test-object-store: install $(CLASSES)
	@$(BIN)/python -m pytest -q -m storage tests/storage

## make test-object-store-spark  the uploads to S3 with the Hadoop of another Spark (SPARK=3.5.9; needs Maven)
.PHONY: test-object-store-spark
SPARK ?= 3.5.9
SPARK_SITE = $(abspath build/sparks/$(SPARK))
test-object-store-spark: install
	@$(BIN)/python scripts/spark_environment.py $(SPARK)
	@SPARK_HOME=$(SPARK_SITE)/pyspark PYTHONPATH=$(SPARK_SITE) SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1" \
	  $(BIN)/python -m pytest -q -m storage tests/storage/test_uploads.py tests/storage/test_object_store.py \
	  tests/storage/test_object_store_faults.py

## make test-mirror    mirrors in Iceberg (Hadoop and JDBC catalogs) and Delta, on a Spark 4.1 of its own (needs Maven)
.PHONY: test-mirror
MIRROR_SITE := $(abspath build/mirror/site)
test-mirror: install
	@$(BIN)/python scripts/mirror_environment.py
	@SPARK_HOME=$(MIRROR_SITE)/pyspark PYTHONPATH=$(MIRROR_SITE) SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1" \
	  $(BIN)/python -m pytest -q --backend sqlite -m mirror --durations 5 tests/mirror

## make test-cluster   Spark on YARN, and an HDFS with one and two name nodes, under Kerberos (needs Maven; Debian's krb5-kdc, krb5-user, libkrb5-dev)
.PHONY: test-cluster kerberos
test-cluster: install kerberos
	@test -f build/kerberos/.installed || { $(BIN)/python -m pip --quiet install --upgrade --target build/kerberos --no-deps requests-kerberos pyspnego gssapi krb5 decorator && touch build/kerberos/.installed; }
	@PYTHONPATH=build/kerberos $(BIN)/python -m pytest -q --backend sqlite -m cluster --durations 5 tests/cluster

## make test-zookeeper  the locks of the Hive Concurrency Model on a ZooKeeper of its own on loopback (its jars are Spark's)
test-zookeeper: install
	@$(BIN)/python -m pytest -q --backend sqlite -m zookeeper tests/zookeeper

## make test-sqlglot    reading SQL with the compiled form of sqlglot, which some environments have (sqlglot[c])
.PHONY: test-sqlglot
test-sqlglot: install
	@test -d build/sqlglotc || $(BIN)/python -m pip --quiet install --target build/sqlglotc --no-deps \
	  $$($(BIN)/python -c "from importlib.metadata import version as v; print('sqlglot==' + v('sqlglot'), 'sqlglotc==' + v('sqlglot'))")
	@PYTHONPATH=build/sqlglotc $(BIN)/python -c "import sqlglot.parser as p; assert not p.__file__.endswith('.py'), p.__file__"
	@PYTHONPATH=build/sqlglotc $(BIN)/python -m pytest -q $(PARALLEL) -m "not spark" tests/unit/sql

## make test-airflow   a whole Airflow in processes of its own, which are killed one after the other (three minutes)
test-airflow: install $(CLASSES)
	@$(BIN)/python -m pytest -q --backend postgresql -m live --durations 5 tests/live

## make test-interventions  who intervenes x what a writer is doing x kinds of tables: every cell; make test has every pair
.PHONY: test-interventions
test-interventions: install
	@$(BIN)/python -m pytest -q --interventions whole tests/integration/interventions

## make test-interop   the same tables and the same metastore shared with a real Apache Hive 4 (needs Maven)
test-interop: install $(CLASSES) mariadb
	@$(BIN)/python -m pytest -q -m interop --ignore tests/interop/hive3 tests/interop

## make test-interop-hive3  the same metastore and tables shared with a real Apache Hive 3.1.3 (needs Maven)
.PHONY: test-interop-hive3
test-interop-hive3: install $(CLASSES)
	@$(BIN)/python -m pytest -q -m interop tests/interop/hive3

## make test-schemas   the metastore's tests on schemas of Hive 3.1.0 and of a CDP; schema check on those of all versions (needs Maven)
.PHONY: test-schemas
test-schemas: install mariadb libaio
	@$(BIN)/python -m pytest -q --backend postgresql --backend mariadb --backend mysql tests/interop/metastore/test_versions_of_schemas.py
	@$(BIN)/python -m pytest -q --schema 3.1 -m "not spark and not airflow and not interop" $(PARALLEL) tests/integration/metastore
	@$(BIN)/python -m pytest -q --schema cdp -m "not spark and not airflow and not interop" $(PARALLEL) tests/integration/metastore

## make test-interop-long   300 random programs shared with that Hive, half an hour or more (PROGRAMS=100: so many)
PROGRAMS ?= 300
test-interop-long: install
	@$(BIN)/python -m pytest -q -m interop --programs $(PROGRAMS) --durations 10 tests/interop/test_programs.py

## make mutants        mutation testing of the pure rooms, on one core at low priority (ROOMS="maintenance format": these)
mutants: install
	@$(BIN)/python scripts/mutants.py $(ROOMS) $(if $(SHOW),--show)

## make soak           the maintenance DAGs in a real Airflow under a writer and readers (MINUTES=10)
soak: MINUTES = 10
soak: install
	@$(BIN)/python scripts/soak.py --minutes $(MINUTES)

## make test-crashes   every statement stopped in front of each of its effects, killed or asleep, and tried again
test-crashes: install
	@$(BIN)/python -m pytest -q -rP --crashes-every 1 $(PARALLEL) tests/integration/engine/crashes/test_crash_matrix.py tests/integration/spark/jobs/test_service_crashes.py

## make test-programs  40 random programs of DML and 10 of kinds of tables and DDL, beside plain models in Python; make test has 4 and 1
TABLE_PROGRAMS := tests/integration/sql/random_tables
test-programs: install $(CLASSES)
	@$(BIN)/python -m pytest -q --backend sqlite --programs 40 tests/integration/sql/test_random_programs.py
	@$(BIN)/python -m pytest -q --backend sqlite --programs 10 $(TABLE_PROGRAMS)

## make test-programs-long  200 of each (PROGRAMS=500: so many)
test-programs-long: PROGRAMS = 200
test-programs-long: install
	@$(BIN)/python -m pytest -q --backend sqlite --programs $(PROGRAMS) tests/integration/sql/test_random_programs.py $(TABLE_PROGRAMS)

## make test-corpus    everyday statements and TPC-H beside plain Spark, all of them (CORPUS=small for a few of each kind)
.PHONY: test-corpus
CORPUS ?= whole
test-corpus: install $(CLASSES)
	@$(BIN)/python -m pytest -q --corpus $(CORPUS) --durations 5 tests/acceptance/corpus

## make simulate       the whole control plane in one thread, everything that can die dying, by seeds (SEEDS=0-999)
.PHONY: simulate
SEEDS ?= 0-999
simulate: install
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.simulation.run --seeds $(SEEDS)

## make simulate-sql   the same with statements that the engine runs: tried again, under leases, in txns of several tasks (SEEDS=0-199)
.PHONY: simulate-sql
simulate-sql: SEEDS = 0-199
simulate-sql: install
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.simulation.run --sql --seeds $(SEEDS)

## make fuzz           what strangers can write, changed at random, into everything that reads it (SECONDS=60 a target)
.PHONY: fuzz
fuzz: SECONDS = 60
fuzz: install
	@$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS) $(if $(FIRST),--first $(FIRST))

## make test-matrix    the tests with other versions of Python, Airflow and Spark, an environment for each (CELLS="lowest")
.PHONY: test-matrix
test-matrix: install $(CLASSES)
	@$(BIN)/python scripts/test_matrix.py $(CELLS)

## make test-matrix-ends  the lowest and the highest of them, a few tests in each
.PHONY: test-matrix-ends
test-matrix-ends: install
	@$(BIN)/python scripts/test_matrix.py --short lowest highest

# A browser for test-browser; as root it is installed.
chromium:
	@command -v chromium >/dev/null || [ -n "$$HIVE_ACID_CHROMIUM" ] || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { \
	    echo "chromium is missing: install Debian's package chromium (sudo apt-get install chromium), or name another one in HIVE_ACID_CHROMIUM" >&2; \
	    exit 1; }; \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; }

# A server for test-mariadb and test-interop; as root it is installed.
mariadb:
	@PATH="$$PATH:/usr/sbin"; command -v mariadbd >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { \
	    echo "mariadbd is missing: install Debian's package mariadb-server (sudo apt-get install mariadb-server)" >&2; \
	    exit 1; }; \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends mariadb-server; }

# The realm of test-cluster, and what its Python client is compiled with; as root they are installed.
kerberos:
	@PATH="$$PATH:/usr/sbin:/sbin"; command -v krb5kdc >/dev/null && command -v kadmin.local >/dev/null && command -v kinit >/dev/null && command -v krb5-config >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { \
	    echo "Kerberos is missing: install Debian's packages krb5-kdc, krb5-admin-server, krb5-user and libkrb5-dev" >&2; \
	    exit 1; }; \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends krb5-kdc krb5-admin-server krb5-user libkrb5-dev; }

# What the MySQL of test-mysql is linked with; as root it is installed.
libaio:
	@PATH="$$PATH:/usr/sbin:/sbin"; ldconfig -p | grep -q 'libaio\.so\.1 ' || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { \
	    echo "libaio.so.1 is missing: install Debian's package libaio1 (sudo apt-get install libaio1)" >&2; \
	    exit 1; }; \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends libaio1; }

## make lint           ruff, mypy --strict, the arrows between rooms, no SQL made from strings
lint: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_sql.py airflow_hive_acid

## make format         let ruff reformat and sort
format: install
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

## make docs           the documentation as a site, build/site/index.html, with search; a broken link fails
DOCS_VENV := .venv-docs
.PHONY: docs
docs: $(DOCS_VENV)/.installed
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict
	@echo "build/site/index.html is there; for the search, too: python3 -m http.server --directory build/site"

# Apart from .venv/, so that who only runs tests does not install it. What mermaidx depends on is not locked: only its script is used.
$(DOCS_VENV)/.installed: requirements/docs.txt
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements/docs.txt
	@touch $@

## make bench          the figures of docs/explanation/performance.md (a quiet machine and an hour)
bench: install
	@$(BIN)/python benchmarks/dml.py
	@$(BIN)/python benchmarks/compaction.py
	@$(BIN)/python benchmarks/read.py
	@$(BIN)/python benchmarks/control_plane.py
	@$(BIN)/python benchmarks/leases.py
	@$(BIN)/python benchmarks/operators.py
	@$(BIN)/python benchmarks/service.py
	@$(BIN)/python benchmarks/fleet.py
	@$(BIN)/python benchmarks/dag_parsing.py
	@$(BIN)/python benchmarks/replication.py

## make bench-peers    the same work by Delta Lake and Iceberg, in an environment of their own (needs Maven)
bench-peers: install
	@$(BIN)/python benchmarks/peers.py
	@$(BIN)/python benchmarks/mirrors.py

## make bench-guard    a few minutes of benchmarks beside the ratios in benchmarks/guard.json; fails beyond a quarter
.PHONY: bench-guard
bench-guard: install
	@$(BIN)/python benchmarks/guard.py

## make lock           resolve the dependencies anew
lock:
	@$(BIN)/uv pip compile -q --universal --generate-hashes --python-version 3.11 --extra dev pyproject.toml \
	  --no-emit-package airflow-hive-acid --no-emit-index-url --no-emit-find-links --no-header --no-annotate -o requirements/lock.txt --upgrade
	@$(BIN)/uv pip compile -q --universal --generate-hashes --python-version 3.11 requirements/docs.in \
	  --no-emit-package novasvg --no-emit-package quickjs-ng --no-emit-package termaid \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate -o requirements/docs.txt --upgrade

## make clean          remove what the other targets made, .venv/ excepted
clean:
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse
