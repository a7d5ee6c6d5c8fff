"""The demo: a year of real flights is loaded, changed in one transaction, compacted, cleaned and checked."""
