"""Statistics of one series at a time, for many nodes at once: scales, seasons, autoregression, trends, tails.

Called by preprocessing and calibration. Missing values are NaN; the result of a node depends on no other.
"""
