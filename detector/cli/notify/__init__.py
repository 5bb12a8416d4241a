"""Commands about who is told: silences, and a test alert.

Called by the command line; they talk to a running daemon over its API.
"""
