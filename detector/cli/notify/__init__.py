"""Commands about who is told: silences, and a test alert.

Silences are asked of the running daemon; a test alert goes out through the real sinks without it.
"""
