"""What survives a restart: one SQLite database with journal, snapshots, records, cases and models.

Blocking calls only, made from threads of `runtime` and `diagnosis`. One transaction holds everything that
belongs together; nothing is pickled; older schemas are migrated on opening.
"""
