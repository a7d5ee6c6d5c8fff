"""Files of tests that share something dear are taken by one worker, as long as others have other work."""

from __future__ import annotations

from tests.scheduling import KINDS, REST, kind_of, next_file

FILES = [
    "tests/acceptance/test_kill.py",
    "tests/acceptance/test_sql.py",
    "tests/integration/airflow/test_demo.py",
    "tests/integration/engine/test_plans.py",
    "tests/integration/spark/read/test_select.py",
    "tests/integration/spark/write/test_merge.py",
    "tests/integration/sql/test_views.py",
    "tests/unit/test_docs.py",
    "examples/test_orders_dag.py",
]


def taken(workers: int) -> list[list[str]]:
    """What each worker takes if all files last equally long."""
    waiting, files = [*FILES], [[] for _ in range(workers)]
    while waiting:
        for number in range(workers):
            if waiting:
                file = next_file(number, workers, waiting)
                files[number].append(file)
                waiting.remove(file)
    return files


def test_every_file_is_taken_once_by_any_number_of_workers() -> None:
    for workers in range(1, 7):
        assert sorted(file for files in taken(workers) for file in files) == sorted(FILES)


def test_each_kind_begins_with_a_worker_of_its_own_and_the_fourth_with_the_rest() -> None:
    assert [kind_of(files[0]) for files in taken(4)] == [*KINDS, REST]


def test_who_has_none_of_his_own_takes_the_rest_before_what_others_share() -> None:
    assert next_file(0, 4, ["tests/acceptance/test_sql.py", "tests/unit/test_docs.py"]) == "tests/unit/test_docs.py"


def test_what_others_share_is_taken_from_its_end() -> None:
    waiting = [file for file in FILES if kind_of(file) in ("application", "session")]
    assert next_file(3, 4, waiting) == "tests/integration/sql/test_views.py"


def test_two_workers_have_all_kinds_between_them() -> None:
    first, second = taken(2)
    assert [kind_of(file) for file in first[:3]] == ["session", "session", "airflow"]
    assert [kind_of(file) for file in second[:3]] == ["application"] * 3
