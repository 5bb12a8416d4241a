"""Who is told of what: routes by severity and groups of nodes, silences and maintenance windows.

Called by the daemon when a record is put into the outbox; silences are kept in the database.
"""
