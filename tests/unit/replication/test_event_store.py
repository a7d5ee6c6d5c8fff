"""The event store: a log in files that goes on after every crash and forgets nothing that somebody has yet to read."""

from __future__ import annotations

import contextlib
import json
import uuid
import zlib
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import CorruptEventStoreError, InvalidArgumentsError, ReplicationGapError
from airflow_hive_acid.filesystem import AnyFilesystem, open_filesystem
from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.metastore.notifications.log import LoggedEvent
from airflow_hive_acid.replication.events.event import EventSource, read_after
from airflow_hive_acid.replication.events.segments import Segment, chain, decode_segment, encode_segment, to_merge
from airflow_hive_acid.replication.events.store import EventStore
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterable


def event(event_id: int, time: int | None = None) -> LoggedEvent:
    text = json.dumps({"é\n": event_id})
    database = "d" if event_id % 2 else None
    return LoggedEvent(event_id, event_id if time is None else time, "INSERT", "hive", database, None, text, "json-0.2")


def events(first: int, last: int) -> list[LoggedEvent]:
    return [event(i) for i in range(first, last + 1)]


class Log:
    """A metastore's log, whose beginning can be purged."""

    def __init__(self, last: int) -> None:
        self.all = events(1, last)
        self.first = 1

    def events_after(self, event_id: int, limit: int = 1000) -> list[LoggedEvent]:
        return [e for e in self.all if e.event_id > max(event_id, self.first - 1)][:limit]

    def current_event_id(self) -> int:
        return len(self.all)

    def first_event_id(self) -> int:
        return self.first


