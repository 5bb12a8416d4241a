"""What a configuration may name, and where it is; other installed packages bring more by entry points.

Here, below the packages that the names lead to, because settings are checked against them.
"""

from __future__ import annotations

from connectors.registry import Registry

_DENSITY_RATIO = "detector.engines.density_ratio:DensityRatioEngine"
_RIVER = "detector.engines.river:RiverEngine"

ENGINES = Registry(
    "detector.engines",
    "engine",
    {
        "grulsif": _DENSITY_RATIO,
        "pool": _DENSITY_RATIO,
        "adwin": _RIVER,
        "kswin": _RIVER,
        "page-hinkley": _RIVER,
    },
)
RUNNERS = Registry(
    "detector.runners",
    "runner",
    {
        "inline": "detector.engines.runners.base:Inline",
        "threads": "detector.engines.runners.threads:Threads",
        "ray": "detector.engines.runners.cluster:Cluster",
    },
)
STEPS = Registry(
    "detector.steps",
    "preprocessing step",
    {
        "seasonal": "detector.preprocessing.steps.seasonal:Seasonal",
        "scale": "detector.preprocessing.steps.scale:Scale",
        "screen": "detector.preprocessing.steps.screen:Screen",
        "difference": "detector.preprocessing.steps.difference:Difference",
        "clip": "detector.preprocessing.steps.clip:Clip",
        "whiten": "detector.preprocessing.steps.whiten:Whiten",
        "embed": "detector.preprocessing.steps.embed:Embed",
    },
)
