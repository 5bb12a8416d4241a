"""Engines: from preprocessed values to a statistic per node and per neighbourhood; `estimator.name` chooses.

Called by the pipeline at each tick. Another package brings one by an entry point `detector.engines`.
"""
