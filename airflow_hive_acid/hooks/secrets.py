"""Telling Airflow's masker what is secret in the fields of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Airflow's own compatibility provider takes it from there as well, though no stub says that it may be taken.
from airflow_hive_acid.airflow_versions import mask_secret, redact
from airflow_hive_acid.sql.text.masking import is_secret, secrets_in

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["mask_secrets", "redact"]


def mask_secrets(fields: Iterable[Any]) -> None:
    """Have the secrets in texts of statements, and in options by their names, masked from now on.

    :param fields: rendered: texts, or lists and dictionaries of them; others are left alone.
    """
    for field in fields:
        if isinstance(field, str):
            for value in secrets_in(field):
                mask_secret(value)
        elif isinstance(field, dict):
            for key, value in field.items():
                if isinstance(value, str) and is_secret(str(key)):
                    mask_secret(value)
                else:
                    mask_secrets([value])
        elif isinstance(field, list | tuple):
            mask_secrets(field)
