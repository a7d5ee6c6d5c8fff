"""A statement → a plan and the locks it needs. Pure: what it must know of the catalog is handed in."""
