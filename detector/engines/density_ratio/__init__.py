"""Density ratios of each node's windows, coupled over the graph: the engine, and how it is calibrated.

Called by the pipeline as any engine is. The promise, a rate of false incidents of the whole network, is
checked on a part of the history by which nothing was chosen.
"""

from detector.engines.calibration_report import Choice
from detector.engines.density_ratio.engine import DensityRatioEngine

__all__ = ["Choice", "DensityRatioEngine"]
