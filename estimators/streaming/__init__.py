"""GRULSIF in a stream: sliding windows of all nodes, warm refits at each tick, statistics over the graph.

Called by the density-ratio engine at each tick; the inner loops are compiled. The result depends on the
samples only, not on how they were cut into batches.
"""
