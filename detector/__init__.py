"""The service: time, state, configuration, incidents, metrics, pages, commands; and its Python interface.

Packages are layers in the order of a sample's path, from `events` at the bottom to `cli` at the top; imports
go downwards only (importlinter.ini). `NetworkDetector` is the pipeline on arrays, without the service.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detector.adaptation.model_file import AdaptedModel
    from detector.api import NetworkDetector
    from detector.trial.trial import try_recording

    __version__: str

__all__ = ["AdaptedModel", "NetworkDetector", "__version__", "try_recording"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("detectord")
    # Loaded on use: `detector --help` should not wait for numpy and scipy.
    if name == "NetworkDetector":
        from detector.api import NetworkDetector

        return NetworkDetector
    if name == "AdaptedModel":
        from detector.adaptation.model_file import AdaptedModel

        return AdaptedModel
    if name == "try_recording":
        from detector.trial.trial import try_recording

        return try_recording
    raise AttributeError(f"module 'detector' has no attribute {name!r}")
