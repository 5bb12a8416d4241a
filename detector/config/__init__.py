"""`config.yaml`: read strictly, explained by line and column, turned into settings, network and connectors.

Called by all commands. An error names file, line, key and value, never a secret; all are told at once. The
reference, the JSON Schema and `detector init` are made from the same models.
"""