class Power:
    """Goes off: the n-th change of the filesystem from now on does not happen, and none after it."""

    def __init__(self) -> None:
        self.left: int | None = None

    def use(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1


class Dying(LocalFilesystem):
    """A local filesystem that ends where the power does."""

    def __init__(self, power: Power) -> None:
        self._power = power

    def rename(self, source: str, target: str) -> None:
        self._power.use()
        super().rename(source, target)

    def delete(self, uri: str, *, inside: str) -> bool:
        self._power.use()
        return super().delete(uri, inside=inside)

    def write_text(self, uri: str, text: str) -> None:
        self._power.use()
        super().write_text(uri, text)

    def open_output(self, uri: str) -> BinaryIO:
        self._power.use()
        return super().open_output(uri)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return (tmp_path / "deep" / "store").as_uri()


def store(root: str, size: int = 4) -> EventStore:
    return EventStore(AnyFilesystem(), root, segment_events=size)


def ids(found: Iterable[LoggedEvent]) -> list[int]:
    return [e.event_id for e in found]


def segments(root: str) -> list[tuple[int, int]]:
    names = [path.name for path in Path(root.removeprefix("file://")).iterdir()]
    return sorted((s.first, s.last) for name in names if (s := Segment.parse(name)) is not None)


def file(root: str, first: int, last: int) -> Path:
    return Path(root.removeprefix("file://")) / Segment(first, last).name


# --- reading and writing ---


def test_an_empty_store_is_a_source_without_events(root: str) -> None:
    empty = store(root)
    assert isinstance(empty, EventSource)
    assert (empty.first_event_id(), empty.current_event_id(), empty.events_after(0)) == (1, 0, [])
    assert read_after(empty, 0) == []
    assert (empty.readers(), empty.repair(), empty.purge(10**12)) == ({}, None, 0)


def test_a_store_into_which_nothing_was_copied_is_as_far_as_its_source(root: str) -> None:
    log = Log(5)
    log.first = 6
    empty = store(root)
    for after in (None, 5, 3):
        assert empty.copy_from(log, after=after, upto=None if after is None else after) == 0
        assert empty.first_event_id() - 1 == empty.current_event_id() == (5 if after is None else after)
    log.all += [event(6)]
    assert empty.copy_from(log) == 1
    assert (empty.first_event_id(), empty.current_event_id()) == (6, 6)


def test_events_come_back_as_they_were_from_any_position(root: str) -> None:
    made = store(root)
    made.append(events(1, 3))
    made.append(events(4, 13))
    assert segments(root) == [(1, 3), (4, 7), (8, 11), (12, 13)]
    assert made.events_after(0) == events(1, 13)
    for position in range(14):
        assert made.events_after(position, 5) == events(position + 1, 13)[:5]
        assert read_after(store(root), position, 3) == events(position + 1, 13)[:3]
    assert (made.first_event_id(), made.current_event_id()) == (1, 13)


def test_a_copy_goes_on_where_the_last_one_ended(root: str) -> None:
    log = Log(10)
    assert store(root).copy_from(log, upto=3) == 3
    assert store(root).copy_from(log) == 7
    log.all += events(11, 12)
    assert store(root).copy_from(log) == 2
    assert store(root).copy_from(log) == 0
    log.first = 13  # the metastore forgets, the store does not
    assert store(root).copy_from(log) == 0
    assert ids(read_after(store(root), 0)) == list(range(1, 13))


def test_a_store_begins_with_the_oldest_event_of_its_source_or_where_it_is_told_to(root: str) -> None:
    log = Log(10)
    log.first = 6
    made = store(root)
    assert made.copy_from(log, upto=8) == 3
    assert (made.first_event_id(), made.current_event_id()) == (6, 8)
    with pytest.raises(ReplicationGapError, match="oldest event that the source still has is 6"):
        read_after(made, 2)
    later = EventStore(LocalFilesystem(), root + "2")
    assert later.copy_from(log, after=8) == 2
    assert ids(later.events_after(0)) == [9, 10]


def test_events_that_the_source_purged_before_they_were_copied_are_a_gap(root: str) -> None:
    log = Log(10)
    store(root).copy_from(log, upto=3)
    log.first = 6
    with pytest.raises(ReplicationGapError, match="2 events were purged"):
        store(root).copy_from(log)
    assert store(root).current_event_id() == 3


def test_events_are_added_once_and_without_holes(root: str) -> None:
    made = store(root)
    made.append(events(5, 7))
    for again in (events(7, 8), events(5, 7), [event(8), event(8)]):
        with pytest.raises(InvalidArgumentsError, match=r"is in the event store .* already"):
            made.append(again)
    with pytest.raises(ReplicationGapError, match="events 8 to 8 are missing before event 9"):
        made.append(events(9, 10))
    with pytest.raises(ReplicationGapError, match="events 9 to 9 are missing"):
        made.append([event(8), event(10)])
    assert made.events_after(0) == events(5, 7), "nothing of what was refused"
    made.append([])
    made.append(events(8, 8))
    assert made.current_event_id() == 8


def test_two_metastores_do_not_share_a_store(root: str) -> None:
    store(root).copy_from(Log(5))
    other = Log(9)
    other.all[4] = event(5, time=77)
    with pytest.raises(InvalidArgumentsError, match=r"event 5 .* of second 5, the source's is INSERT of second 77"):
        store(root).copy_from(other)
    assert store(root).current_event_id() == 5


def test_segments_need_room(root: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="segments of 0 events"):
        EventStore(LocalFilesystem(), root, segment_events=0)


def test_many_small_copies_do_not_leave_many_files(root: str) -> None:
    log = Log(0)
    made = store(root, size=50)
    for number in range(1, 121):
        log.all += events(number, number)
        made.copy_from(log)
    assert len(segments(root)) <= 2 + 16
    assert store(root).events_after(0) == events(1, 120)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_two_who_copy_at_once_do_no_harm(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """
    t1  A and B see the store end at event n
    t2  A writes n+1..a, B writes n+1..b, in any order
    """
    random = Random(seed)
    root = tmp_path_factory.mktemp("two").as_uri()
    log = Log(30)
    while store(root).current_event_id() < 30:
        before = store(root).current_event_id()
        for _ in range(2):  # both have seen `before`, whatever the other did meanwhile
            upto = random.randint(before + 1, 30)
            store(root, random.choice((2, 5, 40)))._publish(log.all[before:upto])
        if random.random() < 0.3:
            store(root, 10)._merge()
        assert store(root).events_after(0) == events(1, store(root).current_event_id())
    assert store(root).copy_from(log) == 0


# --- crashes ---


def test_what_a_crash_cut_off_is_seen_put_aside_and_copied_again(root: str) -> None:
    log = Log(8)
    store(root).copy_from(log)
    torn = file(root, 5, 8)
    torn.write_bytes(torn.read_bytes()[:-30])
    assert store(root).events_after(0) == events(1, 7), "readers see what is good"
    assert store(root).current_event_id() == 7
    done = store(root).repair()
    assert done is not None
    assert (done.kept, done.lost) == (7, range(8, 9))
    assert (torn.parent / done.aside).exists()
    assert store(root).repair() is None
    log.first = 8
    assert store(root).copy_from(log) == 1
    assert store(root).events_after(0) == events(1, 8)


@pytest.mark.parametrize("damage", ["empty", "zeros", "half", "flipped", "longer"])
def test_however_the_end_is_broken_the_store_goes_on(root: str, damage: str) -> None:
    log = Log(12)
    store(root).copy_from(log, upto=8)
    torn = file(root, 5, 8)
    content = torn.read_bytes()
    broken = {
        "empty": b"", "zeros": bytes(len(content)), "half": content[: len(content) // 2],
        "flipped": content.replace(b"hive", b"hIve", 1), "longer": content + content,
    }[damage]  # fmt: skip
    torn.write_bytes(broken)
    good = {"half": 6, "longer": 8}.get(damage, 4)
    assert store(root).events_after(0) == events(1, good)
    assert read_after(store(root), good) == []
    store(root).copy_from(log)
    assert store(root).events_after(0) == events(1, 12)


def test_a_first_segment_of_which_nothing_is_good_leaves_an_empty_store(root: str) -> None:
    log = Log(3)
    store(root).copy_from(log)
    file(root, 1, 3).write_bytes(b"")
    assert (store(root).current_event_id(), store(root).events_after(0)) == (0, [])
    assert store(root).copy_from(log) == 3
    assert store(root).events_after(0) == events(1, 3)


def test_a_broken_segment_does_not_hide_a_whole_one_that_reaches_further(root: str) -> None:
    """Two copied at once, and the machine stopped: one wrote 1 to 6, the other 1 to 4."""
    made = store(root, size=10)
    made._publish(events(1, 6))
    made._publish(events(1, 4))
    torn = file(root, 1, 6)
    torn.write_bytes(torn.read_bytes()[:50])
    assert store(root).current_event_id() == 4
    assert store(root).events_after(1) == events(2, 4)
    assert store(root).copy_from(Log(9)) == 5
    assert store(root).events_after(0) == events(1, 9)


def test_a_segment_broken_in_the_middle_is_no_crash_and_stops_everybody(root: str) -> None:
    store(root).copy_from(Log(12))
    middle = file(root, 5, 8)
    middle.write_bytes(middle.read_bytes()[:-1])
    assert ids(store(root).events_after(0, 4)) == [1, 2, 3, 4]
    with pytest.raises(CorruptEventStoreError, match=r"is broken after event 7 of 8, and later events follow"):
        store(root).events_after(0)


def test_a_segment_that_is_gone_is_a_hole_and_stops_everybody(root: str) -> None:
    store(root).copy_from(Log(12))
    file(root, 5, 8).unlink()
    for use in (lambda: store(root).events_after(0), lambda: store(root).copy_from(Log(13))):
        with pytest.raises(CorruptEventStoreError, match="no events 5 to 8"):
            use()


def test_a_copy_that_is_killed_at_any_step_is_completed_by_the_next(tmp_path: Path) -> None:
    log = Log(23)
    for steps in range(200):
        root = (tmp_path / f"killed{steps}").as_uri()
        power = Power()
        first = EventStore(Dying(power), root, segment_events=3)
        power.left = steps
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("airflow_hive_acid.replication.events.store.MERGE_FROM", 2)
            try:
                for upto in (1, 2, 3, 4, 9, 10, 11, 23):
                    first.copy_from(log, upto=upto)
            except KeyboardInterrupt:
                pass
            seen = store(root).events_after(0)
            assert seen == events(1, len(seen))
            store(root).copy_from(log)
            assert store(root).events_after(0) == events(1, 23)
        if power.left:
            assert steps > 15
            return
    pytest.fail("the copy never came to its end")


# --- readers and retention ---


def test_nothing_is_deleted_that_a_registered_reader_has_not_read(root: str) -> None:
    made = store(root)
    made.copy_from(Log(20))
    assert made.purge(before=1000) == 0, "nobody is registered: nobody is known to be done"
    made.register("a", 9)
    made.register("b", 14)
    assert made.readers() == {"a": 9, "b": 14}
    assert made.purge(before=1000) == 8
    assert (made.first_event_id(), ids(read_after(store(root), 9, 2))) == (9, [10, 11])
    made.register("a", 20)
    assert made.purge(before=13) == 4, "events of second 13 and later stay"
    assert made.unregister("b")
    assert not made.unregister("b")
    assert made.purge(before=1000) == 4
    assert made.first_event_id() == 17, "the last segment stays: it says where the store ends"
    assert store(root).copy_from(Log(21)) == 1


def test_a_reader_whose_events_are_gone_is_told_so_when_it_registers(root: str) -> None:
    made = store(root)
    made.copy_from(Log(20))
    made.register("a", 12)
    made.purge(before=1000)
    with pytest.raises(ReplicationGapError, match=r"reader 'late' is at event 3, the oldest event .* is 13"):
        made.register("late", 3)
    assert made.readers() == {"a": 12}
    made.register("late", 12)


def test_a_reader_does_not_go_back(root: str) -> None:
    made = store(root)
    made.copy_from(Log(20))
    made.register("a", 12)
    made.register("a", 12)
    with pytest.raises(InvalidArgumentsError, match=r"is at event 12; it cannot go back to 11"):
        made.register("a", 11)
    for name, position in (("../x", 1), ("", 1), ("a/b", 1), ("a", -1)):
        with pytest.raises(InvalidArgumentsError, match="a name has up to 128 letters"):
            made.register(name, position)
    assert not made.unregister("../x")


def test_a_reader_that_registers_while_a_purge_is_at_work_is_refused_or_kept_for(root: str) -> None:
    """
    t1  purge has written down that it deletes up to event 12
    t2                            a reader registers at event 3
    t3  purge looks for readers
    """
    made = store(root)
    made.copy_from(Log(20))
    made.register("a", 12)
    readers, asked = made.readers, []

    def meanwhile() -> dict[str, int]:
        asked.append(True)
        if len(asked) == 2:  # the first look is before anything is written down
            with pytest.raises(ReplicationGapError):
                store(root).register("late", 3)
        return readers()

    made.readers = meanwhile  # type: ignore[method-assign]
    assert made.purge(before=1000) == 12
    assert len(asked) == 2
    assert store(root).readers() == {"a": 12}


def test_a_reader_that_registers_before_a_purge_has_said_what_it_deletes_keeps_its_events(root: str) -> None:
    made = store(root)
    made.copy_from(Log(20))
    made.register("a", 12)
    readers, asked = made.readers, []

    def meanwhile() -> dict[str, int]:
        asked.append(True)
        found = readers()
        if len(asked) == 1:
            store(root).register("early", 3)
        return found

    made.readers = meanwhile  # type: ignore[method-assign]
    assert made.purge(before=1000) == 0
    assert ids(read_after(store(root), 3, 2)) == [4, 5]
    store(root).register("another", 3)


def test_a_position_that_a_crash_cut_off_counts_as_none(root: str) -> None:
    made = store(root)
    made.copy_from(Log(20))
    made.register("a", 12)
    made.register("b", 12)
    (Path(root.removeprefix("file://")) / "readers" / "a.json").write_text("")
    assert made.readers() == {"a": 0, "b": 12}
    assert made.purge(before=1000) == 0
    made.register("a", 12)
    assert made.purge(before=1000) == 12


def test_a_purge_that_is_killed_at_any_step_leaves_no_hole(tmp_path: Path) -> None:
    for steps in range(50):
        root = (tmp_path / f"purge{steps}").as_uri()
        made = store(root, size=2)
        made.copy_from(Log(20))
        made._publish(events(3, 4))
        made._publish(events(4, 5))  # what two who copied at once may leave
        made.register("a", 14)
        power = Power()
        dying = EventStore(Dying(power), root)
        power.left = steps
        with contextlib.suppress(KeyboardInterrupt):
            dying.purge(before=1000)
        assert ids(read_after(store(root), 14)) == list(range(15, 21))
        first = store(root).first_event_id()
        assert ids(store(root).events_after(0)) == list(range(first, 21))
        store(root).purge(before=1000)
        assert store(root).first_event_id() == 15
        store(root).register("b", 14)
        if power.left:
            return
    pytest.fail("the purge never came to its end")


# --- object stores ---


def test_a_store_on_an_object_store_is_written_without_renames(monkeypatch: pytest.MonkeyPatch) -> None:
    root = f"memory://{uuid.uuid4().hex}/store"
    filesystem = open_filesystem(root)
    made = EventStore(filesystem, root, segment_events=4)
    with monkeypatch.context() as patch:
        patch.setattr(type(filesystem), "rename", None)
        assert made.copy_from(Log(10)) == 10
        made._publish(events(9, 10))  # somebody else's copy of the same
    assert EventStore(filesystem, root).events_after(0) == events(1, 10)
    made.register("a", 9)
    assert made.purge(before=1000) == 8
    assert made.first_event_id() == 9


# --- segments ---


def test_names_of_segments_are_read_back_and_others_are_none() -> None:
    segment = Segment(7, 123)
    assert segment.name == "events_00000000000000000007_00000000000000000123.jsonl"
    assert (Segment.parse(segment.name), segment.count) == (segment, 117)
    for name in ("events_7_123.jsonl", segment.name + ".tmp", "." + segment.name, Segment(9, 7).name, "readers"):
        assert Segment.parse(name) is None


def test_a_segment_says_how_much_of_it_is_good() -> None:
    segment, content = Segment(3, 5), encode_segment(events(3, 5))
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    for cut in range(len(content) + 1):
        good = sum(end <= cut for end in ends)
        assert decode_segment(segment, content[:cut]) == events(3, 5)[:good]
    assert decode_segment(Segment(4, 6), content) == [], "events of other ids"
    assert decode_segment(Segment(3, 4), content) == events(3, 4)


@pytest.mark.parametrize("line", [
    b"[" * 100_000, b"7", b"{}", b"[]", b'["5",0,"INSERT","hive","d",null,"{}","x"]',
    b'[5,0,7,"hive","d",null,"{}","x"]', b'[5,0,"INSERT","hive","d",null,null,"x"]',
    b'[5,0,"INSERT","hive",["d"],null,"{}","x"]', b'[5,0,"INSERT","hive","\\ud800",null,"{}","x"]',
    b'[5,0,"INSERT","hive","d",null,"{}"]', b"\xff",
])  # fmt: skip
def test_a_line_that_is_no_event_is_damage_even_with_the_right_check_sum(line: bytes) -> None:
    good = encode_segment(events(3, 4))
    assert decode_segment(Segment(3, 5), good + b"%08x %s\n" % (zlib.crc32(line), line)) == events(3, 4)


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ([], []), ([(1, 4), (5, 8)], [(1, 4), (5, 8)]), ([(1, 4), (1, 8), (5, 8)], [(1, 8)]),
        ([(1, 4), (3, 6), (5, 8)], [(1, 4), (5, 8)]), ([(2, 5), (4, 9), (6, 7)], [(2, 5), (4, 9)]),
    ],
)  # fmt: skip
def test_the_longest_segments_from_each_place_on_are_read(
    given_: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    found = chain(Segment(*pair) for pair in reversed(given_))
    assert [(segment.first, segment.last) for segment in found] == wanted


def test_small_segments_in_a_row_are_merged_up_to_a_full_one() -> None:
    def merged(*counts: int, size: int = 10, least: int = 3) -> list[int]:
        row, first = [], 1
        for count in counts:
            row.append(Segment(first, first + count - 1))
            first += count
        return [segment.count for segment in to_merge(row, size, least)]

    assert merged(1, 1) == []
    assert merged(1, 2, 3) == [1, 2, 3]
    assert merged(10, 1, 2, 3, 10) == [1, 2, 3]
    assert merged(10, 10, 10) == []
    assert merged(4, 4, 1, 4) == [4, 4, 1]
    assert merged(9, 9, 9) == []
    assert merged(9, 9, 1, 1, 1) == []
    assert merged(9, 9, 1, 1, 1, 1) == [1, 1, 1]
