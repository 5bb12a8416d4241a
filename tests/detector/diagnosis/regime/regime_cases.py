"""Case files of incidents in a known regime, as the pipeline would have taken them."""

from __future__ import annotations

import numpy as np

from detector.incidents.case import Case, Stage

QUIET, AFTER = 250, 64


def values(regime: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """In units of quiet noise."""
    noise = rng.normal(size=n)
    if regime == "shifted":
        return noise + rng.uniform(2.0, 4.0)
    if regime == "noisy":
        return noise * rng.uniform(2.5, 4.0)
    if regime == "stuck":
        return rng.normal() + 0.01 * noise
    if regime == "swinging":
        return noise + 2.5 * np.sin(2 * np.pi * (rng.uniform(0.08, 0.12) * np.arange(n) + rng.uniform()))
    return noise


def case(
    regime: str, incident: str, nodes: int = 3, after: int = AFTER, stage: Stage = "settled",
    dim: int = 1, seed: int | None = None,
) -> Case:  # fmt: skip
    """``nodes`` changed, one more is a member that only leaked, one a neighbour outside."""
    rng = np.random.default_rng(abs(hash_of(incident)) if seed is None else seed)
    names = tuple(f"n{v}" for v in range(nodes + 2))
    members, n = names[:-1], len(names)
    reference = {name: rng.normal(size=(QUIET, dim)).astype(np.float32) for name in names}
    before = 200 - after
    recent = {}
    for name in names:
        kind = regime if name in names[:nodes] else "quiet"
        parts = [np.concatenate([rng.normal(size=before), values(kind, after, rng)]) for _ in range(dim)]
        recent[name] = np.stack(parts, axis=1).astype(np.float32)
    time, threshold = 1e9 + 200.0, 4.0
    onset = time - after + 1
    return Case(
        incident=incident, stage=stage, time=time, opened=onset + 5, onset=onset, step=1.0, names=names,
        edges=np.array([[v, v + 1] for v in range(n - 1)], np.int32), weights=np.ones(n - 1),
        members=members, suspected=(), onsets={},
        statistic=np.array([9.0] * nodes + [4.5, 1.0], np.float32),
        event_statistic=np.full(n, 8.0, np.float32), levels=np.ones((n, 2), np.float32), lengths=(5, 200),
        increments=np.ones(n, np.float32), threshold=threshold, event_threshold=5.0,
        components=tuple(f"c{i}" for i in range(dim)), reference=reference, recent=recent,
        times={name: time - 199 + np.arange(200.0) for name in names},
        centre={name: np.zeros(dim) for name in names}, scale={name: np.ones(dim) for name in names},
    )  # fmt: skip


def hash_of(text: str) -> int:
    """The same in every process."""
    return int.from_bytes(text.encode()[-6:], "big")
