"""Commands about who is told: silences, and a test alert.

Called by `cli.main`; they ask the running daemon, which keeps the silences and sends the alert.
"""
