"""Which nodes an event touches and of which type it is: analyzer, features, model, novelty.

Called by the diagnosis service. Learns from labels; until there are enough of them it says nothing.
"""
