"""The service from start to stop: signals, systemd, reload, shutdown, and its status.

Called by `detector run`. Owns the event loop and all tasks of `runtime`; after a crash at any moment it
continues without a lost alert or a second one.
"""
