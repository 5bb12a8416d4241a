"""The mathematics of detector: arrays in, arrays out; no clock, no file, no thread.

Five estimators with one interface (see base.Estimator), by the names used in configurations: ESTIMATORS.
Beside them, for what comes after an alarm: FootprintPredictor, RegimeLibrary, SpectralRatio, Iwrls,
Christoffel.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from estimators.base import Estimator, NotFittedError, Selection
from estimators.dictionary import Dictionary
from estimators.features import Nystroem
from estimators.graph import Graph
from estimators.grulsif import Grulsif, Pool
from estimators.kliep import Kliep
from estimators.rulsif import Rulsif, Ulsif
from estimators.scenarios import SCENARIOS, Scenario, scenario
from estimators.solvers import ConvergenceWarning

if TYPE_CHECKING:
    from estimators.christoffel import Christoffel
    from estimators.footprint import Footprint, FootprintPredictor, TooFewEventsError
    from estimators.iwrls import Iwrls
    from estimators.kahm import Kahm, KahmGroup
    from estimators.part_ridge import PartRidge
    from estimators.parts import LabelledEvent
    from estimators.regimes import RegimeLibrary, RegimeStructure, RegimeVerdict
    from estimators.shapes import FeatureSpec
    from estimators.spectral_ratio import SpectralRatio

ESTIMATORS: dict[str, type[Estimator]] = {
    "grulsif": Grulsif,
    "pool": Pool,
    "rulsif": Rulsif,
    "ulsif": Ulsif,
    "kliep": Kliep,
}

# What comes after an alarm is loaded when it is asked for: its libraries cost every daemon memory.
_LATER = {
    "Christoffel": "estimators.christoffel",
    "FeatureSpec": "estimators.shapes",
    "Footprint": "estimators.footprint",
    "FootprintPredictor": "estimators.footprint",
    "Iwrls": "estimators.iwrls",
    "Kahm": "estimators.kahm",
    "KahmGroup": "estimators.kahm",
    "LabelledEvent": "estimators.parts",
    "PartRidge": "estimators.part_ridge",
    "RegimeLibrary": "estimators.regimes",
    "RegimeStructure": "estimators.regimes",
    "RegimeVerdict": "estimators.regimes",
    "SpectralRatio": "estimators.spectral_ratio",
    "TooFewEventsError": "estimators.footprint",
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


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
