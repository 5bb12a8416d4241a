"""Regimes by distances alone: kernel affine hull machines, a library of regimes, features of windows.

Called by the regime analyzer. A library answers with tables of distances; samples never leave it.
"""
