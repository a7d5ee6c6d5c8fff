"""The plugin that Airflow loads (entry point ``airflow.plugins``).

Airflow imports it at the start of nearly every process, so the application behind it is made when the API server first
gets a request for it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from airflow_hive_acid import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from fastapi import FastAPI

NAME = "Hive ACID"
PREFIX = "/hive-acid"
_STATIC = f"{PREFIX.removeprefix('/')}/static"


class LazyApplication:
    """An ASGI application that is made with its first request."""

    def __init__(self) -> None:
        self._application: FastAPI | None = None
        self._lock = threading.Lock()

    def get(self) -> FastAPI:
        """The application."""
        with self._lock:
            if self._application is None:
                from airflow_hive_acid.plugins.application import make_application

                self._application = make_application()
            return self._application

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        await self.get()(scope, receive, send)


class HiveAcidPlugin(AirflowPlugin):
    """The page "Hive ACID" and its API."""

    name = "hive_acid"
    fastapi_apps = [{"app": LazyApplication(), "url_prefix": PREFIX, "name": NAME}]  # noqa: RUF012 - as Airflow has it
    react_apps = [  # noqa: RUF012
        {
            "name": NAME,
            "bundle_url": f"{_STATIC}/page.js?v={__version__}",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "hive-acid",
            "icon": f"{_STATIC}/icon.svg",
            "icon_dark_mode": f"{_STATIC}/icon-dark.svg",
        }
    ]
