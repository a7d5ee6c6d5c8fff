"""Leases as values (the HiveLease document): what is claimed, by whom, until when, and what excludes what.

A lease is a time-bound claim on tables and partitions that outlives a txn. Its id is a fencing token: a later grant in
the same metastore always has a larger one. Who holds it proves that with a random secret, of which the metastore knows
only a hash; the id alone opens nothing. What the metastore does with these values is in ``manager``.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import ExceedsMaxLeaseTimeError, InvalidArgumentsError
from airflow_hive_acid.format.partitions import names_overlap
from airflow_hive_acid.metastore.names.objects import canonical_partition, shorten, table_name
from airflow_hive_acid.python_versions import StrEnum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Place = tuple[str, str, str]
"""Database, table, and partition; the partition is empty for the whole table."""
LONGEST_WAIT_SECONDS = 30 * 86_400
_SECRET_BYTES = 32
_TOKEN = re.compile(r"(\d{1,19})\.([A-Za-z0-9_-]{43})")
_DOCUMENT_VERSION = 1


class LeaseType(StrEnum):
    """The document's letters."""

    SHARED = "s"
    EXCLUSIVE = "x"


@dataclass(frozen=True, slots=True)
class LeaseObject:
    """A table or partition to be leased, and how; names are checked and lower-cased when it is made.

    It need not exist.

    :param partition_name: ``k1=v1/k2=v2``; some of the columns mean all partitions with these values; empty for the
        whole table.
    :param lease_type: ``s`` shared (nobody else changes it) or ``x`` exclusive.
    :raises InvalidArgumentsError: for a name that is none, or an unknown type.
    """

    db_name: str
    table_name: str
    partition_name: str = ""
    lease_type: LeaseType = LeaseType.EXCLUSIVE

    def __post_init__(self) -> None:
        for name, value in (("db_name", self.db_name), ("table_name", self.table_name)):
            if not isinstance(value, str):
                raise InvalidArgumentsError(f"{name} of a lease must be text, not {type(value).__name__}")
        name_ = table_name(f"{self.db_name}.{self.table_name}")
        if not isinstance(self.partition_name, str):
            raise InvalidArgumentsError(
                f"partition_name of a lease on {name_} must be text, empty for the whole table, not "
                f"{type(self.partition_name).__name__}"
            )
        object.__setattr__(self, "db_name", name_.database)
        object.__setattr__(self, "table_name", name_.name)
        object.__setattr__(self, "partition_name", self.partition_name and canonical_partition(self.partition_name))
        object.__setattr__(self, "lease_type", lease_type(self.lease_type))

    @classmethod
    def parse(cls, text: str, type: LeaseType | str = LeaseType.EXCLUSIVE) -> LeaseObject:
        """Read ``db.table`` or ``db.table/k1=v1/k2=v2``."""
        if not isinstance(text, str):
            raise InvalidArgumentsError(f"the object of a lease must be text, not {_kind(text)}; write database.table")
        table, slash, partition = text.partition("/")
        name = table_name(table)
        if slash and not partition:
            raise InvalidArgumentsError(f"{shorten(text)!r} names no partition behind the slash; leave the slash away")
        return cls(name.database, name.name, partition, lease_type(type))

    @property
    def place(self) -> Place:
        """Database, table and partition."""
        return self.db_name, self.table_name, self.partition_name

    @property
    def table(self) -> tuple[str, str]:
        """Database and table: what is locked while a lease on it changes."""
        return self.db_name, self.table_name

    def describe(self) -> str:
        """``db.table`` or ``db.table/partition``."""
        return describe_place(self.place)


