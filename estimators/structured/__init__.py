"""Localized structured prediction: the footprint of an event, learnt from labelled events.

Called by the footprint analyzer. What was learnt at one node serves all; graphs may differ between events.
"""
