"""What can be set: one file per group of `config.yaml`, with ranges and defaults.

Imported by everything above, and importing nothing of it. The Python interface takes the same groups.
"""
