"""Daemons of several sites that ask each other over a broker: messages, and the task that carries them.

Analyzers ask through the repository, and leave with the exchange what questions of others are answered from.
Questions and answers are bounded, versioned and limited per minute; values of sensors and names of nodes are
not among them.
"""
