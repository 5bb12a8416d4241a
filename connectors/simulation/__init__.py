"""A built-in sensor network with known changes: the source `simulate`.

Used by the default configuration, the tests and the benchmarks. Every value is a function of seed and tick,
so the stream can be resumed anywhere and the truth is known.
"""
