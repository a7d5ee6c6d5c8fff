"""What stands for Spark where tables are lists of row ids: the job that carries rows of some write ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.format.jobs import Compact, JobResult, JobSpec, WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import delete_delta_name, delta_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from tests.integration.maintenance.row_tables import _content, _state, _write

if TYPE_CHECKING:
    from airflow_hive_acid.replication.site import RunJob


def row_spark(filesystem: Any) -> RunJob:
    """Runs minor compactions as the Spark job does; the sites share one machine."""

    def run(spec: JobSpec) -> JobResult:
        step = spec.step
        assert isinstance(step, Compact)
        assert step.type == "minor"
        place = step.target.partitions[0]
        ids = ValidWriteIdList.parse(step.target.write_ids).for_compactor()
        state = _state(filesystem, place.location, ids, ValidTxnList.parse(step.target.txns))
        kept = [d for d in state.deltas if d.directory.min_write_id > step.above]
        found: dict[str, list[Any]] = {}
        for make, which in ((delta_name, state.inserts), (delete_delta_name, state.deletes)):
            content = [
                item
                for directory in which
                if directory in kept
                for item in _content(filesystem, place.location, directory)
                if ids.is_valid(int(item[0]))
            ]
            if content:
                name = make(step.above + 1, ids.high_watermark, None, step.visibility_txn_id)
                found[name] = sorted(content)
        written = []
        for name, content in found.items():
            below = f"{place.name}/{name}" if place.name else name
            size = _write(filesystem, f"{spec.staging}/data/{below}", content)
            files = (WrittenFile("bucket_00000", len(content), size),)
            written.append(WrittenDirectory(place.name, (), name, files))
        return JobResult(spec.job_id, "application_1", directories=tuple(written))

    return run
