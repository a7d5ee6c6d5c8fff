"""The policy ``benefit``: a compaction is asked for when readers will save more than it costs, as a pure function.

What a read pays for deltas and deletes and what a compaction pays for bytes are CPU seconds of a Spark job, by the
constants of :class:`CostModel`. As many reads are expected until the next compaction as there were since the last one:
where reads and deltas come evenly, the sum of what both pay is then within 6 % of the least. Deletes stay through minor
compactions, so what they cost is counted since the base was written. Hive's thresholds, some times as high, stay as the
last bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.records import Mark, ReadCount

if TYPE_CHECKING:
    from airflow_hive_acid.maintenance.decisions import Decision, Number
    from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds
    from airflow_hive_acid.maintenance.warehouse.directories import DirectorySizes

POLICY = "hive.acid.initiator.policy"
BENEFIT = "benefit"
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class CostModel:
    """What reads and compactions cost, in CPU seconds of driver and executors.

    The defaults were measured with ``benchmarks/benefit.py``, which prints them for another machine, too.

    :param open_file: of a read, for each file of a delta or delete delta beside those of the base.
    :param delete_event: of a read, for each delete event: reading it, comparing rows with it, and reading the row that
        is gone.
    :param event_bytes: bytes of a delete event in a file; their number is not in a listing.
    :param file_bytes: bytes of a file of a delta without its rows.
    :param minor_byte: of a minor compaction, for each byte of rows in deltas.
    :param major_byte: of a major compaction, for each byte of rows. Bytes of delete events are little beside them, and
        count for neither: more deletes must never speak against a compaction.
    """

    open_file: float = 0.009
    delete_event: float = 1e-6
    event_bytes: float = 0.53
    file_bytes: float = 2800.0
    minor_byte: float = 5e-8
    major_byte: float = 5e-8


MEASURED = CostModel()


@dataclass(frozen=True, slots=True)
class Reads:
    """How often something was read in some time.

    :param counted: reads that our jobs have told of.
    :param age_ms: how long ago counting began.
    """

    counted: int
    age_ms: int

    def expected(self, horizon_ms: int, others_a_day: float) -> float:
        """Reads that will come: as many as in the same time before, within the horizon.

        :param others_a_day: of programs that tell nothing, a real Hive among them.
        """
        age = max(self.age_ms, 0)
        reach = min(age, horizon_ms)
        counted = self.counted * (reach / age if age else 1.0)
        return counted + others_a_day * reach / _DAY_MS


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about the reads of a table or partition.

    :param since_compaction: since the newest compaction of any kind, and ``since_base`` since its base was written.
    :param marks: with which count that was, to be noted for the next look.
    :param is_first: nothing was marked before, so nothing is known.
    """

    since_compaction: Reads
    since_base: Reads
    marks: ReadCount
    is_first: bool

    @classmethod
    def of(cls, found: ReadCount | None, sizes: DirectorySizes, now: int) -> Known:
        """What a count says about the directories that there are now.

        :param found: with the marks of the look before; None when there is none.
        :param now: ms by the database's clock.
        """
        before = found or ReadCount()
        base, compaction = before.base, before.compaction
        if base.of != sizes.base_write_id:  # what writes a base anew starts both
            base = Mark(sizes.base_write_id, before.reads, now)
            compaction = Mark(sizes.newest_compaction, before.reads, now)
        elif compaction.of != sizes.newest_compaction:
            compaction = Mark(sizes.newest_compaction, before.reads, now)
        return cls(
            Reads(max(before.reads - compaction.reads, 0), now - compaction.since),
            Reads(max(before.reads - base.reads, 0), now - base.since),
            ReadCount(before.reads, compaction, base),
            before.base.of < 0,
        )


@dataclass(frozen=True, slots=True)
class Benefit:
    """What one kind of compaction would bring.

    :param saved: CPU seconds that the expected reads save.
    :param cost: CPU seconds of the compaction.
    """

    kind: Kind
    saved: float
    cost: float

    @property
    def net(self) -> float:
        """CPU seconds won; negative: lost."""
        return self.saved - self.cost


@dataclass(frozen=True, slots=True)
class Overhead:
    """What one read pays for what is not in the base, in CPU seconds.

    :param minor: for files that a minor compaction merges, and ``major`` for those that a major one does.
    :param deletes: for delete events, which only a major compaction applies.
    """

    minor: float
    major: float
    deletes: float

    @classmethod
    def of(cls, sizes: DirectorySizes, model: CostModel = MEASURED) -> Overhead:
        """By the sizes of directories."""
        files = max(sizes.files - sizes.base_files, 0)
        each = files / sizes.deltas if sizes.deltas else 0.0  # buckets
        kinds = (sizes.deltas > sizes.delete_deltas) + (sizes.delete_deltas > 0)
        into_base = 0.0 if sizes.base_files else each
        deletes = 0.0
        if sizes.delete_deltas:
            files_of_deletes = each * sizes.delete_deltas
            events = max(sizes.delete_bytes - files_of_deletes * model.file_bytes, 0) / model.event_bytes
            deletes = events * model.delete_event
        return cls(max(files - kinds * each, 0) * model.open_file, max(files - into_base, 0) * model.open_file, deletes)


