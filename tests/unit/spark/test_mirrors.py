"""What a job of a mirror does with the state that it finds, before it reads or writes anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hive_acid.errors import MirrorRefusedError
from airflow_hive_acid.format.mirrors import MirrorState, SourceTable
from airflow_hive_acid.spark.mirrors import run as mirrors
from airflow_hive_acid.spark.mirrors.targets import Found

SOURCE = SourceTable("w.t", 7, (("id", "int"),), (), 5, "w.t:5:9223372036854775807::")
EVENT, OTHER = [71, 1_700_000_000], [71, 1_700_009_000]


def follow(monkeypatch: pytest.MonkeyPatch, event: list[int] | None, known: list[int] | None, **more: Any) -> Any:
    """A run that may not copy a target which holds write ids up to 5, as of an event."""
    state = MirrorState(SOURCE, (), 4, mirrors.event_of(event))
    target = SimpleNamespace(look=lambda: Found(True, state, 4))
    monkeypatch.setattr(mirrors, "open_target", lambda *_arguments: target)
    job: Any = SimpleNamespace(spark=None, snapshot=lambda _name: None)
    return mirrors.follow(
        job, target="iceberg:c.d.t", source=SOURCE.to_document(), key=None, cleaned={}, partition_ids={}, altered={},
        sequence=4, again=False, refuse=True, event=[99, 1_800_000_000], known=known, **more,
    )  # fmt: skip


@pytest.mark.parametrize(("event", "known"), [(EVENT, EVENT), (None, EVENT), (None, None)])
def test_a_state_that_is_noted_or_tells_of_no_event_is_believed(monkeypatch, event, known):
    assert follow(monkeypatch, event, known)["todo"] == "nothing"


@pytest.mark.parametrize("known", [None, OTHER])
def test_the_event_of_another_state_is_looked_for_first(monkeypatch, known):
    assert follow(monkeypatch, EVENT, known) == {"unknown": tuple(EVENT)}
    assert follow(monkeypatch, EVENT, known, other_log=False)["todo"] == "nothing"
    with pytest.raises(MirrorRefusedError, match="restored from a backup"):
        follow(monkeypatch, EVENT, known, other_log=True)
