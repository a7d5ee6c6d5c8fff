"""Replication for tasks: policies from Airflow's configuration, the two sites of one, and its asset."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, Variable

from airflow_hive_acid.airflow_versions import conf
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.configuration import SECTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.replication.site import Site

OPTION = "replication_policies"
"""Of Airflow's ``[hive_acid]`` section: where the policies are."""
_VARIABLE = "variable:"
REPLICATED = AssetAlias(name="hive_acid_replicated")
"""The outlet of replication: an event is sent for each commit that was replicated, and none when there was none."""


def policy_asset(name: str) -> Asset:
    """The asset of a policy, to schedule a DAG on what arrives at its replica: an event for each commit.

    :param name: of the policy.
    """
    return Asset(name=f"hive_acid_replicated/{name}", uri=f"x-hive-acid://replicated/{name}")


def configured_policies() -> tuple[Policy, ...]:
    """The policies of ``[hive_acid] replication_policies``: a path of a JSON or TOML file, ``variable:`` and the name
    of an Airflow variable, or the JSON itself; none when the option is empty.

    :raises InvalidArgumentsError: when they cannot be read or be in force together; names the place.
    """
    from airflow_hive_acid.replication.policies.policy import read_policies, read_policy_file

    text = (conf.get(SECTION, OPTION, fallback=None) or "").strip()
    where = f"[{SECTION}] {OPTION}"
    if not text:
        return ()
    if text.startswith(("[", "{")):
        return read_policies(text, where)
    if text.startswith(_VARIABLE):
        name = text.removeprefix(_VARIABLE).strip()
        value = Variable.get(name, default=None)
        if value is None:
            raise InvalidArgumentsError(f"{where} = {text!r}: Airflow has no variable {name!r}; make it, or clear this")
        return read_policies(str(value), f"variable {name}")
    return read_policy_file(Path(text).expanduser())


def policy_of(given: str | Mapping[str, Any] | Policy) -> Policy:
    """A policy by its name, from its document, or as it is.

    :raises InvalidArgumentsError: when it is none.
    """
    from airflow_hive_acid.replication.policies.policy import Policy, named, policy

    if isinstance(given, Policy):
        return given
    return named(configured_policies(), given) if isinstance(given, str) else policy(dict(given))


@contextlib.contextmanager
def open_sites(one: Policy) -> Iterator[tuple[HiveAcidHook, HiveAcidHook, Site, Site]]:
    """Hooks and sites of a policy, source first; closed at the end."""
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook

    with HiveAcidHook(one.source) as source, HiveAcidHook(one.destination) as target:
        yield source, target, source.get_site(), target.get_site()
