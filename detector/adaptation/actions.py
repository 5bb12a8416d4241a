"""Calibration and soft-sensor models, refitted under the shift of an incident and kept by name.

Actions only: adapting needs labelled pairs, so that there is nothing to find out by itself after an alarm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from detector.adaptation.csv_table import Columns
from detector.adaptation.model_file import AdaptedModel
from detector.adaptation.refit import (
    LEAST_SIZE,
    MOST_OUTSIDE,
    Options,
    Pairs,
    Weigh,
    adapt,
    grulsif,
    pairs_of,
    spectral,
)
from detector.diagnosis.actions import Action, ActionError, Arguments
from detector.diagnosis.repository import Repository
from detector.events.wording import when
from detector.incidents.case import Case
from detector.storage.cases import Model
from estimators.core.types import Floats

KIND = "adapt"


class Fit(Arguments):
    """What `detector adapt fit --incident` asks for."""

    pairs: Annotated[bytes, Meta(description="CSV of labelled pairs: a header, one row per observation.")]
    target: Annotated[
        str | list[str], Meta(description="Column that the model predicts; a list of several for one model.")
    ]
    incident: Annotated[str, Meta(description="Incident whose change the model is adapted to.")]
    features: Annotated[
        list[str], Meta(description="Input columns; default: all components of the node.")
    ] = msgspec.field(default_factory=list)
    present: Annotated[
        str | list[str] | None,
        Meta(
            description="Column with the predictions of the present model; a list if there are several "
            "targets."
        ),
    ] = None
    node: Annotated[str | None, Meta(description="Node; default: the one with the largest statistic.")] = None
    ratio: Annotated[
        Literal["spectral", "grulsif"], Meta(description="Method that estimates the weights.")
    ] = "spectral"
    model: Annotated[Literal["kernels", "line"], Meta(description="What is fitted.")] = "kernels"
    scheme: Annotated[
        Literal["tikhonov", "iterated", "cutoff", "landweber"],
        Meta(description="Regularisation of the ratio and of the model."),
    ] = "iterated"
    order: Annotated[
        Annotated[int, Meta(ge=1, le=20)] | None,
        Meta(description="Order of the iterated scheme; default: 3."),
    ] = None
    least_size: Annotated[float, Meta(ge=5.0, description="Refuse below this effective sample size.")] = (
        LEAST_SIZE
    )
    most_outside: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1.0,
            description="Refuse if a larger share of the values lies outside the range of the pairs.",
        ),
    ] = MOST_OUTSIDE
    seed: Annotated[int, Meta(ge=0, description="Of the folds.")] = 0
    name: Annotated[str, Meta(max_length=200, description="Name of the model; default: NODE.TARGET.")] = ""
    page: Annotated[bool, Meta(description="Also return an HTML report.")] = False

    @property
    def targets(self) -> list[str]:
        return _listed(self.target)

    @property
    def shown(self) -> list[str]:
        """Columns of present predictions."""
        return [] if self.present is None else _listed(self.present)


def _listed(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


class Name(Arguments):
    name: Annotated[str, Meta(description="Name of the model.")]


@dataclass(frozen=True, eq=False)
class Shift:
    """The windows of one node of a case file, back in the units of its sensor."""

    case: Case
    node: str

    @classmethod
    def of(cls, repository: Repository, incident: str, node: str | None) -> Shift:
        """ActionError if there is nothing to go by."""
        case = repository.case(incident, "settled") or repository.case(incident, "early")
        if case is None:
            raise ActionError(
                f"there is no case file of an incident {incident!r}; it is taken some ticks after the opening"
            )
        if not case.plain:
            raise ActionError(
                "the values of this network are differenced, whitened, embedded or freed of a season, and "
                "have no way back to the sensor: give those since the change in a file (--values)"
            )
        known = [name for name in (*case.certain, *case.members, *case.recent) if name in case.recent]
        if node is not None and node not in known:
            kept = ", ".join(dict.fromkeys(known))
            raise ActionError(f"the case file has no values of {node!r} (it has those of {kept})")
        return cls(case, node or known[0])

    def columns(self, columns: Columns, given: Fit) -> tuple[str, ...]:
        """Features by name. Of a node with one component, it may be called otherwise in the file."""
        components = self.case.components
        others = tuple(name for name in columns.names if name not in (*given.targets, *given.shown))
        one = others if len(components) == len(others) == 1 else components
        wanted = tuple(given.features) or one
        if len(components) == len(wanted) == 1:
            return wanted
        for name in wanted:
            if name not in components:
                kept = ", ".join(components)
                raise ActionError(f"{name!r} is no component of {self.node} (components: {kept})")
        return wanted

    def values(self, features: tuple[str, ...]) -> Floats:
        """(m, d) of the features since the onset, in the sensor's units."""
        name = self.node
        z = self._after(name)
        return (z * self.case.scale[name] + self.case.centre[name])[:, self._at(features)]

    @property
    def since(self) -> float:
        """The node's own onset where it is known."""
        return max(self.case.onsets.get(self.node, self.case.begin), self.case.begin)

    def _after(self, name: str) -> Floats:
        return self.case.recent[name][self.case.times[name] >= self.since].astype(np.float64)

    def weigh(self, pairs: Pairs, options: Options) -> Weigh:
        if options.ratio == "spectral":
            return spectral(pairs.x, self.values(pairs.features), options)
        case, name = self.case, self.node
        at = self._at(pairs.features)
        if len(at) != len(case.components):
            raise ActionError(f"the ratio of GRULSIF is that of all components: {', '.join(case.components)}")
        nodes = list(case.recent)
        rows = [case.index[one] for one in nodes]
        links = case.graph.matrix()[rows][:, rows]
        before = [case.reference[one][:, at].astype(np.float64) for one in nodes]
        after = [self._after(one)[:, at] for one in nodes]
        return grulsif(before, after, links, nodes.index(name), case.centre[name][at], case.scale[name][at])

    def _at(self, features: tuple[str, ...]) -> list[int]:
        components = self.case.components
        return [0] if len(components) == 1 else [components.index(name) for name in features]


