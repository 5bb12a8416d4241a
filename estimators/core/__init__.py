"""What all estimators build on: array types, kernels, dictionaries, features, the graph, the base class.

Imported by every other package of `estimators`, and importing none of them.
"""
