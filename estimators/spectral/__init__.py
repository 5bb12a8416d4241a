"""Spectral regularisation: density ratios, weighted regression and novelty without choosing one lambda.

Called by the adaptation of models, by novelty and by coverage. Equation numbers are those of Nguyen,
Pereverzyev and Zellinger (docs/mathematics.md).
"""
