"""Jobs: a spec comes in, is run step by step, and a result goes out.

The only entrance from outside. Imports ``spark.write``, ``spark.read`` and below.
"""
