"""The FastAPI application that Airflow's API server mounts under ``/hive-acid``.

It sees to what holds for every answer: errors in one form, headers that keep browsers from running or storing what they
should not, static files, the page for browsers without the globals of Airflow's own, and the description of the API.
"""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders

from airflow_hive_acid import __version__
from airflow_hive_acid.plugins import actions, description, failures
from airflow_hive_acid.plugins.access import Reader
from airflow_hive_acid.plugins.metastores import Metastores
from airflow_hive_acid.plugins.routes import activity, cache, mirrors, pins, replication, services, tables

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

STATIC = Path(__file__).parent / "static"
API = "/api/v1"
_POLICY = "default-src 'self'; frame-ancestors 'self'; base-uri 'self'; object-src 'none'; form-action 'self'"
_ABOUT = (
    "What goes on in a metastore of Hive ACID tables, and what can be done about it. Log in to Airflow, or send a "
    "token of its auth manager as Authorization: Bearer. Times are milliseconds since 1970 by the metastore's clock. "
    "Whatever changes something takes the header X-Hive-Acid: 1 and the right to edit the connection, and is in "
    "Airflow's audit log."
)


class Headers:
    """Middleware: what every answer says to browsers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and add headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def added(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = _POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"
                # Static files have an ETag: they are asked for, and mostly not sent again.
                headers["Cache-Control"] = "no-cache" if "etag" in headers else "no-store"
            await send(message)

        await self._app(scope, receive, added)


def make_application(metastores: Metastores | None = None) -> FastAPI:
    """The application.

    :param metastores: whose clients it uses; by default its own, closed at the end of the process.
    """
    application = FastAPI(
        title="Hive ACID", version=__version__, description=_ABOUT, openapi_url=None, docs_url=None, redoc_url=None
    )
    if metastores is None:
        metastores = Metastores()
        atexit.register(metastores.close)
    application.state.metastores = metastores
    application.state.pulses = services.Pulses()
    application.add_middleware(Headers)
    failures.install(application)
    for part in (activity, tables, cache, pins, replication, mirrors, services, actions):
        application.include_router(part.router, prefix=API)
    application.include_router(_description(application), prefix=API)
    application.add_api_route("/", _fallback, methods=["GET"], include_in_schema=False)
    application.mount("/static", StaticFiles(directory=STATIC), name="static")
    return application


def _description(application: FastAPI) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/openapi.json")
    def openapi(request: Request, user: Reader) -> Any:
        # Paths are relative to where Airflow has mounted this.
        return {**application.openapi(), "servers": [{"url": request.scope.get("root_path", "")}]}

    @router.get("/docs")
    def docs(user: Reader) -> HTMLResponse:
        return HTMLResponse(description.page(application.openapi()))

    return router


def _fallback() -> FileResponse:
    """The page in plain HTML. It holds no data: its script asks for that, as whoever is logged in."""
    return FileResponse(STATIC / "index.html", media_type="text/html")
