"""The whole story after an alarm: two sites, three types of events, a scripted operator, a corrupt sensor.

    OPENBLAS_NUM_THREADS=1 python benchmarks/story.py [--quick] [--seeds N] [--strength S]

Two sites of 50 nodes each have a pipeline that has learnt. Every event runs through it and leaves a case
file; an operator who knows the truth labels it. What the first n events taught is judged on later ones.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csgraph
from tables import machine, table

from connectors.base import Sample
from detector.aftermath.casefile import CaseFile
from detector.aftermath.footprint_cases import by_thresholds
from detector.aftermath.footprint_model import FAMILIAR, FootprintModel, lessons, train
from detector.aftermath.settings import FootprintSettings
from detector.events import Labels
from detector.network import Network
from detector.pipeline import Pipeline
from detector.settings import Settings
from estimators import Iwrls, SpectralRatio
from estimators.kernels import Array
from estimators.part_scenarios import geometric_graph
from estimators.regimes import MIN_SAMPLES, RegimeLibrary, combine
from estimators.shapes import FeatureSpec

NODES, LEARN = 50, 600
BEFORE, AFTER = 20, 80  # ticks of an event's stretch before it begins, and after
MOMENTS, APART = 4, 170  # states from which events start, with windows that share no sample
TYPES = ("leak", "jam", "noise")
SEEN = {"east": ("leak", "jam"), "west": ("noise", "jam")}  # what happens at a site while labels are given
SPIKES = 0.04  # share of the readings of a corrupt sensor
STRENGTH = 0.6  # of events; with 1 the centre of a leak moves by three quiet spreads
SPEC = FeatureSpec()
SETTINGS = Settings.of(
    align={"lateness": 2.0},
    windows={"reference": 100, "tests": [5, 20, SPEC.window]},
    estimator={"sigma": 1.0, "coupling": 0.5, "ridge": 0.05, "rank": 12, "atoms": 64},
    alarm={"learn": LEARN, "budget": "1 per 5000 ticks"},
    incidents={"clear_after": 10, "cool_down": 5.0, "update_every": 20.0, "hold_for": 500.0},
)


@dataclass(frozen=True)
class Told:
    """One event: its case file and the truth."""

    site: str
    kind: str
    case: CaseFile
    affected: Array  # (N,) bool
    shift: Array  # (N,) of the mean, in quiet spreads
    gain: Array  # (N,) and offset: sensor units of a quiet spread
    offset: Array
    corrupt: int  # node
    idle: int  # settled incidents beside it that hold none of its nodes

    @property
    def labels(self) -> Labels:
        """What the operator says."""
        nodes = [self.case.names[v] for v in np.flatnonzero(self.affected)]
        return Labels(time=self.case.time, alarm="true", type=self.kind, nodes=nodes)


class Site:
    """A network of its own, whose pipeline has learnt once; every event goes on from one of its states."""

    def __init__(self, name: str, seed: int) -> None:
        rng = np.random.default_rng([seed, len(name), name == "east"])
        self.name, self.graph = name, geometric_graph(NODES, 0.25, seed + 100 * (name == "east"))
        self.network = Network.of([f"{name}-{v}" for v in range(NODES)], self.graph.matrix())
        self.offset, self.gain = rng.uniform(-50.0, 50.0, NODES), np.exp(rng.normal(size=NODES))
        self.corrupt = int(rng.integers(NODES))
        pipeline = Pipeline(self.network, 1, SETTINGS)
        pipeline.push(self.samples(rng.normal(size=(LEARN + 200, NODES)), 0))
        self.now, self.states = [LEARN + 200], [pipeline.state()]
        for _ in range(MOMENTS - 1):
            pipeline.push(self.samples(rng.normal(size=(APART, NODES)), self.now[-1]))
            self.now.append(self.now[-1] + APART)
            self.states.append(pipeline.state())

    def samples(self, values: Array, first: int) -> list[Sample]:
        """Values (T, N) in quiet spreads, as the sensors send them."""
        rows = (self.offset + self.gain * values).tolist()
        return [
            Sample(float(first + t), name, (x,))
            for t, row in enumerate(rows)
            for name, x in zip(self.network.names, row, strict=True)
        ]

    def event(
        self, kind: str, moment: int, seed: Sequence[int], corrupt: bool, strength: float
    ) -> Told | None:
        """Let one event happen; None if no settled case file names any of its nodes."""
        rng = np.random.default_rng(seed)
        hops = csgraph.dijkstra(self.graph.matrix(), unweighted=True, indices=int(rng.integers(NODES)))
        order = np.argsort(hops + 0.1 * rng.uniform(size=NODES))  # connected: all nearer ones come first
        affected = np.zeros(NODES, np.bool_)
        affected[order[: int(rng.integers(4, 13))]] = True
        X = rng.normal(size=(BEFORE + AFTER, NODES))
        shift = np.where(affected & (kind == "leak"), 3.0 * strength * 0.7**hops, 0.0)
        X[BEFORE:] += shift
        if kind == "jam":
            X[BEFORE:, affected] = 0.35**strength * sluggish(X[BEFORE:, affected], 0.8 * strength)
        elif kind == "noise":
            X[BEFORE:, affected] *= 2.5**strength
        spikes = rng.uniform(size=len(X)) < SPIKES
        if corrupt:
            n = int(spikes.sum())
            X[spikes, self.corrupt] += rng.choice((-1.0, 1.0), n) * rng.uniform(10.0, 20.0, n)
        arrays, meta = self.states[moment % MOMENTS]
        pipeline = Pipeline.from_state(
            self.network, 1, SETTINGS, {name: a.copy() for name, a in arrays.items()}, meta
        )
        pipeline.cases, first = [], self.now[moment % MOMENTS]
        pipeline.push(self.samples(X, first))
        true = {self.network.names[v] for v in np.flatnonzero(affected)}
        found = [case for case in pipeline.cases if case.stage == "settled"]
        case = max(found, key=lambda case: len(true & set(case.members)), default=None)
        if case is None or not true & set(case.members):
            return None
        idle = sum(not true & set(other.members) for other in found)
        return Told(self.name, kind, case, affected, shift, self.gain, self.offset, self.corrupt, idle)


def sluggish(noise: Array, phi: float) -> Array:
    """Autoregression of order one and unit variance, along the first axis."""
    out = noise.copy()
    for t in range(1, len(out)):
        out[t] = phi * out[t - 1] + np.sqrt(1.0 - phi * phi) * noise[t]
    return out


# ------------------------------------------------------------------------------------------ footprint


def taught(events: Sequence[Told]) -> FootprintModel | None:
    """What the daemon would use of these labels; None: too few, or nothing better, and thresholds serve."""
    found, _ = lessons((told.case, told.labels) for told in events)
    try:
        model = train("settled", found, FootprintSettings())
    except ValueError:
        return None
    return model if model.facts.better else None


def footprint(model: FootprintModel | None, told: Told) -> dict[str, float]:
    """Errors of the nodes that are named, and whether the type is said and right."""
    said, right = by_thresholds(told.case), 0.0
    if model is not None:
        got = model.predict(told.case)
        said = np.where(got.support < FAMILIAR, said, got.labels > 0)
        right = float(got.event_type > 0 and model.facts.types[got.event_type - 1] == told.kind)
    either = (said | told.affected).sum()
    return {
        "wrong": float((said != told.affected).sum()),
        "accused": float(said[told.corrupt] and not told.affected[told.corrupt]),
        "overlap": float((said & told.affected).sum() / either) if either else 1.0,
        "type": right,
    }


# ------------------------------------------------------------------------------------------ regimes


def points(case: CaseFile, names: Sequence[str]) -> Array:
    """The windows (k, 10) of nodes that lie wholly past the onset."""
    whole = [name for name in names if name in case.recent and len(case.after(name)) >= SPEC.window]
    found = [SPEC.transform(case.after(name)[-SPEC.window :], case.reference[name]) for name in whole]
    return np.array(found).reshape(len(found), -1)


def library(events: Sequence[Told]) -> RegimeLibrary:
    """Regimes of one site: the labelled nodes' windows of each type, once they are enough."""
    made = RegimeLibrary(SPEC.spec_id)
    for kind in TYPES:
        windows = [points(told.case, told.labels.nodes or []) for told in events if told.kind == kind]
        if sum(map(len, windows)) >= MIN_SAMPLES:
            made.enrol(kind, np.concatenate([some for some in windows if len(some)]))
    return made


