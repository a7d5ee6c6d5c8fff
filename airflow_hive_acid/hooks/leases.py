"""Leases that cross Airflow tasks: what may be seen is the id, what opens the lease is sealed.

A lease is grabbed in one task, used in others and dropped in a last one. What goes from task to task (XCom, trigger,
task state) is a document that anybody may read: id, objects, type, times, and the secret under a pad that is derived
from the connection's complete metastore URL, its password included. A process that has the connection can open it;
for anybody else it is noise, and a guess at the password cannot be tried on it, because every guess yields a secret of
the same random look. In a process that knows a secret Airflow's masker knows it, too.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import json
import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.airflow_versions import mask_secret
from airflow_hive_acid.errors import (
    ExceedsMaxLeaseTimeError,
    HiveAcidError,
    InvalidArgumentsError,
)
from airflow_hive_acid.hooks.lives import task_life
from airflow_hive_acid.metastore.leases import Lease, LeaseObject, new_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hive_acid.hooks.interface import ConnectedHook
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.leases import KeptLease

log = logging.getLogger(__name__)

_SALT_BYTES, _SECRET_BYTES = 16, 32
_COST = 2**14
_STATE_KEY = "hive_acid_lease_secret"
_DROP_KEY = "hive_acid_lease_dropped"
_MOMENT = 1.0
"""Seconds of a lease that is only named to be given back."""
_SEALED = "sealed"


def seal_lease(client: MetastoreClient, lease: Lease) -> dict[str, Any]:
    """The document of a lease for other tasks; plain JSON values, nothing in it needs to be hidden."""
    _mask(lease)
    document = lease.to_document()
    del document["token"]
    return {"lease_id": lease.lease_id, **document, _SEALED: seal_secret(client, lease.secret)}


def open_lease(client: MetastoreClient, sealed: object) -> Lease:
    """The lease of a document of :func:`seal_lease`.

    :param sealed: the document, or its text, as a template renders it.
    :raises InvalidArgumentsError: when it is none. Whether the lease is held only the metastore knows.
    """
    document = _read(sealed)
    try:
        secret = open_secret(client, document[_SEALED])
        lease = Lease.from_document({**document, "token": f"{int(document['lease_id'])}.{secret}"})
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentsError(
            "lease is not what HiveAcidGrabLeaseOperator returns; give it that operator's output (lease=grab.output)"
        ) from error
    _mask(lease)
    return lease


def seal_secret(client: MetastoreClient, secret: str) -> str:
    """A secret of a lease as text that only a process with the connection can read."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return base64.urlsafe_b64encode(salt + _under_pad(client, salt, base64.urlsafe_b64decode(secret + "="))).decode()


def open_secret(client: MetastoreClient, sealed: str) -> str:
    """The secret of a text of :func:`seal_secret`; of one made with another connection some other secret.

    :raises ValueError: when it is no such text.
    """
    raw = base64.urlsafe_b64decode(sealed.encode())
    if len(raw) != _SALT_BYTES + _SECRET_BYTES:
        raise ValueError("not a sealed secret")
    secret = base64.urlsafe_b64encode(_under_pad(client, raw[:_SALT_BYTES], raw[_SALT_BYTES:])).decode().rstrip("=")
    mask_secret(secret)
    return secret


def secret_of_task(
    client: MetastoreClient, context: Mapping[str, Any], objects: Sequence[str], lease_type: str, *, resume: bool
) -> str:
    """The secret that a try of a task instance uses, with what an earlier try has left settled.

    :param resume: a retry goes on with the lease that the try before was granted. Otherwise, when the task was cleared,
        and when something else is to be leased than then, that lease is dropped: whoever still works under it, a lost
        worker perhaps, can commit nothing more, and this try stands in line for a lease with a larger id.
    :raises InvalidArgumentsError: for an object that is none, none at all, or an unknown type.
    """
    store, life = context.get("task_state_store"), task_life(context)
    wanted = [[*each.place, each.lease_type.value] for each in client.leases.objects(objects, lease_type)]
    kept = None if store is None else store.get(_STATE_KEY)
    if isinstance(kept, Mapping):
        try:
            earlier, asked = open_secret(client, kept[_SEALED]), kept.get("objects", wanted)
            if resume and str(kept["life"]) == life and asked == wanted:
                return earlier
            client.leases.waiting_grab([LeaseObject(*each) for each in asked], _MOMENT, secret=earlier).give_up()
        except (KeyError, TypeError, ValueError) as problem:
            log.warning("what an earlier try was granted cannot be given back, and will end by itself: %s", problem)
    secret = new_secret()
    mask_secret(secret)
    if store is not None:
        store.set(_STATE_KEY, {"life": life, "objects": wanted, _SEALED: seal_secret(client, secret)})
    return secret


