"""Real Spark applications that tests share: each start of one costs ten seconds of a core."""

from __future__ import annotations

from typing import Any


class OneApplication:
    """A launcher that starts one application and hands it to every engine; closing an engine leaves it running.

    :param launcher: starts the application.
    """

    def __init__(self, launcher: Any) -> None:
        self._launcher = launcher
        self._session: Any = None

    def start(self, application: Any = None) -> Any:
        """The application, started anew if it has ended."""
        if self._session is None or not self._session.is_alive:
            self._session = self._launcher.start()
        return _Lent(self._session)

    def stop(self) -> None:
        """End it for all."""
        if self._session is not None:
            self._session.close()


class _Lent:
    """The session, but for its end."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def close(self) -> None:
        """Somebody else may still need it."""
