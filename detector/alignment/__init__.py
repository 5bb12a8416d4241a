"""Samples of any order to ticks: event time, watermark, late and duplicate samples, silent and stuck nodes.

Called first by the pipeline. Every sample is used or counted.
"""