def regime(holders: Mapping[str, RegimeLibrary], told: Told) -> str | None:
    """What most members over their threshold turned to; None: novel, or nothing known."""
    case = told.case
    over = [name for name in case.members if case.statistic[case.index[name]] >= case.threshold]
    verdicts = [
        combine({owner: held.distances(y[None]) for owner, held in holders.items()}).label
        for y in points(case, over or case.members[:1])
    ]
    count = Counter(verdicts)
    return min(count, key=lambda one: (-count[one], one is None, one or ""), default=None)


# ------------------------------------------------------------------------------------------ soft sensor


def response(u: Array) -> Array:
    """What the soft sensor stands for: saturates."""
    y: Array = 3.0 * np.tanh(u / 2.0)
    return y


def soft_sensor(told: Told, seed: Sequence[int]) -> dict[tuple[str, str], float]:
    """Errors where the values of the strongest node are since the leak, of a line and of kernels.

    Pairs: 300 of quiet operation, from which the model in use was made, and 100 over the whole range.
    """
    rng, v = np.random.default_rng(seed), int(told.shift.argmax())
    name, units = told.case.names[v], (told.offset[v], told.gain[v])
    u = np.concatenate([rng.normal(size=300), rng.uniform(-3.0, 6.0, 100)])
    y = response(u) + 0.2 * rng.normal(size=len(u))
    x = (units[0] + units[1] * u)[:, None]
    now = told.case.centre[name] + told.case.scale[name] * told.case.after(name)
    weights = SpectralRatio().fit(x, now).ratio(x)
    fresh = told.shift[v] + rng.normal(size=2000)
    errors = {}
    for kind, linear in (("line", True), ("kernels", False)):
        for how, fit in (
            ("in use", Iwrls(linear=linear).fit(x[:300], y[:300])),
            ("all pairs alike", Iwrls(linear=linear).fit(x, y)),
            ("adapted", Iwrls(linear=linear).fit(x, y, weights)),
        ):
            miss = fit.predict((units[0] + units[1] * fresh)[:, None]) - response(fresh)
            errors[kind, how] = float(np.sqrt(np.mean(miss**2)))
    return errors


