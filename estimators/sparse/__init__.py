"""Sparse functions over centres and widths, found in the dual; resilient and federated variants.

Used for the sparse dictionary of the engine and for value ranges. Equation numbers are those of M. Peifer's
thesis (docs/mathematics.md).
"""
