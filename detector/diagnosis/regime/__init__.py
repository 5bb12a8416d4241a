"""Which regime a node has entered: analyzer, library, actions.

Called by the diagnosis service. Other daemons are asked by distances alone.
"""
