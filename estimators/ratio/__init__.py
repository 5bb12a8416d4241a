"""Likelihood ratios of two windows per node: GRULSIF and POOL over a graph; RULSIF, ULSIF, KLIEP by node.

The estimators of `estimators.ESTIMATORS`, their solvers and their selection of hyper-parameters. Equation
numbers are those of the GRULSIF paper (docs/mathematics.md).
"""
