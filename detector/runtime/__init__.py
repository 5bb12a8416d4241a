"""Tasks and threads around the pipeline: sources, queue, pipeline thread, committer, sinks; metrics, logs.

Started by the daemon, one file per task. Back-pressure reaches from the disk to the sources: what is not
durable is not acknowledged.
"""