def benefits(
    sizes: DirectorySizes, known: Known, thresholds: InitiatorThresholds, model: CostModel = MEASURED
) -> tuple[Benefit, Benefit]:
    """What a minor and a major compaction would bring."""
    overhead = Overhead.of(sizes, model)
    horizon, others = thresholds.benefit_horizon_ms, thresholds.benefit_other_reads
    of_files = known.since_compaction.expected(horizon, others)
    of_deletes = known.since_base.expected(horizon, others)
    rows = sizes.delta_bytes - sizes.delete_bytes
    return (
        Benefit(Kind.MINOR, of_files * overhead.minor, thresholds.benefit_job + rows * model.minor_byte),
        Benefit(
            Kind.MAJOR,
            of_files * overhead.major + of_deletes * overhead.deletes,
            thresholds.benefit_job + (sizes.base_bytes + rows) * model.major_byte,
        ),
    )


def weigh(
    decision: Decision,
    sizes: DirectorySizes,
    known: Known | None,
    thresholds: InitiatorThresholds,
    model: CostModel = MEASURED,
) -> Decision:
    """What the policy makes of a decision by :func:`bounds`.

    :param known: None when reads are not counted in this metastore.
    """
    if known is None:
        told = "by Hive's thresholds: reads are not counted here, run 'hive-acid schema upgrade'"
        return replace(decision, reason=f"{decision.reason}; {told}")
    if known.is_first:
        return replace(
            decision, reason=f"{decision.reason}; by Hive's thresholds: its reads are counted from now on", again=True
        )
    if decision.kind is not Kind.NOTHING:
        bound = f"the last bound of the policy benefit is {thresholds.benefit_bound:g} times Hive's thresholds"
        return replace(decision, reason=f"{decision.reason}; {bound}")
    if not sizes.deltas:
        return decision
    found = benefits(sizes, known, thresholds, model)
    best = max(found, key=lambda one: (one.net, one.kind is Kind.MAJOR))
    reads = known.since_compaction.expected(thresholds.benefit_horizon_ms, thresholds.benefit_other_reads)
    numbers: dict[str, Number] = {**decision.numbers, **_numbers(sizes, known, thresholds, model, found)}
    told = "; ".join(f"{_word(one.kind)} costs {_s(one.cost)} and saves {_s(one.saved)}" for one in found)
    told = f"{reads:.4g} reads are expected; in CPU seconds, {told}"
    if best.net <= 0:
        reason = f"no compaction pays yet: {told}"
        return replace(decision, reason=_with_hidden(reason, decision), numbers=numbers, rule=POLICY, again=True)
    return replace(decision, kind=best.kind, reason=f"it pays: {told}", numbers=numbers, rule=POLICY)


def bounds(thresholds: InitiatorThresholds, known: Known | None) -> InitiatorThresholds:
    """The thresholds beside the policy: Hive's own while nothing is known about reads, else the last bound."""
    if known is None or known.is_first:
        return thresholds
    factor = thresholds.benefit_bound
    most = min(round(thresholds.delta_num * factor), max(thresholds.max_num_delta, thresholds.delta_num))
    return replace(thresholds, delta_num=most, delta_pct=thresholds.delta_pct * factor)


def _numbers(
    sizes: DirectorySizes,
    known: Known,
    thresholds: InitiatorThresholds,
    model: CostModel,
    found: tuple[Benefit, Benefit],
) -> dict[str, Number]:
    """Each term of the decision; times in CPU seconds."""
    horizon, others = thresholds.benefit_horizon_ms, thresholds.benefit_other_reads
    overhead = Overhead.of(sizes, model)
    minor, major = found
    return {
        "reads_since_compaction": known.since_compaction.counted,
        "hours_since_compaction": round(known.since_compaction.age_ms / 3_600_000, 2),
        "reads_since_base": known.since_base.counted,
        "hours_since_base": round(known.since_base.age_ms / 3_600_000, 2),
        "reads_expected": round(known.since_compaction.expected(horizon, others), 1),
        "reads_expected_with_deletes": round(known.since_base.expected(horizon, others), 1),
        "read_pays_for_files_s": round(overhead.major, 4),
        "read_pays_for_deletes_s": round(overhead.deletes, 4),
        "minor_saves_s": round(minor.saved, 3),
        "minor_costs_s": round(minor.cost, 3),
        "major_saves_s": round(major.saved, 3),
        "major_costs_s": round(major.cost, 3),
    }


def _with_hidden(reason: str, decision: Decision) -> str:
    hidden = decision.numbers.get("hidden_deltas")
    return f"{reason}; {hidden} deltas above an open write id do not count yet" if hidden else reason


def _word(kind: Kind) -> str:
    return "a minor one" if kind is Kind.MINOR else "a major one"


def _s(seconds: float) -> str:
    return f"{seconds:.3g}"
