"""The daemon: time, state, configuration, incidents, metrics, pages, commands."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detector.adapted import AdaptedModel
    from detector.api import NetworkDetector

__version__ = "0.1.0"
__all__ = ["AdaptedModel", "NetworkDetector", "__version__"]


def __getattr__(name: str) -> Any:
    # Loaded on use: `detector --help` should not wait for numpy and scipy.
    if name == "NetworkDetector":
        from detector.api import NetworkDetector

        return NetworkDetector
    if name == "AdaptedModel":
        from detector.adapted import AdaptedModel

        return AdaptedModel
    raise AttributeError(f"module 'detector' has no attribute {name!r}")
