"""HIVE_ACID_PIN: named snapshots that reads can name and Cleaners honour.

For a real Hive a pin is a reader that takes long: an open READ_ONLY txn with SHARED_READ locks on its tables and rows
in both history tables (R10). Nobody has to keep it alive: its heartbeat lies in the future, so that Hive's reaper ends
it when the pin expires and no earlier, as the locks of leases do (R7). Our Cleaner knows more: it leaves such txns out
of its horizon and keeps exactly the directories that a pin reads. Every change locks the pin's row first (R3).
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, func, insert, select, update

from airflow_hive_acid.errors import (
    HiveAcidError,
    InvalidArgumentsError,
    NoSuchPinError,
    NoSuchTxnError,
    PinExistsError,
    SchemaVersionError,
    TablePinnedError,
    TxnAbortedError,
)
from airflow_hive_acid.metastore.compaction.cleaning import clean_again
from airflow_hive_acid.metastore.database.backend import lock_open_txns
from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.names.objects import TableName, table_name
from airflow_hive_acid.metastore.protocol.begin import begin
from airflow_hive_acid.metastore.protocol.pin_rows import pins_on, read_pins
from airflow_hive_acid.metastore.protocol.table_uses import table_uses
from airflow_hive_acid.metastore.protocol.transaction import ReaderSnapshot
from airflow_hive_acid.metastore.schema.hive_transactions import MIN_HISTORY_WRITE_ID, TXNS
from airflow_hive_acid.metastore.schema.pins import HIVE_ACID_PIN, HIVE_ACID_PIN_HELD, HIVE_ACID_PIN_TABLE
from airflow_hive_acid.metastore.setup.abilities import require_hive_4
from airflow_hive_acid.metastore.txns.history import LARGEST_TXN
from airflow_hive_acid.metastore.txns.pin_rules import (
    AGENT,
    Pin,
    PinnedTable,
    PinState,
    checked_budget,
    checked_comment,
    checked_duration_ms,
    checked_name,
    moment,
    overdue,
)
from airflow_hive_acid.metastore.txns.pin_watermark import PINNED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.catalog.catalog import Catalog
    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.compaction.model import Compaction
    from airflow_hive_acid.metastore.verbs import Verbs

_P, _T, _H = HIVE_ACID_PIN.c, HIVE_ACID_PIN_TABLE.c, HIVE_ACID_PIN_HELD.c
_FORGETTABLE = select(_P.HPN_ID).where(
    _P.HPN_STATE == PinState.SETTLED.value, _P.HPN_ENDED < clock_ms() - bindparam("age")
)
_LOCK = select(_P.HPN_ID, _P.HPN_EXPIRES, _P.HPN_TXNID).where(_P.HPN_LIVE == bindparam("name")).with_for_update()
_GRACE_MS = 600_000
"""So long after a pin has expired a Hive's reaper ends its txn, if nobody of ours has and its time-out is ours."""
_STATE = select(_P.HPN_STATE).where(_P.HPN_ID == bindparam("pin")).with_for_update()
_OLDER_OPEN = (
    select(TXNS.c.TXN_ID)
    .where(TXNS.c.TXN_STATE == "o", TXNS.c.TXN_ID <= bindparam("end"), TXNS.c.TXN_ID.not_in(PINNED))
    .limit(1)
)
_BEAT = update(TXNS).where(TXNS.c.TXN_ID == bindparam("txn_id"), TXNS.c.TXN_STATE == "o")
_KEEP_ALL = (
    update(MIN_HISTORY_WRITE_ID).where(MIN_HISTORY_WRITE_ID.c.MH_TXNID == bindparam("txn_id")).values(MH_WRITEID=1)
)