# ------------------------------------------------------------------------------------------ the story

Figures = dict[tuple[Any, ...], float]


def story(seed: int, steps: Sequence[int], later: int, strength: float) -> Figures:
    """All figures of one seed, by (sensor, labels, who, what)."""
    sites = {name: Site(name, seed) for name in SEEN}
    figures: Figures = {}
    for sensor in ("sound", "corrupt"):
        streams: dict[str, list[Told | None]] = {"labelled": [], "later": []}
        for part, (what, n) in enumerate((("labelled", steps[-1]), ("later", later))):
            for k in range(n):
                name = list(SEEN)[k % 2]
                kinds = SEEN[name] if what == "labelled" else TYPES
                kind = kinds[k // 2 % len(kinds)]
                streams[what].append(
                    sites[name].event(kind, k // 2, [seed, part, k], sensor == "corrupt", strength)
                )
        test = [told for told in streams["later"] if told is not None]
        happened = streams["labelled"] + streams["later"]
        figures[sensor, "found"] = float(np.mean([told is not None for told in happened]))
        for i, kind in enumerate(TYPES):  # of later events, which come in turns
            figures[sensor, "found", kind] = float(
                np.mean([told is not None for k, told in enumerate(streams["later"]) if k // 2 % 3 == i])
            )
        figures[sensor, "idle"] = float(np.mean([told.idle for told in happened if told is not None]))
        for n in steps:
            given = [told for told in streams["labelled"][:n] if told is not None]
            own = {name: [told for told in given if told.site == name] for name in SEEN}
            models = {name: taught(some) for name, some in own.items()}
            together, libraries = taught(given), {name: library(some) for name, some in own.items()}
            rows: dict[tuple[Any, ...], list[float]] = {}
            for told in test:
                ways = {"thresholds": None, "alone": models[told.site], "together": together}
                for who, model in ways.items():
                    for what, value in footprint(model, told).items():
                        rows.setdefault((who, what), []).append(value)
                        if what == "wrong":
                            there = "known there" if told.kind in SEEN[told.site] else "new there"
                            rows.setdefault((who, there), []).append(value)
                asked = {"alone": {told.site: libraries[told.site]}, "together": libraries}
                for who, holders in asked.items():
                    label = regime(holders, told)
                    rows.setdefault((who, "regime"), []).append(float(label == told.kind))
                    rows.setdefault((who, "no name"), []).append(float(label is None))
            for key, values in rows.items():
                figures[sensor, n, *key] = float(np.mean(values))
    leaks = [told for told in test if told.kind == "leak"]
    for i, told in enumerate(leaks):
        for key, value in soft_sensor(told, [seed, 9, i]).items():
            figures["soft", *key] = figures.get(("soft", *key), 0.0) + value / len(leaks)
    return figures


def cell(runs: Sequence[Figures], *key: Any) -> str:
    """Median over the seeds, and the range."""
    values = [run[key] for run in runs]
    return f"{np.median(values):.2f} ({min(values):.2f} - {max(values):.2f})"


def curves(runs: Sequence[Figures], sensor: str, steps: Sequence[int],
           columns: Sequence[tuple[str, str]]) -> str:  # fmt: skip
    """Figures as labels arrive."""
    return table(
        ("events", *(f"{what}, {who}" for who, what in columns)),
        [(n, *(cell(runs, sensor, n, *column) for column in columns)) for n in steps],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, few events")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--strength", type=float, default=STRENGTH, help="of the events")
    given = parser.parse_args()
    steps, later = ((0, 5, 20), 12) if given.quick else ((0, 5, 10, 20, 40), 30)
    began = time.process_time()
    runs = [story(seed, steps, later, given.strength) for seed in range(1 if given.quick else given.seeds)]
    print(machine())
    print(f"\n{len(runs)} seeds, {later} later events each, strength {given.strength:g}")
    print("Median over the seeds (least - largest)")
    for sensor in ("sound", "corrupt"):
        print("\nAll sensors sound" if sensor == "sound" else "\nOne corrupt sensor at each site")
        print(f"events with a settled case file within {AFTER} ticks: {cell(runs, sensor, 'found')}")
        print(", ".join(f"{kind}, later ones: {cell(runs, sensor, 'found', kind)}" for kind in TYPES))
        print(f"incidents beside them, per event: {cell(runs, sensor, 'idle')}")
        print("\nFootprint: wrong nodes of 50, overlap (Jaccard), share of types right")
        who_says = ("thresholds", "alone", "together")
        columns = [(who, what) for what in ("wrong", "overlap") for who in who_says]
        columns += [(who, "type") for who in ("alone", "together")]
        print(curves(runs, sensor, steps, columns))
        print("\nWrong nodes at events of a type that was labelled at the site, and of one that was not")
        split = [(who, there) for there in ("known there", "new there") for who in who_says]
        print(curves(runs, sensor, steps, split))
        if sensor == "corrupt":
            print("\nShare of events of which the corrupt sensor is said to be a node, and is not")
            print(curves(runs, sensor, steps, [(who, "accused") for who in who_says]))
        print("\nRegime: share named right, share without a name")
        columns = [(who, what) for what in ("regime", "no name") for who in ("alone", "together")]
        print(curves(runs, sensor, steps, columns))
    print("\nSoft sensor at the strongest node of a leak: error since then (noise of a label 0.2)")
    ways = ("in use", "all pairs alike", "adapted")
    print(table(("model", *ways), [(kind, *(cell(runs, "soft", kind, way) for way in ways))
                                   for kind in ("line", "kernels")]))  # fmt: skip
    print(f"\n{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
