"""Cleaning up for one request of the queue: after a compaction, or after a drop."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.maintenance.cleaner.dropped import remove_dropped
from airflow_hive_acid.maintenance.cleaner.endings import Account, settle, settle_failure
from airflow_hive_acid.maintenance.cleaner.replaced import remove_replaced
from airflow_hive_acid.maintenance.cleaner.subject import find_subject, read_readers

if TYPE_CHECKING:
    from airflow_hive_acid.maintenance.cleaner.look import Look
    from airflow_hive_acid.maintenance.decisions import CleaningOutcome
    from airflow_hive_acid.metastore.compaction import Compaction

log = logging.getLogger(__name__)


def clean_up(look: Look, request: Compaction) -> CleaningOutcome:
    """Do it, and say what was done; a failure is recorded for a later try and stops nobody else's clean-up.

    :param request: is ready for cleaning.
    """
    account = Account()
    try:
        # In this order: of a table that has taken the name in between, what is known of the one before says nothing.
        subject = find_subject(look.client, request.resource)
        readers = read_readers(look.client, request)
        with ExitStack() as locks:  # held until the ending is written down
            if request.soft_deleted_location is None:
                ending = remove_replaced(look, request, subject, readers, account, locks)
            else:
                ending = remove_dropped(look, request, subject, readers, account, locks)
            return settle(look, request, ending, account)
    except Exception as error:
        if not isinstance(error, HiveAcidError | OSError):
            log.exception("clean-up of compaction %d failed", request.id)
        return settle_failure(look, request, error, account)