class Pins:
    """The pins of one metastore.

    :param client: of the metastore.
    :param catalog: its tables.
    """

    def __init__(self, client: Verbs, catalog: Catalog) -> None:
        self._client = client
        self._catalog = catalog
        self._database = client.database

    def pin(
        self,
        name: str,
        tables: Iterable[str],
        *,
        expires: float,
        max_bytes: int | None = None,
        comment: str | None = None,
        agent_info: str = "",
    ) -> Pin:
        """Pin tables as they are now, all at one moment.

        :param expires: seconds from now after which the pin is dropped.
        :param max_bytes: it is dropped when it holds back more than so many bytes from cleaning.
        :param agent_info: who asks, as SHOW TRANSACTIONS prints it.
        :raises PinExistsError: when there is a pin of that name.
        :raises NoSuchObjectError: when a table is not there.
        :raises LockTimeoutError: when a table could not be locked for reading; nothing is left behind.
        """
        name, budget, lasts = checked_name(name), checked_budget(max_bytes), checked_duration_ms(expires)
        comment = checked_comment(comment)
        names = [str(table_name(t)) for t in ([tables] if isinstance(tables, str) else tables)]
        found = {table: self._catalog.get_table(table) for table in dict.fromkeys(names)}
        if not found:
            raise InvalidArgumentsError("tables: a pin needs at least one table; none was named")
        for table in found.values():
            if not table.is_transactional:
                raise InvalidArgumentsError(
                    f"tables: {table.qualified_name} is no ACID table; it has no snapshots to pin"
                )
        if not self._has_tables():
            raise SchemaVersionError("this metastore has no tables for pins yet: run 'hive-acid schema upgrade'")
        self._require_free(name)
        require_hive_4(
            self._database.layout(),
            "a pin",
            "its Hive's Cleaner only waits for locks, so nothing would keep the files; read in one transaction instead",
        )
        agent = f"{AGENT} {name}" + (f" ({agent_info})" if agent_info else "")
        begun = begin(self._client, table_uses(list(found)), agent, TxnType.READ_ONLY)
        reader = ReaderSnapshot(self._client, begun)
        try:
            partitions = {table: self._partitions(facts) for table, facts in found.items()}
            reader.release()  # from here on its heartbeat is the expiry
            values = {"name": name, "lasts": lasts, "budget": budget, "comment": comment}
            self._database.run(
                lambda connection: self._insert(connection, reader, partitions, values), retry_duplicates=True
            )
        except BaseException as failure:
            with contextlib.suppress(HiveAcidError):
                self._client.abort_txn(reader.txn_id, f"{name} was not pinned: {failure}")
            raise
        return self.get(name)

    def _has_tables(self) -> bool:
        return self._database.read(lambda connection: self._database.features(connection).pins)

    def _require_free(self, name: str) -> None:
        there = next((pin for pin in self.show() if pin.name == name), None)
        why = None if there is None else overdue(there)
        if there is not None and why is not None:
            self._end(there, why)  # as whoever comes by next would; the name is free
            self.settle()
        elif there is not None:
            raise PinExistsError(
                f"{there} is there: it pins {', '.join(there.tables)} until {there.until}; end it first ('hive-acid "
                "pin drop'), or choose another name"
            )

    def _partitions(self, table: Table) -> str | None:
        if not table.is_partitioned:
            return None
        listed = self._catalog.list_partitions(table.qualified_name)
        return json.dumps([[p.name, p.location, list(p.values)] for p in listed], separators=(",", ":"))

    def _insert(
        self,
        connection: Connection,
        reader: ReaderSnapshot,
        partitions: Mapping[str, str | None],
        values: Mapping[str, Any],
    ) -> None:
        name, now = values["name"], now_ms(connection)
        # Who is as fast meets this one's row when inserting, and finds it here when looking again.
        there = connection.execute(_LOCK, {"name": name}).first()
        if there is not None and there[2] == reader.txn_id:
            return  # this is a repetition: the answer to the commit was lost
        if there is not None:
            raise PinExistsError(f"somebody has pinned '{name}' meanwhile; choose another name")
        expires = now + values["lasts"]
        key = connection.execute(insert(HIVE_ACID_PIN).values(
            HPN_NAME=name, HPN_LIVE=name, HPN_STATE=PinState.ACTIVE.value, HPN_TXNID=reader.txn_id, HPN_CREATED=now,
            HPN_EXPIRES=expires, HPN_MAX_BYTES=values["budget"], HPN_BYTES=0, HPN_USER=self._client.user,
            HPN_COMMENT=values["comment"], HPN_TXNS=str(reader.valid_txns),
        )).inserted_primary_key  # fmt: skip
        if key is None:
            raise AssertionError("the database returned no generated id")
        for table, listed in partitions.items():
            at = table_name(table)
            connection.execute(insert(HIVE_ACID_PIN_TABLE).values(
                HPT_PIN=key[0], HPT_DATABASE=at.database, HPT_TABLE=at.name,
                HPT_WRITE_IDS=str(reader.snapshot[table]), HPT_PARTITIONS=listed,
            ))  # fmt: skip
        if not self._beat(connection, reader.txn_id, expires):
            raise TxnAbortedError(f"txn {reader.txn_id} of pin '{name}' was aborted meanwhile; pin again")
        if self._database.features(connection).min_history_write_id:
            # A Hive 4.2 that honours nothing else compares with how far a compaction reached: all of them stay.
            connection.execute(_KEEP_ALL, {"txn_id": reader.txn_id})

    def _beat(self, connection: Connection, txn_id: int, expires: int) -> bool:
        """Let a reaper find the txn silent soon after the pin has expired, and no earlier, whatever its time-out is."""
        last = expires + max(0, _GRACE_MS - self._client.settings.milliseconds("hive.txn.timeout"))
        return connection.execute(_BEAT.values(TXN_LAST_HEARTBEAT=last), {"txn_id": txn_id}).rowcount == 1

    def show(self, *, ended: bool = False) -> list[Pin]:
        """All pins, the oldest first.

        :param ended: also those that have ended, as long as they are remembered.
        """
        if not self._has_tables():
            return []
        return self._database.read(lambda connection: read_pins(connection, ended=ended))

    def get(self, name: str) -> Pin:
        """A pin that may be read.

        :raises NoSuchPinError: when there is none of that name; says why, if one has ended.
        """
        named = [pin for pin in self.show(ended=True) if pin.name == name]
        if named and named[-1].state is PinState.ACTIVE:
            why = overdue(named[-1])
            if why is None:
                return named[-1]
            raise NoSuchPinError(f"{named[-1]} has ended: {why}")
        if named:
            raise NoSuchPinError(f"{named[-1]} has ended: {named[-1].reason}")
        known = ", ".join(f"'{pin.name}'" for pin in self.show()) or "none"
        raise NoSuchPinError(f"there is no pin '{name}'; there are: {known}")

    def look(self, name: str, table: str) -> PinnedTable:
        """What a pin sees of a table; asked for by a reader whose own txn is open already, which keeps it (R16).

        :raises NoSuchPinError: when there is no such pin.
        :raises InvalidArgumentsError: when the table is none of the pin's.
        """
        pin = self.get(name)
        at = table_name(table)
        for pinned in self._database.read(lambda connection: pins_on(connection, at)):
            if pinned.pin.id == pin.id:
                return pinned
        raise InvalidArgumentsError(f"{at} is not in {pin}, which pins {', '.join(pin.tables)}")

    def require_kept(self, pinned: PinnedTable) -> None:
        """Whether everything that was read by a pin was there to the end.

        :raises NoSuchPinError: when its txn was ended from outside, so that a real Hive may have removed files.
        """
        now = next((pin for pin in self.show(ended=True) if pin.id == pinned.pin.id), None)
        if now is None or not now.txn_open:
            raise NoSuchPinError(
                f"{pinned.pin} ended while {pinned.table} was read by it: its txn {pinned.pin.txn_id} was aborted from "
                "outside, and what was read may not be all; pin again what is there"
            )

    def extend(self, name: str, *, expires: float | None = None, max_bytes: int | None = None) -> Pin:
        """Let a pin last longer, or shorter, or hold back another number of bytes.

        :param expires: seconds from now.
        """
        lasts = None if expires is None else checked_duration_ms(expires)
        budget = checked_budget(max_bytes)
        if lasts is None and budget is None:
            raise InvalidArgumentsError("expires and max_bytes: neither was given, so nothing is changed; give one")
        pin = self.get(name)

        def change(connection: Connection) -> None:
            self._lock(connection, pin)
            if lasts is not None:
                end = now_ms(connection) + lasts
                if not self._beat(connection, pin.txn_id, end):
                    raise NoSuchPinError(f"{pin} has ended: its txn {pin.txn_id} was aborted from outside")
                connection.execute(update(HIVE_ACID_PIN).where(_P.HPN_ID == pin.id).values(HPN_EXPIRES=end))
            if budget is not None:
                connection.execute(update(HIVE_ACID_PIN).where(_P.HPN_ID == pin.id).values(HPN_MAX_BYTES=budget))

        self._database.run(change)
        return self.get(name)

    def unpin(self, name: str, reason: str | None = None, *, pin_id: int | None = None) -> Pin:
        """Drop a pin: nobody begins to read by it any more, and what was kept for it goes when nobody does.

        :param pin_id: drop no other one of that name.
        :raises NoSuchPinError: when there is no such pin.
        """
        pin = self.get_any(name)
        if pin_id not in (None, pin.id):
            raise NoSuchPinError(f"{pin} is another one by now, made by {pin.user} on {moment(pin.created)}")
        self._end(pin, reason or f"dropped by {self._client.user}")
        self.settle()
        return next(p for p in self.show(ended=True) if p.id == pin.id)

    def get_any(self, name: str) -> Pin:
        """A pin that has not ended, whether or not it is overdue."""
        found = next((pin for pin in self.show() if pin.name == name), None)
        return self.get(name) if found is None else found

    def _end(self, pin: Pin, reason: str) -> bool:
        def end(connection: Connection) -> bool:
            row = connection.execute(_LOCK, {"name": pin.name}).first()
            if row is None or row.HPN_ID != pin.id:
                return False
            # Nobody opens a txn meanwhile: whoever still found the pin has one that is not newer than this.
            lock_open_txns(connection, exclusive=True)
            newest = connection.execute(select(LARGEST_TXN)).scalar_one()
            connection.execute(update(HIVE_ACID_PIN).where(_P.HPN_ID == pin.id).values(
                HPN_STATE=PinState.ENDED.value, HPN_LIVE=None, HPN_ENDED=clock_ms(), HPN_END_TXNID=newest,
                HPN_REASON=reason,
            ))  # fmt: skip
            return True

        return self._database.run(end)

    def end_overdue(self) -> list[str]:
        """End the pins whose time or budget is over, and settle those that nobody reads by any more.

        :return: for each that was ended, why.
        """
        ended = []
        for pin in self.show():
            why = overdue(pin)
            if why is not None and self._end(pin, why):
                ended.append(f"{pin} on {', '.join(pin.tables)}: {why}")
            elif why is None:
                self._database.run(lambda connection, pin=pin: self._beat_again(connection, pin))  # type: ignore[misc]
        self.settle()
        return ended

    def _beat_again(self, connection: Connection, pin: Pin) -> None:
        """A heartbeat that was under way while it was pinned may have moved its own."""
        row = connection.execute(_LOCK, {"name": pin.name}).first()
        if row is not None and row.HPN_ID == pin.id:
            self._beat(connection, pin.txn_id, row.HPN_EXPIRES)  # R3: it may have been extended since it was looked at

    def settle(self) -> list[Pin]:
        """Let go of what was kept for pins that have ended, and which nobody reads by any more."""
        settled = []
        for pin in self.show(ended=True):
            if pin.state is not PinState.ENDED or self._is_read(pin):
                continue
            with contextlib.suppress(NoSuchTxnError, TxnAbortedError):
                self._client.commit_txn(pin.txn_id)
            self._database.run(lambda connection, pin=pin: self._settle(connection, pin))  # type: ignore[misc]
            settled.append(pin)
        return settled

    def _is_read(self, pin: Pin) -> bool:
        end = pin.end_txn or 0
        return self._database.read(lambda connection: connection.execute(_OLDER_OPEN, {"end": end}).first() is not None)

    def _settle(self, connection: Connection, pin: Pin) -> None:
        connection.execute(_STATE, {"pin": pin.id})
        # What the Cleaner has left is cleaned up after once more: no compaction may ever come by there again.
        held = select(_H.HPH_DATABASE, _H.HPH_TABLE, _H.HPH_PART_NAME, _H.HPH_WRITEID, _H.HPH_RUN_AS)
        for database, table, partition, highest, run_as in connection.execute(held.where(_H.HPH_PIN == pin.id)).all():
            clean_again(connection, TableName(database, table), partition or None, highest, run_as or self._client.user)
        connection.execute(delete(HIVE_ACID_PIN_HELD).where(_H.HPH_PIN == pin.id))
        connection.execute(
            update(HIVE_ACID_PIN).where(_P.HPN_ID == pin.id).values(HPN_STATE=PinState.SETTLED.value, HPN_BYTES=0)
        )

    def note_held(self, request: Compaction, held: Mapping[int, tuple[int, int]]) -> bool:
        """What the Cleaner left for pins in a table or partition.

        :param request: the compaction that was cleaned up after.
        :param held: by id of the pin, number of directories and bytes; none for those that hold nothing there.
        :return: false, and nothing is noted, when one of them was let go of meanwhile: look again.
        """

        resource, highest = request.resource, request.highest_write_id or 0

        def note(connection: Connection) -> bool:
            # R3: whoever lets go of a pin locks its row first, too.
            states = [connection.execute(_STATE, {"pin": pin}).scalar() for pin in sorted(held)]
            if not {None, PinState.SETTLED.value}.isdisjoint(states):
                return False
            here = (
                _H.HPH_DATABASE == resource.database,
                _H.HPH_TABLE == resource.table,
                _H.HPH_PART_NAME == (resource.partition or ""),
            )
            earlier = dict(connection.execute(select(_H.HPH_PIN, _H.HPH_WRITEID).where(*here)).all())
            # A clean-up that reached less far has not looked at all that an earlier one left.
            further = {pin for pin, reached in earlier.items() if reached > highest}
            connection.execute(delete(HIVE_ACID_PIN_HELD).where(*here, _H.HPH_WRITEID <= highest))
            for pin, (directories, size) in held.items():
                if pin in further:
                    continue
                connection.execute(insert(HIVE_ACID_PIN_HELD).values(
                    HPH_PIN=pin, HPH_DATABASE=resource.database, HPH_TABLE=resource.table,
                    HPH_PART_NAME=resource.partition or "", HPH_WRITEID=highest,
                    HPH_RUN_AS=request.run_as, HPH_DIRECTORIES=directories, HPH_BYTES=size,
                ))  # fmt: skip
            for pin in sorted({*earlier, *held}):
                total = select(func.coalesce(func.sum(_H.HPH_BYTES), 0)).where(_H.HPH_PIN == pin)
                found = int(connection.execute(total).scalar_one())
                connection.execute(
                    update(HIVE_ACID_PIN).where(_P.HPN_ID == pin).values(HPN_BYTES=found, HPN_MEASURED=clock_ms())
                )
            return True

        return self._database.run(note)

    def require_unpinned(self, tables: Iterable[str], what: str) -> None:
        """Refuse what would take from a pin what it needs.

        :param what: what is refused, for people.
        :raises TablePinnedError: naming the pin and the remedy.
        """
        wanted = set(tables)
        for pin in self.show():
            hit = sorted(wanted & set(pin.tables))
            if hit and overdue(pin) is None:
                raise TablePinnedError(
                    f"{hit[0]} is pinned by '{pin.name}' ({pin.user}) until {pin.until}, and {what} would take from it "
                    f"what it needs; nothing was changed. Wait, or drop the pin: hive-acid pin drop '{pin.name}'"
                )

    def forget(self, age_ms: int) -> int:
        """Forget pins that were settled longer ago than this; returns how many."""

        def run(connection: Connection) -> int:
            if not self._database.features(connection).pins:
                return 0
            ids = list(connection.execute(_FORGETTABLE, {"age": age_ms}).scalars())
            for pin in ids:
                connection.execute(delete(HIVE_ACID_PIN_TABLE).where(_T.HPT_PIN == pin))
                connection.execute(delete(HIVE_ACID_PIN).where(_P.HPN_ID == pin))
            return len(ids)

        return self._database.run(run)

    def _lock(self, connection: Connection, pin: Pin) -> None:
        row = connection.execute(_LOCK, {"name": pin.name}).first()
        if row is None or row.HPN_ID != pin.id:
            raise NoSuchPinError(f"{pin} has ended meanwhile")
