"""Synthetic data with known truth: the scenarios of the GRULSIF paper, and labelled events.

For tests, benchmarks and examples; the service itself does not use them.
"""
