"""From samples to events: aligner, preprocessor, engine and incident tracker, tick by tick.

Called by the daemon's pipeline thread, by replays and by `detector.NetworkDetector`. Pure: no clock, thread,
file or log. The same samples give the same events bit for bit, and a checkpoint continues exactly.
"""
