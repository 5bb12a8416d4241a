"""What the console shows and keeps: signals of nodes and incidents, comments, the audit trail.

Called by `detector.storage.store` in the database's thread. Everything here is bounded; without it detection
goes on unchanged.
"""
