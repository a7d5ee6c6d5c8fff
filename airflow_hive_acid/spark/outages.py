"""Failures of a storage that say nothing about the files on it (R17).

A token that is over, a login that nobody renews, a name node that is down: Spark and ORC report each of them as a file
that cannot be read. Whoever takes that for damage restores a table that is whole. The signs are names of classes and
texts of Hadoop's clients (``SecretManager``, ``SaslRpcClient``, ``NetUtils.wrapException``).
"""

from __future__ import annotations

import re

_LOGIN = re.compile(
    r"SecretManager\$InvalidToken|Failed to find any Kerberos tgt|GSS initiate failed|Client cannot authenticate via"
)
_SILENT = re.compile(
    r"java\.net\.(?:ConnectException|NoRouteToHostException|UnknownHostException|SocketTimeoutException)"
    r"|ConnectTimeoutException|ipc\.(?:StandbyException|RetriableException)"
)
_FIRST = 300


def login_is_over(text: str) -> str | None:
    """What to say of a failure whose cause is a Kerberos login or a token that is over; None when it is none.

    :param text: messages and causes of a Java exception.
    """
    line = _line(_LOGIN, text)
    if line is None:
        return None
    return (
        f"Hadoop refused the login of the Spark application, or its tokens are over ({line}). Nothing of this step is "
        "visible; try again with a login that is renewed: principal and keytab in the extra of the Spark connection, "
        "or, with deploy mode client, a ticket cache (KRB5CCNAME) that is kept fresh by k5start or 'airflow kerberos'"
    )


def storage_is_silent(text: str) -> str | None:
    """What to say of a file that could not be read because its storage gave no answer; None for other reasons."""
    line = _line(_SILENT, text)
    if line is None:
        return None
    return f"the storage gave no answer that says anything about its files ({line}); try again when it answers"


def _line(sign: re.Pattern[str], text: str) -> str | None:
    """The line of the innermost cause that has a sign."""
    found = [line.strip() for line in text.splitlines() if sign.search(line)]
    return found[-1].removeprefix("Caused by: ")[:_FIRST] if found else None
