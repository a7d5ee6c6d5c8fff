"""Waits until no lease is in the way any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.faces import renamed
from airflow_hive_acid.hooks.arguments import Takes, check_parsed, some_text, texts
from airflow_hive_acid.hooks.links import object_filters
from airflow_hive_acid.sensors.base import MetastoreSensor
from airflow_hive_acid.triggers.leases import LeasesEndedTrigger, LeasesQuestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.triggers.base import QuestionTrigger
    from airflow_hive_acid.triggers.questions import Question


class HiveAcidLeaseSensor(MetastoreSensor):
    """Waits until nobody holds a lease that excludes one of ``type`` on the objects; it takes none itself.

    When it gives up it says which leases are still held, by whom, since when and until when.

    :param objects: one or several of ``db.table`` and ``db.table/k=v``. (templated)
    :param type: ``x`` waits for every lease, ``s`` only for exclusive ones. (templated)
    :param deferrable: wait in the triggerer instead of in a worker slot.
    :param hive_acid_conn_id: connection of type ``hive_acid``. (templated)
    """

    template_fields: Sequence[str] = ("objects", "type", "hive_acid_conn_id")
    ui_color = "#fff2cc"
    takes: ClassVar[Takes] = {
        "objects": texts("tables or partitions, as db.table or db.table/k=v"),
        "type": some_text("x, exclusive, or s, shared"),
    }

    def __init__(self, *, objects: str | Sequence[str], type: str = "x", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.objects = objects
        self.type = type
        check_parsed(self, self.takes)

    def question(self, client: MetastoreClient) -> Question:
        """Is no lease in the way?"""
        from airflow_hive_acid.hooks.leases import objects_of

        return LeasesQuestion(tuple(objects_of(self.objects)), self.type)

    def page(self) -> dict[str, Any]:
        """The leases of the first object."""
        first = self.objects if isinstance(self.objects, str) else next(iter(self.objects), "")
        table, _, _ = first.partition("/")
        return {"view": "leases", **object_filters(table)}

    def trigger(self, question: Question, until: float) -> QuestionTrigger:
        """What waits for it."""
        from airflow_hive_acid.hooks.leases import objects_of

        return LeasesEndedTrigger(
            list(objects_of(self.objects)), self.type, until, self.hive_acid_conn_id, float(self.poke_interval)
        )


__getattr__ = renamed(__name__, {"HiveLeaseSensor": "HiveAcidLeaseSensor"})