@dataclass(frozen=True, slots=True)
class HiveLease:
    """A lease on one object, with the document's fields.

    :param lease_id: the fencing token; a lease on several objects has one row for each, all with this id.
    :param partition_name: empty for a table.
    :param start_utc: when it was granted, milliseconds since 1970 by the database's clock; extensions do not change it.
    :param end_utc: when it ends unless it is extended.
    :param lease_type: ``s`` or ``x``.
    """

    user: str
    lease_id: int
    db_name: str
    table_name: str
    partition_name: str
    start_utc: int
    end_utc: int
    lease_type: LeaseType

    @property
    def place(self) -> Place:
        """Database, table and partition."""
        return self.db_name, self.table_name, self.partition_name

    def describe(self) -> str:
        """``db.table`` or ``db.table/partition``."""
        return describe_place(self.place)


@dataclass(frozen=True, slots=True)
class Lease:
    """What its holder has in hand: the id and the secret that proves it.

    Never log ``secret`` or ``token``: who has them can extend and drop the lease. ``repr`` leaves both out.

    :param objects: what it is on; for these it must be live whenever it is used.
    :param end_utc: when it ended or will end, as far as this handle knows; milliseconds by the database's clock.
    :param duration_sec: for how long it was taken, and is extended by default.
    """

    lease_id: int
    secret: str = field(repr=False)
    objects: tuple[LeaseObject, ...]
    user: str
    start_utc: int
    end_utc: int
    duration_sec: float

    @property
    def token(self) -> str:
        """Id and secret in one text, for another process; a secret itself."""
        return f"{self.lease_id}.{self.secret}"

    @property
    def secret_hash(self) -> str:
        """What the metastore stores in the secret's place."""
        return hash_of(self.secret)

    def without(self, objects: Iterable[LeaseObject]) -> Lease:
        """The handle of what is left after some objects were dropped."""
        gone = {o.place for o in objects}
        return replace(self, objects=tuple(o for o in self.objects if o.place not in gone))

    def to_document(self) -> dict[str, Any]:
        """Everything another process needs, as plain JSON values. It contains the secret."""
        return {
            "version": _DOCUMENT_VERSION,
            "token": self.token,
            "objects": [[*o.place, o.lease_type.value] for o in self.objects],
            "user": self.user,
            "start_utc": self.start_utc,
            "end_utc": self.end_utc,
            "duration_sec": self.duration_sec,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Lease:
        """The handle of another process.

        :raises InvalidArgumentsError: when it is no document of this version.
        """
        try:
            if document["version"] != _DOCUMENT_VERSION:
                raise InvalidArgumentsError(
                    f"a lease document of version {document['version']!r}; this release reads {_DOCUMENT_VERSION}"
                )
            lease_id, secret = parse_token(document["token"])
            return cls(
                lease_id,
                secret,
                tuple(LeaseObject(*each) for each in document["objects"]),
                str(document["user"]),
                int(document["start_utc"]),
                int(document["end_utc"]),
                float(document["duration_sec"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidArgumentsError(f"not the document of a lease: {type(error).__name__}") from None


def conflicts(wanted: LeaseObject, held: LeaseObject | HiveLease) -> bool:
    """Whether two claims exclude each other: on objects with rows in common, and not both shared.

    A lease on a table covers its partitions, one on ``day=1`` those of that day. A lease on a partition puts S on its
    table, as the Hive Concurrency Model has it; S on the table conflicts with X there and with nothing else, which this
    rule says already, so that S is no row of its own.
    """
    if (wanted.db_name, wanted.table_name) != (held.db_name, held.table_name):
        return False
    if not names_overlap(wanted.partition_name, held.partition_name):
        return False
    return LeaseType.EXCLUSIVE in (wanted.lease_type, held.lease_type)


def first_conflict(
    wanted: Sequence[LeaseObject], held: Iterable[LeaseObject | HiveLease]
) -> tuple[LeaseObject, LeaseObject | HiveLease] | None:
    """The first of the claims there are that one of the wanted must wait for, with that wanted one."""
    return next(((want, claim) for claim in held for want in wanted if conflicts(want, claim)), None)


def is_live(end_utc: int, now: int) -> bool:
    """Whether a lease is still held: its end itself belongs to the next holder."""
    return end_utc > now


def new_secret() -> str:
    """A random secret of 256 bits."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def hash_of(secret: str) -> str:
    """The hash that is stored: with 256 random bits in the secret it needs no salt and no slowness."""
    return hashlib.sha256(secret.encode()).hexdigest()


def parse_token(text: str) -> tuple[int, str]:
    """Id and secret of a token.

    :raises InvalidArgumentsError: when it is none; the text is not repeated, it may be a secret.
    """
    found = _TOKEN.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidArgumentsError("not the token of a lease; it is printed by 'hive-acid lease grab'")
    return int(found[1]), found[2]


def lease_type(value: LeaseType | str) -> LeaseType:
    """Read a type.

    :raises InvalidArgumentsError: for anything but ``s`` and ``x``.
    """
    try:
        return LeaseType(value)
    except ValueError:
        raise InvalidArgumentsError(
            f"{shorten(str(value))!r} is no lease type; use 's' (shared) or 'x' (exclusive)"
        ) from None


def lease_objects(
    objs: Iterable[LeaseObject | HiveLease | str] | LeaseObject | HiveLease | str,
    type: LeaseType | str = LeaseType.EXCLUSIVE,
) -> tuple[LeaseObject, ...]:
    """The objects of a request, sorted.

    :param type: of those given as text.
    :raises InvalidArgumentsError: when there are none, or one is named twice.
    """
    each = (objs,) if isinstance(objs, str | LeaseObject | HiveLease) else tuple(objs)
    if not each:
        raise InvalidArgumentsError("a lease on nothing; name at least one table or partition")
    found: dict[Place, LeaseObject] = {}
    for one in each:
        if isinstance(one, HiveLease):
            one = LeaseObject(*one.place, one.lease_type)
        elif not isinstance(one, LeaseObject):
            one = LeaseObject.parse(one, type)
        twin = found.get(one.place)
        if twin is not None:
            how = "with two types" if twin.lease_type is not one.lease_type else "twice"
            raise InvalidArgumentsError(f"{one.describe()} is named {how}; name every object of a lease once")
        found[one.place] = one
    return tuple(found[place] for place in sorted(found))


def duration_ms(seconds: float, longest_ms: int) -> int:
    """Check the duration of a lease; returns milliseconds.

    :raises InvalidArgumentsError: when it is no positive number.
    :raises ExceedsMaxLeaseTimeError: when it is longer than ``hive.acid.lease.max.time``.
    """
    _number("lease_duration_sec", seconds)
    if seconds * 1000 < 1:
        raise InvalidArgumentsError(f"lease_duration_sec is {seconds!r}; give at least 0.001")
    if seconds * 1000 > longest_ms:
        raise ExceedsMaxLeaseTimeError(
            f"lease_duration_sec is {seconds:g}; the longest a lease may last is {longest_ms / 1000:g} s "
            "(hive.acid.lease.max.time)"
        )
    return round(seconds * 1000)


def wait_seconds(seconds: float) -> float:
    """Check how long to wait for a lease.

    :raises InvalidArgumentsError: when it is no number from 0 to 30 days.
    """
    _number("lease_wait_duration_sec", seconds)
    if not 0 <= seconds <= LONGEST_WAIT_SECONDS:
        raise InvalidArgumentsError(
            f"lease_wait_duration_sec is {seconds!r}; give 0, which does not wait, to {LONGEST_WAIT_SECONDS} (30 days)"
        )
    return float(seconds)


def describe_place(place: Place) -> str:
    """``db.table`` or ``db.table/partition``."""
    return f"{place[0]}.{place[1]}" + (f"/{place[2]}" if place[2] else "")


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidArgumentsError(f"{name} is {shorten(repr(value))}; give a number of seconds")


def _kind(value: object) -> str:
    return type(value).__name__
