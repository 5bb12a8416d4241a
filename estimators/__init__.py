"""The mathematics of detector: arrays in, arrays out; no clock, no file, no thread.

Five estimators with one interface (see base.Estimator), by the names used in configurations: ESTIMATORS.
"""

from estimators.base import Estimator, NotFittedError, Selection
from estimators.dictionary import Dictionary
from estimators.features import Nystroem
from estimators.graph import Graph
from estimators.grulsif import Grulsif, Pool
from estimators.kliep import Kliep
from estimators.rulsif import Rulsif, Ulsif
from estimators.scenarios import SCENARIOS, Scenario, scenario
from estimators.solvers import ConvergenceWarning

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
    "ConvergenceWarning",
    "Dictionary",
    "Estimator",
    "Graph",
    "Grulsif",
    "Kliep",
    "NotFittedError",
    "Nystroem",
    "Pool",
    "Rulsif",
    "Scenario",
    "Selection",
    "Ulsif",
    "scenario",
]
