"""Commands on recordings that need no configuration: `try` and `compare`.

Each reads the form of a file from its first rows, and calls `detector.trial` or `detector.replay.comparison`.
"""
