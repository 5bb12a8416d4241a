"""The mathematics of detector: arrays in, arrays out; no clock, no file, no thread.

Two-sample estimators with one interface (`core.base.Estimator`) are in ESTIMATORS, by names for Python
(what a configuration may choose are engines of `detector`). Beside them, for what comes after an alarm:
FootprintPredictor, RegimeLibrary, SpectralRatio, Iwrls, Christoffel; and CollaborativeTwoSampleTest,
which has p-values. Random draws come from seeds that are
passed in; NaN means "no decision". Knows neither `connectors` nor `detector`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from estimators.core.base import Estimator, Selection
from estimators.core.dictionary import Dictionary
from estimators.core.features import Nystroem
from estimators.core.graph import Graph
from estimators.core.parameters import NotFittedError
from estimators.datasets.scenarios import SCENARIOS, Scenario, scenario
from estimators.ratio.grulsif import Grulsif, Pool
from estimators.ratio.grulsif_by_node import GrulsifByNode
from estimators.ratio.kliep import Kliep
from estimators.ratio.rulsif import Rulsif, Ulsif
from estimators.ratio.solvers import ConvergenceWarning

if TYPE_CHECKING:
    from estimators.core.online_dictionary import OnlineDictionary
    from estimators.ratio.two_sample_test import CollaborativeTwoSampleTest
    from estimators.regimes.guarantees import Guarantees, guarantees, risk_deviation, samples_needed
    from estimators.regimes.kahm import Kahm, KahmGroup
    from estimators.regimes.library import RegimeLibrary, RegimeStructure, RegimeVerdict
    from estimators.regimes.window_features import FeatureSpec
    from estimators.sparse.dictionary import SparseDictionary
    from estimators.sparse.federated import CriticalSamples, critical_samples, merge_critical_samples
    from estimators.sparse.grid import MultiScaleGrid
    from estimators.sparse.margin import PairwiseClassifier, SparseMarginClassifier
    from estimators.sparse.ratio import SparseRatioExplainer
    from estimators.sparse.regression import SparseMultiScaleRegressor
    from estimators.sparse.relaxation import Relaxation
    from estimators.spectral.christoffel import Christoffel
    from estimators.spectral.iwrls import Iwrls
    from estimators.spectral.ratio import SpectralRatio
    from estimators.structured.footprint import Footprint, FootprintPredictor, TooFewEventsError
    from estimators.structured.footprint_losses import FootprintCosts, FootprintFOne
    from estimators.structured.localized import LocalizedPredictor
    from estimators.structured.part_losses import Angular, Hamming, SquaredParts
    from estimators.structured.parts import LabelledEvent
    from estimators.structured.ridge import PartRidge
    from estimators.structured.set_losses import FOne, Ranking

ESTIMATORS: dict[str, type[Estimator]] = {
    "grulsif": Grulsif,
    "pool": Pool,
    "rulsif": Rulsif,
    "ulsif": Ulsif,
    "kliep": Kliep,
}

# What comes after an alarm is loaded when it is asked for: its libraries cost every daemon memory.
_LATER = {
    "LocalizedPredictor": "estimators.structured.localized",
    "Angular": "estimators.structured.part_losses",
    "FOne": "estimators.structured.set_losses",
    "Hamming": "estimators.structured.part_losses",
    "Ranking": "estimators.structured.set_losses",
    "SquaredParts": "estimators.structured.part_losses",
    "OnlineDictionary": "estimators.core.online_dictionary",
    "Guarantees": "estimators.regimes.guarantees",
    "guarantees": "estimators.regimes.guarantees",
    "risk_deviation": "estimators.regimes.guarantees",
    "samples_needed": "estimators.regimes.guarantees",
    "Christoffel": "estimators.spectral.christoffel",
    "CollaborativeTwoSampleTest": "estimators.ratio.two_sample_test",
    "CriticalSamples": "estimators.sparse.federated",
    "FeatureSpec": "estimators.regimes.window_features",
    "Footprint": "estimators.structured.footprint",
    "FootprintCosts": "estimators.structured.footprint_losses",
    "FootprintFOne": "estimators.structured.footprint_losses",
    "FootprintPredictor": "estimators.structured.footprint",
    "Iwrls": "estimators.spectral.iwrls",
    "Kahm": "estimators.regimes.kahm",
    "KahmGroup": "estimators.regimes.kahm",
    "LabelledEvent": "estimators.structured.parts",
    "MultiScaleGrid": "estimators.sparse.grid",
    "PairwiseClassifier": "estimators.sparse.margin",
    "PartRidge": "estimators.structured.ridge",
    "RegimeLibrary": "estimators.regimes.library",
    "RegimeStructure": "estimators.regimes.library",
    "RegimeVerdict": "estimators.regimes.library",
    "Relaxation": "estimators.sparse.relaxation",
    "SparseDictionary": "estimators.sparse.dictionary",
    "SparseMarginClassifier": "estimators.sparse.margin",
    "SparseMultiScaleRegressor": "estimators.sparse.regression",
    "SparseRatioExplainer": "estimators.sparse.ratio",
    "SpectralRatio": "estimators.spectral.ratio",
    "TooFewEventsError": "estimators.structured.footprint",
    "critical_samples": "estimators.sparse.federated",
    "merge_critical_samples": "estimators.sparse.federated",
}

__all__ = [
    "ESTIMATORS",
    "SCENARIOS",
    "Angular",
    "Christoffel",
    "CollaborativeTwoSampleTest",
    "ConvergenceWarning",
    "CriticalSamples",
    "Dictionary",
    "Estimator",
    "FOne",
    "FeatureSpec",
    "Footprint",
    "FootprintCosts",
    "FootprintFOne",
    "FootprintPredictor",
    "Graph",
    "Grulsif",
    "GrulsifByNode",
    "Guarantees",
    "Hamming",
    "Iwrls",
    "Kahm",
    "KahmGroup",
    "Kliep",
    "LabelledEvent",
    "LocalizedPredictor",
    "MultiScaleGrid",
    "NotFittedError",
    "Nystroem",
    "OnlineDictionary",
    "PairwiseClassifier",
    "PartRidge",
    "Pool",
    "Ranking",
    "RegimeLibrary",
    "RegimeStructure",
    "RegimeVerdict",
    "Relaxation",
    "Rulsif",
    "Scenario",
    "Selection",
    "SparseDictionary",
    "SparseMarginClassifier",
    "SparseMultiScaleRegressor",
    "SparseRatioExplainer",
    "SpectralRatio",
    "SquaredParts",
    "TooFewEventsError",
    "Ulsif",
    "critical_samples",
    "guarantees",
    "merge_critical_samples",
    "risk_deviation",
    "samples_needed",
    "scenario",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
