"""Recordings run through the pipeline: reading them, ground truth, timelines, scores against labels.

Called by `detector replay` and `detector learn`. The pipeline is the daemon's own, so a replay says what the
daemon would have said.
"""
