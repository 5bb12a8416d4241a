"""The daemon: time, state, configuration, incidents, metrics, pages, commands."""
