"""The mathematics of detector: arrays in, arrays out; no clock, no file, no thread.

Five estimators with one interface (see base.Estimator), by the names used in configurations: ESTIMATORS.
Beside them, for what comes after an alarm: FootprintPredictor, RegimeLibrary, SpectralRatio, Iwrls,
Christoffel.
"""

from estimators.base import Estimator, NotFittedError, Selection
from estimators.christoffel import Christoffel
from estimators.dictionary import Dictionary
from estimators.features import Nystroem
from estimators.footprint import Footprint, FootprintPredictor, TooFewEventsError
from estimators.graph import Graph
from estimators.grulsif import Grulsif, Pool
from estimators.iwrls import Iwrls
from estimators.kahm import Kahm, KahmGroup
from estimators.kliep import Kliep
from estimators.part_ridge import PartRidge
from estimators.parts import LabelledEvent
from estimators.regimes import RegimeLibrary, RegimeStructure, RegimeVerdict
from estimators.rulsif import Rulsif, Ulsif
from estimators.scenarios import SCENARIOS, Scenario, scenario
from estimators.shapes import FeatureSpec
from estimators.solvers import ConvergenceWarning
from estimators.spectral_ratio import SpectralRatio

ESTIMATORS: dict[str, type[Estimator]] = {
    "grulsif": Grulsif,
    "pool": Pool,
    "rulsif": Rulsif,
    "ulsif": Ulsif,
    "kliep": Kliep,
}

__all__ = [
    "ESTIMATORS",
    "SCENARIOS",
    "Christoffel",
    "ConvergenceWarning",
    "Dictionary",
    "Estimator",
    "FeatureSpec",
    "Footprint",
    "FootprintPredictor",
    "Graph",
    "Grulsif",
    "Iwrls",
    "Kahm",
    "KahmGroup",
    "Kliep",
    "LabelledEvent",
    "NotFittedError",
    "Nystroem",
    "PartRidge",
    "Pool",
    "RegimeLibrary",
    "RegimeStructure",
    "RegimeVerdict",
    "Rulsif",
    "Scenario",
    "Selection",
    "SpectralRatio",
    "TooFewEventsError",
    "Ulsif",
    "scenario",
]
