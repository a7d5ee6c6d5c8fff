"""The queue of compactions and what stands around it: requests, runs, cleaning, decisions, measures and horizons."""
