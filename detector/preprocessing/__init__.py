"""Values to units of each node's normal spread: seasons, scale, differences, whitening, lags, spikes.

Called by the pipeline before the engine. Another package brings a step by an entry point `detector.steps`.
"""
