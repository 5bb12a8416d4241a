"""The `estimator:` group of config.yaml."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, WithJsonSchema

from detector.settings.base import Group, setting
from detector.settings.registries import ENGINES


def _known(name: str) -> str:
    if name not in ENGINES.builtin and name not in ENGINES:  # plug-ins are looked for only if need be
        raise ValueError(f"must be one of {', '.join(ENGINES)}")
    return name


EstimatorName = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(ENGINES.builtin)})
]


class EstimatorSettings(Group):
    """`None` is chosen while learning, by the power to see injected changes under a limit on leakage."""

    name: EstimatorName = setting(
        "grulsif",
        "grulsif: density ratios coupled over the graph; pool: the same without the graph; adwin, kswin, "
        "page-hinkley: one classic detector per node.",
        applies="relearn",
    )
    alpha: float = setting(
        0.1,
        'Share of "now" mixed into "before", which bounds the ratio by its inverse.',
        applies="relearn",
        ge=0,
        lt=1,
    )
    sigma: float | None = setting(
        None,
        "Kernel width, in units of the median distance between values; null: chosen while learning.",
        applies="relearn",
        gt=0,
    )
    coupling: float | None = setting(
        None,
        "Pull of the neighbours against a node's own data; null: chosen while learning.",
        applies="relearn",
        ge=0,
    )
    ridge: float | None = setting(
        None, "Weight of the ridge penalty; null: chosen while learning.", applies="relearn", gt=0
    )
    dictionary: Literal["coherence", "sparse"] = setting(
        "coherence",
        "coherence: many points, one kernel width; sparse: few points with widths of their own, for values "
        "with modes of very different width.",
        applies="relearn",
    )
    rank: int = setting(32, "Largest number of features.", applies="relearn", ge=2)
    atoms: int = setting(
        256, "Largest number of dictionary points from which features are made.", applies="relearn", ge=1
    )
    level_charts: bool = setting(
        True,
        "Watch levels beside the density ratio: what nodes share with their neighbours and what they do not.",
        applies="relearn",
    )
    sweeps: int = setting(1, "Passes of the solver over the nodes, per tick.", applies="relearn", ge=1)
