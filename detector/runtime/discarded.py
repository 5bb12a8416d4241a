"""Samples that the stream did not take when they came: of which source, of which sender, for which reason.

The pipeline only counts. Where it has discarded any, the batch is looked through once more, which costs
nothing as long as all is well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from connectors.base import Sample
from detector.alignment.aligner import Aligner
from detector.runtime.ingest_queue import Arrival

ON_ARRIVAL = ("node", "dimension", "late")  # reasons that are known as soon as a sample comes


@dataclass
class Example:
    """How many of one source and reason, and the latest of them in words."""

    count: int
    text: str


Discarded = dict[tuple[str, str], Example]


def attribute(
    samples: Sequence[Sample], arrivals: Sequence[Arrival], aligner: Aligner, into: Discarded
) -> None:
    """After the push of these samples: count those discarded, by source in ``into`` and for their senders."""
    late = {
        (aligner.node_index.names[node], time)
        for part in aligner.late
        for node, time in zip(part.nodes.tolist(), part.times.tolist(), strict=True)
    }
    known, dim = aligner.node_index.index, aligner.dim
    at = 0
    for arrival in arrivals:
        owners, owner_of = arrival.owned()
        end = at + len(arrival.batch.samples)
        reasons = [
            "dimension" if len(sample.values) != dim
            else "node" if sample.node not in known
            else "late" if late and (sample.node, sample.time) in late
            else ""
            for sample in samples[at:end]
        ]  # fmt: skip
        for reason in ON_ARRIVAL:
            places = np.array([i for i, one in enumerate(reasons) if one == reason], np.intp)
            for owner, count in enumerate(np.bincount(owner_of[places], minlength=len(owners)).tolist()):
                if not count:
                    continue
                source, account = owners[owner]
                if account is not None:
                    account[reason] = account.get(reason, 0) + count
                last = samples[at + int(places[owner_of[places] == owner][-1])]
                known_already = into.get((source, reason))
                total = count + (known_already.count if known_already else 0)
                into[source, reason] = Example(total, _text(last, reason, dim))
        at = end


def _text(sample: Sample, reason: str, dim: int) -> str:
    if reason == "dimension":
        return f"node {sample.node!r} with {len(sample.values)} values instead of {dim}"
    return f"node {sample.node!r} at {sample.time:.3f}"