def fit(repository: Repository, given: Fit) -> dict[str, Any]:
    """Refit under the shift of an incident, and keep the model."""
    shift = Shift.of(repository, given.incident, given.node)
    columns = Columns.read(given.pairs, "pairs")
    pairs, dropped = pairs_of(columns, given.targets, shift.columns(columns, given), given.shown)
    options = Options(
        given.ratio, given.model, given.scheme, given.order, given.least_size, given.most_outside, given.seed
    )
    made = adapt(pairs, shift.values(pairs.features), shift.weigh(pairs, options), options)
    said = {"incident": given.incident, "stage": shift.case.stage, "node": shift.node,
            "since": when(shift.since), "ratio": given.ratio, "scheme": given.scheme}  # fmt: skip
    about = {**said, **made.facts()}
    model = msgspec.structs.replace(made.model, about=about)
    name = given.name or f"{shift.node}.{'+'.join(given.targets)}"
    version = repository.save_model(KIND, name, msgspec.to_builtins(model))
    result = {"name": name, "version": version, **about, "rows_left_out": dropped, "file": model.encode()}
    if given.page:
        from detector.adaptation.page import adaptation_page

        result["page"] = adaptation_page(made, list(said.items())).encode()
    return result


def show(repository: Repository, given: Arguments) -> dict[str, Any]:
    told = ("incident", "node", "pairs", "effective_size", "error_before", "error_after")
    rows = [
        {"name": one.name, "version": one.version, "target": ", ".join(_stored(one).targets)}
        | {key: one.meta["about"].get(key) for key in told}
        for one in repository.models(KIND)
    ]
    return {"models": rows}


def export(repository: Repository, given: Name) -> dict[str, Any]:
    found = repository.model(KIND, given.name)
    if found is None:
        known = ", ".join(one.name for one in repository.models(KIND)) or "none"
        raise ActionError(f"there is no model {given.name!r} (there are: {known})")
    return {"name": found.name, "version": found.version, "file": _stored(found).encode()}


def _stored(model: Model) -> AdaptedModel:
    return AdaptedModel.decode(msgspec.json.encode(model.meta), model.name)


def forget(repository: Repository, given: Name) -> dict[str, Any]:
    if not repository.forget_model(KIND, given.name):
        raise ActionError(f"there is no model {given.name!r}")
    return {"forgotten": given.name}


ACTIONS: dict[str, Action] = {
    "fit": Action("Refit a model under the shift of an incident, and keep it.", fit, Fit, file=True),
    "show": Action("List the models that are kept.", show),
    "export": Action("Write a model file.", export, Name, file=True),
    "forget": Action("Delete a model.", forget, Name),
}
