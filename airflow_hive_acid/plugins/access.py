"""Who may see and who may act: Airflow's own users and roles, a header against forged requests, and the audit log.

Airflow mounts an application of a plugin without any authentication, so every route asks here. Who may see custom views
may read. Who may edit the Airflow connection of a metastore may act on the metastore (op and admin of Airflow's simple
auth manager): whoever can do that can do all of this by other means, too. Where Airflow has teams, the metastore of a
team's connection is read by its members alone. Each action is in Airflow's audit log before it is begun, and each
refused one is there as well.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails
from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from fastapi import Depends, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from airflow_hive_acid.airflow_versions import TeamDetails
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.plugins import server_database
from airflow_hive_acid.plugins.failures import CsrfError, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastapi import Response

log = logging.getLogger(__name__)

VIEW = "Hive ACID"
HEADER = "X-Hive-Acid"
_ANONYMOUS = "anonymous"
_ANONYMOUS_ROWS_PER_MINUTE = 30
_LONGEST_BODY = 65_536


def reader(user: GetUserDep) -> Any:
    """The user, who may see the page.

    :raises HTTPException: 403 when not; 401 when nobody is logged in.
    """
    if not get_auth_manager().is_authorized_custom_view(method="GET", resource_name=VIEW, user=user):
        raise HTTPException(403, f"you may not see {VIEW}; ask for a role that may see this view")
    return user


Reader = Annotated[Any, Depends(reader)]


def may_read(user: Any, conn_id: str) -> bool:
    """Whether a user may read the metastore of a connection: where Airflow has teams, only those of its team.

    A connection of no team is everybody's who may see the page. Membership is asked for, not the right to read the
    connection: that one shows its fields, and viewers do not have it.
    """
    team = server_database.team_of(conn_id)
    if team is None:
        return True
    return bool(get_auth_manager().is_authorized_team(method="GET", details=TeamDetails(name=team), user=user))


def may_act(user: Any, conn_id: str) -> bool:
    """Whether a user may act on the metastore of a connection: whether they may edit the connection."""
    details = ConnectionDetails(conn_id=conn_id, team_name=server_database.team_of(conn_id))
    return bool(get_auth_manager().is_authorized_connection(method="PUT", details=details, user=user))


async def caller(request: Request, user: Annotated[Any, Depends(get_user)]) -> Any:
    """The user who acts; what is refused afterwards is in their name."""
    request.state.hive_acid_user = user.get_name()
    return user


def actor(request: Request, user: Annotated[Any, Depends(caller)], conn_id: str) -> str:
    """The name of a user who may act on a connection's metastore, once the action is noted.

    :raises CsrfError: for a request that another site's page may have sent.
    :raises HTTPException: 403 when the role does not allow it.
    """
    _check_origin(request)
    if not may_act(user, conn_id):
        raise HTTPException(
            403, f"your role may not act on {conn_id}: that takes the right to edit this connection (op or admin)"
        )
    name = str(user.get_name())
    request.state.hive_acid_row = server_database.note_action(
        _event(request), name, {**request.state.hive_acid_about, "outcome": "begun"}
    )
    return name


Actor = Annotated[str, Depends(actor)]


def _check_origin(request: Request) -> None:
    """A page of another site can send neither the header (that takes a preflight, which nobody answers) nor JSON."""
    if request.headers.get(HEADER) != "1":
        raise CsrfError(f"the header {HEADER}: 1 is missing; it shows that no other site's page sent this")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise CsrfError("send a JSON body, with Content-Type: application/json")
    by_token = request.headers.get("authorization", "").lower().startswith("bearer ")
    if not by_token and request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise CsrfError("a page of another site sent this (Sec-Fetch-Site)")


class AuditedRoute(APIRoute):
    """A route of an action: whatever becomes of a request is in Airflow's audit log."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with the audit around it."""
        handle = super().get_route_handler()

        async def audited(request: Request) -> Response:
            request.state.hive_acid_about = {**request.path_params, "method": request.method}
            try:
                await _read_body(request)
                request.state.hive_acid_about |= await _asked(request)
                response = await handle(request)
            except Exception as error:
                await run_in_threadpool(_note, request, status_of(error), str(getattr(error, "detail", error)))
                raise
            await run_in_threadpool(_note, request, response.status_code, "")
            return response

        return audited


def _event(request: Request) -> str:
    return f"hive_acid.{request.scope['route'].name}"


async def _read_body(request: Request) -> None:
    """Take in the body, whoever sends it, as far as a body of ours can be.

    :raises InvalidArgumentsError: for a longer one, of which nothing is kept.
    """
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > _LONGEST_BODY:
            raise InvalidArgumentsError(f"body: longer than {_LONGEST_BODY} bytes")
        parts.append(part)
    request._body = b"".join(parts)  # where Starlette keeps what was read


async def _asked(request: Request) -> dict[str, Any]:
    """What the body asks for, for the audit log."""
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        return {}
    if not isinstance(body, dict):
        return {}
    return {f"body.{key[:50]}": value for key, value in list(body.items())[:20] if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _note(request: Request, status: int, message: str) -> None:
    """Say in the audit log what became of an action."""
    state = request.state
    outcome = "done" if status < 300 else "refused" if status in (401, 403) else "failed"
    about = {**state.hive_acid_about, "outcome": outcome, "status": status, "message": message}
    row = getattr(state, "hive_acid_row", None)
    name = getattr(state, "hive_acid_user", None)
    try:
        if row is not None:
            server_database.complete_action(row, about)
        elif name is not None or _strangers.may_write():
            server_database.note_action(_event(request), name or _ANONYMOUS, about)
        else:
            log.warning("%s by nobody was refused; it is not in the audit log: too many of them", _event(request))
    except Exception:
        # What was done is done, and its row says that it was begun.
        log.exception("the outcome of %s is not in the audit log: %s", _event(request), about)


class _Bucket:
    """So many rows a minute: nobody without a name may fill Airflow's database."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = per_minute
        self._clock = clock
        self._left = float(per_minute)
        self._at = clock()
        self._lock = threading.Lock()

    def may_write(self) -> bool:
        """Whether one more is allowed."""
        with self._lock:
            now = self._clock()
            self._left = min(self._most, self._left + (now - self._at) * self._most / 60)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


_strangers = _Bucket(_ANONYMOUS_ROWS_PER_MINUTE)
