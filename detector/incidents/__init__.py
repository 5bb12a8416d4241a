"""From alarmed nodes to incidents: opened, updated, resolved; members, descriptions, case files.

Called by the pipeline at each tick. Linked nodes that change together are one incident.
"""
