"""The network: nodes and links, read from files, learnt from correlations, laid out and drawn.

Called by configuration, calibration and pages. The numbers of nodes are fixed once; `node_index` finds names.
"""
