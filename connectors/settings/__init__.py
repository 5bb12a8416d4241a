"""Settings that several connectors share: secrets and TLS, HTTP clients, durations and sizes in words.

Secrets come from files or the environment and are never printed, neither in errors nor by `repr`.
"""
