"""A streaming application without Spark, and the process that answers it, which can die like one."""

from __future__ import annotations

import threading

from airflow_hive_acid.engine.streams.server import StreamServer
from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.format.jobs.documents import spec_from_json, to_json
from airflow_hive_acid.format.streams import StreamOptions, open_question
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.spark.streaming.channel import Conversation, LocalFiles

WAIT = 60.0
TABLE = "CREATE TABLE {} (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


class Application:
    """What the sink does, without Spark: its micro-batches write one file each.

    :param writes: does what a step does.
    """

    def __init__(self, spool, writes, stream="s", table="w.t", source="q", idle=WAIT, **options):
        self._writes = writes
        self.options = StreamOptions(stream, table, source, view="v", **{"application_id": "app-1", **options})
        self.talk = Conversation(LocalFiles(), spool, idle, is_local=True)
        self.opened = None

    def open(self):
        self.opened = self.talk.open(open_question(self.options))
        return self

    def begin(self, batch, columns=(("a", "int"), ("b", "string")), **told):
        return self.talk.ask({"ask": "begin", "batch": batch, "columns": [list(c) for c in columns], **told})

    def write(self, answer, **told):
        assert answer["is"] == "step"
        result = self._writes.run(spec_from_json(answer["spec"]))
        return {"ask": "result", "result": to_json(result), **told}

    def batch(self, number, columns=(("a", "int"), ("b", "string")), **told):
        answer = self.begin(number, columns, **told)
        return self.talk.ask(self.write(answer, **told)) if answer["is"] == "step" else answer

    def die(self):
        """Ask nothing more, and give no sign of life."""
        self.talk._ended.set()


class Process:
    """A server in a thread, with connections of its own, so that it can die like a process."""

    def __init__(self, url, spool, settings, who="me", several=False, lease=None):
        self.client = MetastoreClient(url, settings)
        self.spool = spool
        self._over = None
        with self.client.leases.under(lease):
            self.server = StreamServer(
                self.client, spool, settings, who, ended=lambda: self._over, idle_seconds=WAIT, several=several
            )
        self.served = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        self.served = self.server.serve()

    def application_died(self):
        self._over = "the streaming application ended with code 137"

    def die(self, _connection=None):
        """From now on it can tell the metastore nothing, and no more answers come."""

        def gone(*_args, **_more):
            raise MetastoreUnavailableError("killed")

        for verb in ("run", "read", "transaction", "reading"):
            setattr(self.client.database, verb, gone)
        self._over = "killed"
        raise MetastoreUnavailableError("killed")

    def stop(self):
        self.server.stop()
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
        self.client.close()
        return self.served


def visible(client, table):
    """Names of the deltas that a reader sees."""
    txns = client.get_valid_txns()
    write_ids = client.get_valid_write_ids(["w.t"], txns)["w.t"]
    deltas = sorted(p.name for p in table.glob("delta_*"))
    return [name for name in deltas if write_ids.is_valid(int(name.split("_")[1]))]
