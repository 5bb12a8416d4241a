"""The published JSON Schema of event records, and what each of their fields means.

``python -m detector.schema > detector/schemas/event.schema.json`` after any change to the records.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, get_args

import msgspec

from detector.events import (
    SCHEMA_VERSION,
    Change,
    DetectorKind,
    Event,
    IncidentKind,
    Labels,
    NodeKind,
    NodeRecord,
)

SCHEMA_FILE = "schemas/event.schema.json"
RECORDS = (Event, NodeRecord, Change, Labels)
KINDS: tuple[str, ...] = get_args(IncidentKind) + get_args(NodeKind) + get_args(DetectorKind)

EARLIEST = "lower end of the 95 % interval of the onset; null if it may lie before the window"

FIELDS: dict[str, dict[str, str]] = {
    "Event": {
        "id": "stable id of this record, the same after a replay or a restart: use it to drop repeats. "
        "For incidents it is the incident's id, a dash and the sequence number; for findings, kind and stage",
        "version": "version of this schema",
        "event": "kind of record",
        "time": "time of the tick in the stream's own time: unix seconds, or a plain number",
        "time_iso": "the same in ISO 8601, UTC; null if the stream counts in plain numbers (below 1e8)",
        "summary": "one plain sentence for people",
        "severity": "largest level reached; it never falls within an incident",
        "severity_now": "level by the latest verdict; null: no verdict",
        "incident": "id of the incident; in an event of a node, the open incident it belongs to",
        "sequence": "number of this record within its incident, from 1, without gaps; null in a finding",
        "opened": "time at which the incident was opened",
        "onset": "estimated begin of the change, pooled over the nodes",
        "onset_iso": "the same in ISO 8601, UTC",
        "onset_earliest": EARLIEST,
        "onset_latest": "upper end of the 95 % interval of the onset",
        "nodes": "the nodes concerned, largest peak first",
        "statistic": "largest event statistic over the incident's nodes at the latest verdict",
        "peak": "largest event statistic since the incident was opened",
        "threshold": "threshold of the event statistic",
        "node_threshold": "threshold of the node statistic",
        "description": "how the nodes changed, strongest first",
        "resolution": "how it ended: `cleared` back to before, `accepted` as the new normal, `timed_out` let "
        "go by policy, `merged` into another incident",
        "merged_into": "the incident that took this one in",
        "by": "who caused the transition: the `detector`'s verdicts, a `policy` of the configuration, or an "
        "`operator`",
        "labels": "what people said about the incident",
        "source": "the method that named the nodes",
        "details": "further numbers of the `detector.*` kinds; of a finding its `kind`, the `stage` of the "
        "case file (`early` or `settled`) and what was found",
    },
    "NodeRecord": {
        "name": "name of the node",
        "state": "`suspected`: only the evidence pooled around it points here; `alarmed`: its own statistic "
        "says so; `recovered`: was alarmed and is cool since; `silent`, `stuck`: no usable data; `watching`: "
        "none of these",
        "since": "time at which the node entered the incident",
        "onset": "estimated time of its first changed sample",
        "onset_earliest": EARLIEST,
        "onset_latest": "upper end of the 95 % interval of the onset",
        "statistic": "node statistic at the latest verdict; null: no verdict",
        "peak": "largest node statistic since it entered",
        "change": "how this node changed, strongest first",
    },
    "Change": {
        "kind": "what changed; `distribution` when no simpler statement is supported",
        "text": "the statement in words",
        "components": "the components it speaks of; two for a correlation",
        "effect": "size: a mean in standard deviations of the reference, a spread as a ratio, the others as "
        "a difference; the typical absolute size if the nodes disagree on the direction",
        "before": "value in the reference, averaged over the nodes; mean and spread in original units",
        "after": "value after the onset, in the units of `before`",
        "z": "strength: effect over its standard error, corrected for serial correlation, pooled over "
        "the nodes",
        "nodes": "number of nodes the statement is drawn from",
    },
    "Labels": {
        "time": "when it was last labelled",
        "alarm": "`true`: a real event; `false`: a false alarm",
        "type": "kind of event, in the site's own words",
        "nodes": "the nodes confirmed to be affected",
        "note": "free text",
    },
}


def schema() -> dict[str, Any]:
    """The JSON Schema of a record, generated from the structs and the words above."""
    generated = msgspec.json.schema(Event)
    for name, words in FIELDS.items():
        struct = generated["$defs"][name]
        for field, meaning in words.items():
            struct["properties"][field]["description"] = meaning
        # Every field is always written. Further ones stay allowed: a reader must survive our next version.
        struct["required"] = sorted(struct["properties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"detector event record, version {SCHEMA_VERSION}",
        **generated,
    }


def schema_text() -> str:
    """The schema as it is shipped."""
    return json.dumps(schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def published_schema() -> dict[str, Any]:
    """The schema file of the installed package."""
    published: dict[str, Any] = json.loads(
        resources.files("detector").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    )
    return published


if __name__ == "__main__":
    print(schema_text(), end="")
