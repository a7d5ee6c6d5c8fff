"""Which parameters of its driver a metastore URL may carry: an allow-list for each driver.

Who writes a URL need not be who runs the process that connects: the page's API server connects to whatever a
connection names. So a parameter passes only if it neither reads a file for the server (``local_infile``,
``passfile``), nor runs something (``init_command``, SQLAlchemy's ``plugin``), nor writes (``sslkeylogfile``), nor
makes the line or the login weaker than they are without it (``sslmode=disable``, ``ssl_check_hostname=false``), nor
makes commits less durable (``options`` with ``synchronous_commit``). What the file options that remain name is used
for TLS here and is never sent: certificates and keys. docs/explanation/security.md has the tables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import sqlalchemy as sa

_ANY = re.compile(r"[^\0\r\n]{0,1000}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_FLAG = re.compile(r"[01]")
_ADDRESSES = re.compile(r"[^\0\r\n?&=]{1,1000}")
_TLS = re.compile(r"TLSv1\.[23]")
_SETTING = (
    r"(?:(?:search_path|statement_timeout|lock_timeout|idle_in_transaction_session_timeout)=[\w.,$\"-]+"
    r"|default_transaction_read_only=on)"
)
_OPTIONS = re.compile(rf"(?:\s*(?:-c\s*|--){_SETTING})+\s*")
_ENCRYPTED = re.compile("prefer|require|verify-ca|verify-full")
_PSYCOPG: Mapping[str, re.Pattern[str]] = {
    "host": _ADDRESSES,
    "hostaddr": _ADDRESSES,
    "port": re.compile(r"[0-9,]{1,100}"),
    "connect_timeout": _NUMBER,
    "application_name": _ANY,
    "fallback_application_name": _ANY,
    "client_encoding": re.compile("(?i:utf-?8)"),
    "options": _OPTIONS,
    "keepalives": _FLAG,
    "keepalives_idle": _NUMBER,
    "keepalives_interval": _NUMBER,
    "keepalives_count": _NUMBER,
    "tcp_user_timeout": _NUMBER,
    "sslmode": _ENCRYPTED,
    "sslnegotiation": re.compile("postgres|direct"),
    "sslrootcert": _ANY,
    "sslcert": _ANY,
    "sslkey": _ANY,
    "sslpassword": _ANY,
    "sslcrl": _ANY,
    "sslcrldir": _ANY,
    "sslcertmode": re.compile("allow|require|disable"),
    "sslsni": _FLAG,
    "ssl_min_protocol_version": _TLS,
    "ssl_max_protocol_version": _TLS,
    "channel_binding": re.compile("prefer|require"),
    "require_auth": _ANY,
    "requirepeer": _ANY,
    "gssencmode": re.compile("prefer|require|disable"),
    "krbsrvname": _ANY,
    "target_session_attrs": re.compile("any|read-write|primary"),
    "load_balance_hosts": re.compile("disable|random"),
}
_PYMYSQL: Mapping[str, re.Pattern[str]] = {
    "charset": re.compile("utf8mb4|utf8mb3|utf8|latin1"),
    "connect_timeout": _NUMBER,
    "read_timeout": _NUMBER,
    "write_timeout": _NUMBER,
    "unix_socket": _ANY,
    "ssl_ca": _ANY,
    "ssl_capath": _ANY,
    "ssl_cert": _ANY,
    "ssl_key": _ANY,
    "ssl_check_hostname": re.compile("(?i:true|1)"),
}
_OF_DRIVER = {"postgresql": _PSYCOPG, "mysql": _PYMYSQL}
_ON_THIS_MACHINE = ("", "localhost", "127.0.0.1", "::1")
_REMEDIES = {
    "user": "write the user before the @",
    "password": "write the password before the @",
    "passwd": "write the password before the @",
    "sslmode": "leave it out, or say require, verify-ca or verify-full; disable is for servers on this machine",
    "options": "it may set search_path, statement_timeout, lock_timeout, idle_in_transaction_session_timeout, and "
    "default_transaction_read_only=on",
    "ssl_verify_cert": "ssl_ca alone checks the certificate and the host's name",
    "ssl_verify_identity": "ssl_ca alone checks the certificate and the host's name",
    "ssl_check_hostname": "with ssl_ca the host's name is checked; it cannot be switched off",
}


def check_parameters(url: sa.URL, shown: str) -> None:
    """Refuse a parameter that is not on the list of the URL's driver.

    :param url: of PostgreSQL or MySQL.
    :param shown: the URL as messages may show it.
    :raises InvalidArgumentsError: names the parameter and the remedy, never its value: it may be a secret.
    """
    backend = url.get_backend_name()
    allowed = _OF_DRIVER[backend]
    for name, value in url.query.items():
        pattern = allowed.get(name)
        values = (value,) if isinstance(value, str) else value
        if pattern is None:
            remedy = _REMEDIES.get(name, f"allowed are {', '.join(allowed)}")
            raise InvalidArgumentsError(f"the metastore URL {shown} has the parameter {name[:60]!r}; {remedy}")
        if _is_unencrypted_here(url, name, values):
            continue
        several = name in ("host", "port", "hostaddr")
        if not all(pattern.fullmatch(one) for one in values) or (len(values) > 1 and not several):
            remedy = _REMEDIES.get(name, f"it must look like {pattern.pattern}")
            raise InvalidArgumentsError(
                f"the parameter {name!r} of the metastore URL {shown} has a value that is refused; {remedy}"
            )


def _is_unencrypted_here(url: sa.URL, name: str, values: tuple[str, ...]) -> bool:
    """Whether it switches off encryption on a way that does not leave this machine."""
    if name != "sslmode" or values not in (("disable",), ("allow",)):
        return False
    given = url.query.get("host", ())
    hosts = [url.host or "", *((given,) if isinstance(given, str) else given)]
    here = all(host in _ON_THIS_MACHINE or host.startswith("/") for host in ",".join(hosts).split(","))
    return here and "hostaddr" not in url.query
