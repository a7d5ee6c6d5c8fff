"""Applications on YARN: the tags they are found by, and how one is ended whose driver runs there.

An application carries the name of its launch as a tag, and that of its task's try. So it can be ended at any time:
before spark-submit has said its id, when it has said nothing, and by the next try of a task whose worker is gone. YARN
is asked by its own command line client, which is among Spark's jars: spark-submit starts it with the same Hadoop
configuration and the same login as the application, and no ``yarn`` program is needed. Source: Spark's "Running on
YARN" (``spark.yarn.tags``) and Hadoop's ``yarn application``.
"""

from __future__ import annotations

import hashlib
import logging
import re
import subprocess
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

TAGS = "spark.yarn.tags"
_PRINCIPAL, _KEYTAB = "spark.kerberos.principal", "spark.kerberos.keytab"
_CLIENT = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
_UNENDED = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
_ID = re.compile(r"^\s*(application_\d+_\d+)\b", re.MULTILINE)
_SUBMITTED = re.compile(r"(?:Submitted application|Application report for) (application_\d+_\d+)\b")
_TRY = re.compile(r"(.+)#(\d{1,4})")
#: So many tries of a task are looked for; what is older left by itself long ago.
_TRIES = 20
_SECONDS = 60
_FRAME = re.compile(r"\s+at |\s+\.\.\. \d+ more|\s+Suppressed: ")


def is_yarn(master: str) -> bool:
    """Whether driver or executors are containers of YARN."""
    return master == "yarn"


def yarn_settings(master: str, conf: Mapping[str, str], spool: str, task: str | None = None) -> dict[str, str]:
    """The tags of an application, behind those that the user gives it.

    :param conf: all settings that Spark will see.
    :param spool: the application's; its name is that of the launch.
    :param task: whose it is, with the number of the try behind a ``#``.
    """
    if not is_yarn(master):
        return {}
    own = [tag.strip() for tag in conf.get(TAGS, "").split(",") if tag.strip()]
    return {TAGS: ",".join([*own, _launch(spool), *_tags_of_tries(task, last=True)])}


def _launch(spool: str) -> str:
    return f"hive-acid-{spool.rstrip('/').rpartition('/')[2]}"


def _tags_of_tries(task: str | None, *, last: bool) -> list[str]:
    """The tag of the last try, or those of all before it. YARN wants at most 100 ASCII characters in lower case."""
    match = _TRY.fullmatch(task or "")
    if match is None:
        return []
    name, number = hashlib.sha256(match[1].encode()).hexdigest()[:32], int(match[2])
    numbers = [number] if last else range(max(1, number - _TRIES), number)
    return [f"hive-acid-task-{name}-{each}" for each in numbers]


@dataclass(frozen=True, slots=True)
class YarnApplication:
    """The application of a driver on YARN, which spark-submit's end does not end.

    :param tags: it has one of them.
    :param program: the spark-submit that asked for it.
    :param environment: what that was started with.
    :param options: how it logged in, as options of the command line.
    """

    tags: tuple[str, ...]
    program: str
    environment: Mapping[str, str] = field(repr=False)
    options: tuple[str, ...] = ()

    @property
    def log_command(self) -> str:
        """Where its own log is: spark-submit says only how it fares."""
        return (
            "The driver's log, if it got that far: yarn logs -applicationId ID, where the ID is above, or what "
            f"'yarn application -list -appStates ALL -appTags {','.join(self.tags)}' names"
        )

    def delete(self, said: str = "") -> bool:
        """End it now; fine if it has ended. Never raises: whoever calls it is clearing up.

        :param said: the output of spark-submit; the id that it names spares the search for the tag.
        :return: whether YARN was told, or said that there is nothing to end.
        """
        submitted = _SUBMITTED.search(said)
        try:
            found = [submitted[1]] if submitted else self._find()
            if found:
                self._ask("-kill", *found)
        except (OSError, subprocess.SubprocessError) as error:
            log.warning(
                "the YARN application with the tag %s may still run: %s; find it with 'yarn application -list -appTags "
                "%s' and end it with 'yarn application -kill ID'",
                ",".join(self.tags),
                error,
                ",".join(self.tags),
            )
            return False
        log.info("YARN was told to end: %s", ", ".join(found) or "nothing, because no such application runs")
        return True

    def delete_in_background(self) -> threading.Thread:
        """:meth:`delete`, while somebody does what does not depend on it."""
        thread = threading.Thread(target=self.delete, name="hive-acid-yarn-kill", daemon=True)
        thread.start()
        return thread

    def _find(self) -> list[str]:
        return sorted(set(_ID.findall(self._ask("-list", "-appStates", _UNENDED, "-appTags", ",".join(self.tags)))))

    def _ask(self, *arguments: str) -> str:
        """What YARN's command line client says.

        :raises OSError: with the reason, when it fails.
        """
        command = [self.program, "--master", "local[1]", "--deploy-mode", "client", "--driver-memory", "256m"]
        done = subprocess.run(
            [*command, *self.options, "--class", _CLIENT, "spark-internal", "application", *arguments],
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            raise OSError(_reason(done.stderr))
        return done.stdout


def yarn_application(
    master: str,
    deploy_mode: str,
    conf: Mapping[str, str],
    program: str,
    environment: Mapping[str, str],
    *,
    spool: str,
    user: str | None = None,
    login: tuple[str, str] | None = None,
) -> YarnApplication | None:
    """The application of a driver on YARN, None where it has none.

    :param conf: all settings that Spark will see.
    :param user: whom it acts for.
    :param login: principal and keytab file, where the settings do not have them.
    """
    if deploy_mode != "cluster" or not is_yarn(master):
        return None
    return YarnApplication((_launch(spool),), program, environment, _options(conf, user, login))


def earlier_applications(own: YarnApplication, task: str | None) -> YarnApplication | None:
    """What earlier tries of a task may have left on YARN; None when there was none.

    :param own: the application of this try.
    :param task: whose it is, with the number of the try behind a ``#``.
    """
    tags = _tags_of_tries(task, last=False)
    if not tags:
        return None
    return YarnApplication(tuple(tags), own.program, own.environment, own.options)


def _options(conf: Mapping[str, str], user: str | None, login: tuple[str, str] | None) -> tuple[str, ...]:
    if user is not None:
        return ("--proxy-user", user)
    principal, keytab = login or (conf.get(_PRINCIPAL, "").strip(), conf.get(_KEYTAB, "").strip())
    return ("--principal", principal, "--keytab", keytab) if principal and keytab else ()


def _reason(output: str) -> str:
    """The last line of an output that is not a place in a stack trace."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not _FRAME.match(line)]
    return lines[-1][:500] if lines else "spark-submit gave no reason"
