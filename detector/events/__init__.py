"""Events, the records that leave the program: fields, JSON Schema, wording, lines for a terminal.

Made by incidents and diagnosis, taken by sinks and pages. The `id` of an event is the same after a crash.
"""
