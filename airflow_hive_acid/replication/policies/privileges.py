"""Roles, members, owners and privileges of the primary, followed at the replica by state: they have no events.

Three states are compared: the primary's, the replica's, and what this policy granted before. So what the replica's own
admin granted stays, and what they took away is not granted again (:class:`PrivilegeMode` FOLLOW); MIRROR is for
replicas that have no admin of their own. Nothing is granted unless a policy asks for it: who may read the primary need
not be allowed to read its copy.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, insert, select

from airflow_hive_acid.metastore.catalog import (
    Entries,
    Entry,
    Member,
    Owner,
    Principal,
    Privilege,
    Privileges,
    Role,
    Securable,
    Value,
    put_entry,
    read_privileges,
    remove_entry,
    securables,
)
from airflow_hive_acid.metastore.database import clock_ms
from airflow_hive_acid.metastore.schema import DBS, HIVE_ACID_REPL_GRANT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore import MetastoreClient

BUILT_IN = frozenset({"admin", "public"})
"""Roles that every Hive has. Being an admin of one warehouse does not make one of another: members are not carried."""

_G = HIVE_ACID_REPL_GRANT.c
_READ = select(_G.HRG_ENTRY, _G.HRG_OBJECT).where(_G.HRG_POLICY == bindparam("policy"))
_FORGET = delete(HIVE_ACID_REPL_GRANT).where(_G.HRG_POLICY == bindparam("policy"), _G.HRG_HASH == bindparam("hash"))
_NOTE = insert(HIVE_ACID_REPL_GRANT).values(HRG_GRANTED=clock_ms())


class PrivilegeMode(Enum):
    """What a policy does about privileges."""

    NONE = "none"
    FOLLOW = "follow"
    MIRROR = "mirror"


@dataclass(frozen=True, slots=True)
class Change:
    """Something to do at the replica, or (``kept``) something that is left as its admin made it.

    :param does: ``put``, ``remove``, ``kept``, or ``note``: it is there and counts as granted by the policy.
    :param reason: why, for people.
    """

    does: str
    entry: Entry
    value: Value
    reason: str


@dataclass(frozen=True, slots=True)
class PrivilegeReport:
    """What one comparison did, in words."""

    granted: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def compare(source: Entries, target: Entries, before: Entries, mode: PrivilegeMode) -> list[Change]:
    """What to do so that the replica has what the primary has.

    :param before: what this policy granted before and has not taken back.
    """
    if mode is PrivilegeMode.NONE:
        return []
    keys = sorted({*source, *target, *before}, key=lambda e: (_rank(e), repr(e)))
    decided = _mirror if mode is PrivilegeMode.MIRROR else _follow
    found = [c for key in keys if (c := decided(key, source, target, before)) is not None]
    # First roles, members, owners and privileges come, then they go the other way round.
    return [c for c in found if c.does != "remove"] + [c for c in reversed(found) if c.does == "remove"]


def _rank(entry: Entry) -> int:
    return (Role, Member, Owner, Privilege).index(type(entry))


def _mirror(entry: Entry, source: Entries, target: Entries, before: Entries) -> Change | None:
    if entry in source:
        if entry in target and _same(entry, source[entry], target[entry]):
            return None
        return Change("put", entry, source[entry], "the primary has it")
    if entry in target and not isinstance(entry, Owner) and not _is_foreign_role(entry, before):
        return Change("remove", entry, None, "the primary does not have it")
    return None


def _is_foreign_role(entry: Entry, before: Entries) -> bool:
    """A role may serve databases that are not replicated: only those that this policy made are its to drop."""
    return isinstance(entry, Role | Member) and entry not in before


def _follow(entry: Entry, source: Entries, target: Entries, before: Entries) -> Change | None:
    here, ours, theirs = entry in target, entry in before, entry in source
    if not ours:
        return _first(entry, source, target)
    unchanged = here and _same(entry, target[entry], before[entry])
    if not theirs:
        if isinstance(entry, Owner) or not here:
            return None
        if unchanged:
            return Change("remove", entry, None, "the primary took it away")
        return Change("kept", entry, target[entry], "it was changed at the replica after it came from the primary")
    if here and _same(entry, target[entry], source[entry]):
        return None
    if unchanged:
        return Change("put", entry, source[entry], "it changed at the primary")
    reason = "it was changed at the replica" if here else "it was taken away at the replica"
    return Change("kept", entry, target.get(entry), reason)


def _first(entry: Entry, source: Entries, target: Entries) -> Change | None:
    """What the policy never granted: new at the primary, or the replica's own."""
    if entry not in source:
        return None
    if entry not in target:
        return Change("put", entry, source[entry], "new at the primary")
    is_replicated = isinstance(entry, Owner) and bool(entry.on.table)  # its table came from the primary, so it may
    if _same(entry, source[entry], target[entry]):
        return Change("note", entry, source[entry], "it came with the table") if is_replicated else None
    if is_replicated:
        return Change("put", entry, source[entry], "the table is the primary's")
    return Change("kept", entry, target[entry], "the replica had it before, and otherwise")


