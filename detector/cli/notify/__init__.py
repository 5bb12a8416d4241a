"""Commands about who is told: silences, and a test alert.

<<<<<<< HEAD
Called by `cli.main`; they ask the running daemon, which keeps the silences and sends the alert.
=======
Called by the command line; they talk to a running daemon over its API.
>>>>>>> main
"""
