"""Records on their way to a sink: what waits, what goes next, what was not taken, and the task that sends.

One `SinkTask` per sink, used by the daemon. The database keeps what waits and what is set aside
(`detector.storage.records`); here is what of it is in memory.
"""
