"""Builders of the DAGs that come with the package; the files in ``dags/`` only call them."""
