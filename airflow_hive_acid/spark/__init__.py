"""The data plane: runs inside Spark, reads snapshots, writes staging. Imports ``format/`` and the errors only."""
