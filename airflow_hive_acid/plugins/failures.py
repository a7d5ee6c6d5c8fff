"""What goes wrong, as answers: a status, a code for programs and a sentence for people, never a stack or a secret."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from airflow_hive_acid import errors
from airflow_hive_acid.hooks.secrets import redact

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

log = logging.getLogger(__name__)

_OF_STATUS = {401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "not_found", 422: "invalid"}
#: The first class that fits counts.
_OF_ERROR: tuple[tuple[type[Exception], int, str], ...] = (
    (errors.NoSuchTxnError, 404, "not_found"),
    (errors.NoSuchLockError, 404, "not_found"),
    (errors.NoSuchObjectError, 404, "not_found"),
    (errors.LeaseEndedError, 404, "not_found"),
    (errors.TxnOpenError, 409, "conflict"),
    (errors.ActionRefusedError, 409, "conflict"),
    (errors.InvalidArgumentsError, 422, "invalid"),
    (errors.UnsupportedStatementError, 422, "invalid"),
    (errors.MetastoreUnavailableError, 503, "metastore_unavailable"),
    (errors.SchemaVersionError, 503, "metastore_unusable"),
    (errors.ConfigurationError, 503, "metastore_unusable"),
    (errors.CorruptTableError, 409, "conflict"),
    (OSError, 503, "storage_unavailable"),
)


class CsrfError(HTTPException):
    """The request may have been made by another site's page."""

    def __init__(self, message: str) -> None:
        super().__init__(403, message)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as the API answers it."""

    status: int
    code: str
    message: str
    retryable: bool = False

    def response(self) -> JSONResponse:
        """The answer."""
        body = {"code": self.code, "message": self.message, "retryable": self.retryable}
        headers = {"WWW-Authenticate": "Bearer"} if self.status == 401 else None
        return JSONResponse({"error": body}, self.status, headers)


def failure_of(error: Exception) -> Failure:
    """What to answer to an error."""
    if isinstance(error, CsrfError):
        return Failure(403, "csrf", str(error.detail))
    if isinstance(error, StarletteHTTPException | HTTPException):
        status = 422 if error.status_code == 400 else error.status_code  # FastAPI: a body that is no JSON at all
        code = _OF_STATUS.get(status, "invalid" if status < 500 else "internal")
        return Failure(status, code, str(error.detail))
    if isinstance(error, RequestValidationError):
        return Failure(422, "invalid", "; ".join(map(_problem, error.errors()[:5])))
    for kind, status, code in _OF_ERROR:
        if isinstance(error, kind):
            return Failure(status, code, _text(error), getattr(error, "retryable", status == 503))
    if isinstance(error, errors.HiveAcidError):
        return Failure(409, "conflict", _text(error), error.retryable)
    return Failure(500, "internal", "something went wrong in the server; its log says what")


def status_of(error: Exception) -> int:
    """The status of the answer to an error."""
    return failure_of(error).status


def install(application: FastAPI) -> None:
    """Let an application answer errors in this form."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        failure = failure_of(error)
        if failure.status >= 500:
            log.warning("%s %s: %s: %s", request.method, request.url.path, type(error).__name__, error)
        return failure.response()

    for kind in (StarletteHTTPException, RequestValidationError, errors.HiveAcidError, OSError, Exception):
        application.add_exception_handler(kind, answer)


def _text(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"the files cannot be read: {type(error).__name__}"
    return str(redact(str(error)))


def _problem(found: Any) -> str:
    if found["type"] == "json_invalid":
        return "body: it is no JSON"
    where = ".".join(str(part) for part in found["loc"] if part not in ("body", "query", "path"))
    return f"{where or 'body'}: {found['msg']}"