def _same(entry: Entry, one: Value, other: Value) -> bool:
    """Whether two values mean the same; who made a role says nothing about it."""
    return isinstance(entry, Role) or one == other


def sync_privileges(
    source: MetastoreClient,
    target: MetastoreClient,
    policy: str,
    databases: Mapping[str, str],
    mode: PrivilegeMode,
    *,
    tables: Callable[[str, str], bool] = lambda database, table: True,
    whole: Callable[[str], bool] = lambda database: True,
    with_global: bool = False,
    allowed: Callable[[Connection], object] = lambda _conn: None,
) -> PrivilegeReport:
    """Compare once and do what is to be done at the replica, in one database transaction there.

    :param databases: the replica's database by the primary's.
    :param tables: which tables of a database (of the primary) the policy covers.
    :param whole: whether it covers a whole database (of the primary). Otherwise privileges on it are left out:
        at the replica they would hold for tables that are not the policy's.
    :param with_global: also privileges on the whole metastore: only for policies that replicate all of it.
    :param allowed: asked first in that transaction; what it raises ends it.
    :returns: what was done; ``waiting`` is for objects that have not been replicated yet.
    """
    if mode is PrivilegeMode.NONE or not databases:
        return PrivilegeReport()
    theirs = source.database.read(lambda connection: read_privileges(connection, sorted(databases)))
    wanted = select_entries(theirs.entries, tables, whole=whole, with_global=with_global)
    wanted = {rename(entry, databases): value for entry, value in wanted.items()}
    covered = {v: k for k, v in databases.items()}

    def operation(connection: Connection) -> PrivilegeReport:
        allowed(connection)
        ours = read_privileges(connection, sorted(covered))
        before = _before(connection, policy, ours)
        here = select_entries(
            ours.entries, lambda d, t: tables(covered[d], t), whole=lambda d: whole(covered[d]),
            with_global=with_global, also=frozenset(before),
        )  # fmt: skip
        # A role that nothing at the replica needed yet is there all the same.
        here |= {e: v for e, v in ours.entries.items() if isinstance(e, Role | Member) and (e in wanted or e in before)}
        return _apply(connection, policy, compare(wanted, here, before, mode), ours, wanted, before)

    return target.database.run(operation)


def select_entries(
    entries: Entries,
    tables: Callable[[str, str], bool],
    *,
    whole: Callable[[str], bool],
    with_global: bool,
    also: frozenset[Entry] = frozenset(),
) -> Entries:
    """The entries that a policy covers: on its objects, and the roles (with members) that those name.

    :param also: entries that it covers in any case.
    """
    chosen: Entries = {}
    for entry, value in entries.items():
        if isinstance(entry, Owner | Privilege):
            on = entry.on
            if not on.database:
                is_covered = with_global
            else:
                is_covered = tables(on.database, on.table) if on.table else whole(on.database)
            if is_covered:
                chosen[entry] = value
    roles = {name for e, v in chosen.items() for name in _roles_named(e, v)}
    members = [e for e in entries if isinstance(e, Member)]
    grew = True
    while grew:  # roles of roles
        above = {m.role for m in members if m.principal.type == "ROLE" and m.principal.name in roles}
        grew = not above <= roles
        roles |= above
    roles -= BUILT_IN
    for entry, value in entries.items():
        if isinstance(entry, Role | Member):
            name = entry.name if isinstance(entry, Role) else entry.role
            if name in roles or (entry in also and name not in BUILT_IN):
                chosen[entry] = value
    return chosen


