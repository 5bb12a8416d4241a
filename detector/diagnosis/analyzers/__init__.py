"""Analyzers of one case each: how a change goes on, which values moved, is it new, is it real.

Called by the diagnosis service through the registry. The same case and models give the same finding.
"""
