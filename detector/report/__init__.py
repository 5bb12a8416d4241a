"""Pages that need no server: of a calibration and of a replay, HTML with the figures inside.

Called by `detector learn --report` and `detector replay --report`. Nothing is loaded from elsewhere.
"""
