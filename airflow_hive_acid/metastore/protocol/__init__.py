"""How a txn lives: begin, wait for locks, hand over, commit; the transactions of DDL and of batches; pins.

Several verbs in the order that the protocol demands. What a verb does stands in the rooms below.
"""