def _roles_named(entry: Entry, value: Value) -> list[str]:
    principal = entry.principal if isinstance(entry, Privilege) else value
    if isinstance(principal, Principal) and principal.type == "ROLE" and principal.name:
        return [principal.name]
    return []


def rename(entry: Entry, databases: Mapping[str, str]) -> Entry:
    """The entry as it is called at the replica."""
    if isinstance(entry, Owner | Privilege) and entry.on.database:
        return replace(entry, on=entry.on._replace(database=databases[entry.on.database]))
    return entry


def _apply(
    connection: Connection, policy: str, changes: Iterable[Change], ours: Privileges, wanted: Entries, before: Entries
) -> PrivilegeReport:
    granted, revoked, kept, waiting = [], [], [], []
    for change in changes:
        said = f"{change.entry}: {change.reason}"
        if change.does == "kept":
            kept.append(said)
        elif change.does == "note":
            _note(connection, policy, change.entry, change.value, ours)
        elif change.does == "remove":
            if isinstance(change.entry, Role) and _is_needed(connection, change.entry, ours, before):
                kept.append(f"{change.entry}: others at the replica use it")
                continue
            remove_entry(connection, change.entry, ours.ids)
            revoked.append(said)
        elif put_entry(connection, change.entry, change.value, ours.ids):
            _note(connection, policy, change.entry, change.value, ours)
            granted.append(said)
        else:
            waiting.append(f"{change.entry}: {_absent(change.entry)} has not been replicated yet")
    for entry in before:
        if entry not in wanted:
            connection.execute(_FORGET, {"policy": policy, "hash": _hash(entry)})
    return PrivilegeReport(tuple(granted), tuple(revoked), tuple(kept), tuple(waiting))


def _absent(entry: Entry) -> str:
    return str(next(iter(securables([entry])), "its role"))


def _is_needed(connection: Connection, role: Role, ours: Privileges, before: Entries) -> bool:
    """Whether anything here that this policy did not grant names a role; asked of all databases."""
    names = [str(name) for name in connection.execute(select(DBS.c.NAME)).scalars()]
    for entry, value in read_privileges(connection, names).entries.items():
        used = role.name in _roles_named(entry, value) or (isinstance(entry, Member) and entry.role == role.name)
        if used and entry not in before:
            return True
    return False


def _before(connection: Connection, policy: str, ours: Privileges) -> Entries:
    """What the policy granted; on objects that were made anew since, nothing."""
    found: Entries = {}
    for text, object_id in connection.execute(_READ, {"policy": policy}):
        entry, value = read_entry(text)
        on = next(iter(securables([entry])), None)
        if on is None or ours.ids.get(Securable(on.database, on.table)) == object_id:
            found[entry] = value
        else:
            connection.execute(_FORGET, {"policy": policy, "hash": _hash(entry)})
    return found


def _note(connection: Connection, policy: str, entry: Entry, value: Value, ours: Privileges) -> None:
    on = next(iter(securables([entry])), None)
    key = {"policy": policy, "hash": _hash(entry)}
    connection.execute(_FORGET, key)
    row: dict[str, Any] = {
        "HRG_POLICY": policy,
        "HRG_HASH": key["hash"],
        "HRG_ENTRY": write_entry(entry, value),
        "HRG_OBJECT": None if on is None else ours.ids.get(Securable(on.database, on.table)),
    }
    connection.execute(_NOTE, row)


def write_entry(entry: Entry, value: Value) -> str:
    """An entry with its value as JSON, ASCII."""
    fields = [getattr(entry, name) for name in type(entry).__dataclass_fields__]
    return json.dumps([type(entry).__name__, fields, value])


def read_entry(text: str) -> tuple[Entry, Value]:
    """The reverse of :func:`write_entry`."""
    kind, fields, value = json.loads(text)
    if kind == "Role":
        return Role(*fields), value
    if kind == "Member":
        role, principal, grantor = fields
        return Member(role, Principal(*principal), Principal(*grantor)), value
    if kind == "Owner":
        return Owner(Securable(*fields[0])), Principal(*value)
    on, principal, privilege, grantor, authorizer = fields
    return Privilege(Securable(*on), Principal(*principal), privilege, Principal(*grantor), authorizer), value


def _hash(entry: Entry) -> str:
    return hashlib.sha256(write_entry(entry, None).encode()).hexdigest()
