"""A recording tried without a configuration: looked at, learnt from, replayed, reported (`detector try`).

`survey` finds out what a configuration would say, `configuration` writes it, `trial` does what the
configuration says. Called by the command `try`, and from Python as `detector.try_recording`.
"""
