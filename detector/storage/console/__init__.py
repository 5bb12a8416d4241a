"""What the console shows and keeps: signals of nodes and incidents, comments, the audit trail. Bounded."""
