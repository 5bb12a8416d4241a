"""Which regime a node has entered: analyzer, library, actions, and daemons that ask each other.

Called by the diagnosis service. Peers exchange distances, never samples.
"""
