"""The table of bucket hashes that other tests rely on is what Hive answers today."""

from __future__ import annotations

import json

import pytest

from .hashes import values

pytestmark = pytest.mark.interop


def test_the_recorded_hashes_are_hives() -> None:
    recorded = [json.loads(line) for line in values.TABLE.read_text().splitlines()]
    assert values.ask_hive(values.requests()) == recorded
