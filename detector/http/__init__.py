"""The listener: status page, metrics, health, incidents, streams of events, ingest routes of sources.

Started by the daemon. What changes something needs the token where one is set; slow or hostile clients cannot
hold up detection.
"""
