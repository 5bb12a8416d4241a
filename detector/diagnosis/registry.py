"""The analyzers by name: one line each. An analyzer is a module with these names:

Settings: type[AnalyzerSettings]
    Its keys in the group `diagnosis` of the configuration, below its own name; the docstring describes it
    there. A module that only has actions may leave out this and `analyzer`.
def analyzer(settings: Settings, repository: Repository) -> Analyzer | None
    The analyzer; None if it has nothing to go by yet, such as a model. Called at the start and after every
    action of its own, in the diagnosis thread; not called if it is switched off.
ACTIONS: dict[str, Action]
    What people can have it do, over HTTP and on the command line; may be empty.
def relearn(settings: Settings) -> Action | None
    Only where labels teach: the action that runs, without arguments, after a new label; None: not wanted.

Other installed packages bring analyzers by entry points of the group `detector.analyzers`, whose value is the
module. A module is imported when its analyzer is built, or named in a configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, create_model

from connectors.registry import PluginError, Registry
from detector.diagnosis.actions import Action, ActionError
from detector.diagnosis.analyzer import Analyzer, AnalyzerSettings
from detector.settings import renamed
from detector.settings.diagnosis import DiagnosisSettings

if TYPE_CHECKING:
    from detector.diagnosis.repository import Repository

ANALYZERS = Registry(
    "detector.analyzers",
    "analyzer",
    {
        "adapt": "detector.adaptation.actions",
        "footprint": "detector.diagnosis.footprint.analyzer",
        "novelty": "detector.diagnosis.analyzers.novelty",
        "regime": "detector.diagnosis.regime.analyzer",
        "trend": "detector.diagnosis.analyzers.trend",
        "triage": "detector.diagnosis.analyzers.triage",
        "value_ranges": "detector.diagnosis.analyzers.value_ranges",
    },
)


def load(name: str) -> Any:
    """The module of an analyzer; PluginError if it cannot be used."""
    module = ANALYZERS.load(name)
    if wrong := _breach(module):
        raise ANALYZERS.refusal(name, wrong)
    return module


def _breach(module: Any) -> str | None:
    if not isinstance(getattr(module, "ACTIONS", None), dict):
        return "has no ACTIONS"
    kind = getattr(module, "Settings", None)
    if kind is None:
        return None if getattr(module, "analyzer", None) is None else "has an analyzer, but no Settings"
    if not (isinstance(kind, type) and issubclass(kind, AnalyzerSettings)):
        return "has Settings that do not derive from detector.diagnosis.analyzer.AnalyzerSettings"
    return None if callable(getattr(module, "analyzer", None)) else "has no function analyzer"


# ------------------------------------------------------------------------------------------- settings


def diagnosis_model(names: Iterable[str] | None = None) -> type[DiagnosisSettings]:
    """The group `diagnosis` with a key for each of these analyzers, or for all there are."""
    return _model(tuple(sorted(ANALYZERS if names is None else names)))


@cache
def _model(names: tuple[str, ...]) -> type[DiagnosisSettings]:
    keys = {name: key for name in names if (key := _key(name)) is not None}
    text = DiagnosisSettings.__doc__
    return create_model("DiagnosisSettings", __base__=DiagnosisSettings, __doc__=text, **keys)


def _key(name: str) -> Any:
    try:
        kind = getattr(load(name), "Settings", None)
    except PluginError as error:
        return _broken(str(error))
    if kind is None:
        return None
    about = (kind.__doc__ or "").strip().split("\n\n")[0]
    title = name.title().replace("_", "") + "Settings"  # in the schema, where all of them are side by side
    own: Any = create_model(title, __base__=kind, __doc__=kind.__doc__)
    return own, Field(default_factory=own, description=" ".join(about.split()))


def _broken(message: str) -> Any:
    """A plug-in that cannot be loaded: an error only for those who name it in their configuration."""

    def refuse(value: Any) -> Any:
        raise ValueError(message)

    return Annotated[None, BeforeValidator(refuse)], Field(default=None, description=message)


def settings_of(settings: DiagnosisSettings, name: str) -> Any:
    """The settings of one analyzer, or its defaults; None if it has none."""
    given = getattr(settings, name, None)
    if given is not None:
        return given
    kind = getattr(load(name), "Settings", None)
    return None if kind is None else kind()


# ------------------------------------------------------------------------------------------ what they do


def build_analyzer(name: str, settings: DiagnosisSettings, repository: Repository) -> Analyzer | None:
    """None: it is switched off, or has nothing to go by yet."""
    own = settings_of(settings, name)
    if own is None or not own.enabled:
        return None
    built: Analyzer | None = load(name).analyzer(own, repository)
    return built


def relearning(settings: DiagnosisSettings) -> dict[str, Action]:
    """What runs after a new label, by analyzer; one that cannot be loaded learns nothing."""
    found = {}
    for name in ANALYZERS:
        try:
            relearn = getattr(load(name), "relearn", None)
        except PluginError:  # told when it was to be built
            continue
        own = settings_of(settings, name)
        if relearn is not None and own.enabled and (action := relearn(own)) is not None:
            found[name] = action
    return found


def present_name(name: str) -> str:
    """The name of an analyzer that may be given by the one it had in version 0.1."""
    return name if name in ANALYZERS else renamed.ANALYZERS.get(name, name)


def find_action(kind: str, name: str) -> Action:
    """An action of an analyzer; ActionError names the known ones, or why the analyzer cannot be used."""
    kind = present_name(kind)
    if kind not in ANALYZERS:
        raise ActionError(f"there is no analyzer {kind!r}; known: {', '.join(ANALYZERS) or 'none'}")
    try:
        actions: dict[str, Action] = load(kind).ACTIONS
    except PluginError as error:
        raise ActionError(str(error)) from None
    if name not in actions:
        raise ActionError(f"{kind} has no action {name!r}; known: {', '.join(actions) or 'none'}")
    return actions[name]
