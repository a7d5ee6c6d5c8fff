"""What operators answer when Airflow's OpenLineage provider asks: answers, datasets and facets.

Gives :class:`TellsLineage`, which operators that run statements inherit. The rest is imported when the provider asks,
for it needs the provider's packages. May import hooks and what is below them, no operator.
"""

from airflow_hive_acid.operators.lineage.answers import TellsLineage

__all__ = ["TellsLineage"]
