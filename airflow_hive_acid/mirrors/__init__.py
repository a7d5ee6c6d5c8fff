"""The control side of mirrors: copies of ACID tables in Iceberg and Delta that follow every commit.

``source`` says what a table looks like to a reader, ``runner`` opens that reader, lets the Spark job bring the target
to that state, and notes how far it has come; ``listing`` shows what is noted, ``reports`` are what a run has to say.
``cut_over`` makes the target the primary, and takes that back; ``imports`` compares an imported table with its source.
What is to be done is decided by ``format.mirrors``, here for a look without Spark and in the job for the target itself.
"""