def dropped_before(context: Mapping[str, Any], lease_id: int) -> bool:
    """Whether an earlier try of a task instance has begun to drop a lease; from now on one has.

    Where an Airflow keeps nothing for task instances, every earlier try counts as one.
    """
    store = context.get("task_state_store")
    if store is None:
        return int(context["ti"].try_number) > 1
    if store.get(_DROP_KEY) == lease_id:
        return True
    store.set(_DROP_KEY, lease_id)
    return False


@contextlib.contextmanager
def kept_lease(hook: ConnectedHook, sealed: object, *, is_given: bool) -> Iterator[KeptLease | None]:
    """Extend the lease of a document, at once and while a block runs; an empty text is no lease.

    :param is_given: whether the DAG file names one; None is no lease otherwise.
    :raises InvalidArgumentsError: when it names one and there is none: without it nothing would be protected.
    :raises LeaseEndedError: before the block, when the lease is not held; after it, when it failed because the lease
        was lost.
    """
    from airflow_hive_acid.metastore.leases import KeptLease

    if is_given and sealed in (None, "None"):
        raise InvalidArgumentsError(
            "lease came out as None: the task that grabs it was skipped, failed, or was marked by hand, and without it "
            "nothing is done here. Clear that task; where it may be left out, give an empty text then: "
            "lease=\"{{ ti.xcom_pull('grab') or '' }}\""
        )
    if sealed in (None, "", "None"):
        yield None
        return
    client = hook.get_conn()
    with KeptLease(client.leases, renewed(client, open_lease(client, sealed))) as keeper:
        try:
            yield keeper
        except HiveAcidError as failure:
            if keeper.lost is None:
                raise
            raise keeper.lost from failure


def renewed(client: MetastoreClient, lease: Lease) -> Lease:
    """A lease of a task before, lasting again: what is left of it may be less than the time to the next extension.

    :raises LeaseEndedError: when it is not held.
    """
    try:
        return client.leases.extend_lease(lease)
    except ExceedsMaxLeaseTimeError:
        return client.leases.require_lease(lease)


def objects_of(given: str | Sequence[str]) -> list[str]:
    """Objects as an operator takes them: one, or several, ``db.table`` or ``db.table/k=v``.

    :raises InvalidArgumentsError: when there are none.
    """
    found = [given] if isinstance(given, str) else list(given)
    if not found or not all(isinstance(name, str) and name.strip() for name in found):
        raise InvalidArgumentsError(
            f"name the tables or partitions to lease as db.table or db.table/k=v, not {given!r}"
        )
    return [name.strip() for name in found]


def describe(lease: Lease) -> str:
    """A lease for the log: nothing secret in it."""
    places = ", ".join(f"{each.lease_type.value} on {each.describe()}" for each in lease.objects)
    return f"lease {lease.lease_id} ({places})"


def _mask(lease: Lease) -> None:
    mask_secret(lease.secret)
    mask_secret(lease.token)


def _read(sealed: object) -> Mapping[str, Any]:
    """A template renders a document to the text of a Python dict, or with ``tojson`` to JSON."""
    readers: tuple[Callable[[str], Any], ...] = (json.loads, ast.literal_eval)
    text, found = sealed, sealed
    if isinstance(text, str):
        for read in readers:
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                found = read(text)
                break
    if isinstance(found, Mapping):
        return found
    raise InvalidArgumentsError(
        f"lease is of type {type(sealed).__name__}; give it the output of a HiveAcidGrabLeaseOperator "
        "(lease=grab.output)"
    )


def _under_pad(client: MetastoreClient, salt: bytes, text: bytes) -> bytes:
    url = client.database.url.render_as_string(hide_password=False)
    pad = hashlib.scrypt(url.encode(), salt=salt, n=_COST, r=8, p=1, dklen=_SECRET_BYTES)
    return bytes(a ^ b for a, b in zip(text, pad, strict=True))
