"""The published JSON Schema of event records, and what each of their fields means.

``python -m detector.events.schema > detector/events/event.schema.json`` after any change to the records.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, get_args

import msgspec

from detector.events.model import (
    SCHEMA_VERSION,
    Change,
    DetectorKind,
    Event,
    IncidentKind,
    Labels,
    NodeKind,
    NodeRecord,
)

SCHEMA_FILE = "events/event.schema.json"
RECORDS = (Event, NodeRecord, Change, Labels)
KINDS: tuple[str, ...] = get_args(IncidentKind) + get_args(NodeKind) + get_args(DetectorKind)

EARLIEST = "lower end of the 95 % interval of the onset; null if it may lie before the window"


def _described(struct: type[msgspec.Struct]) -> dict[str, str]:
    """What the fields of a struct mean, where the struct itself says it."""
    properties = msgspec.json.schema(struct)["$defs"][struct.__name__]["properties"]
    return {name: field["description"] for name, field in properties.items()}


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
        "severity_now": "level by the latest decision; null: no decision",
        "incident": "id of the incident; in an event of a node, the open incident it belongs to",
        "common": "id that incidents of adjoining boxes share when they are one event (`edge`): that of the "
        "one that opened first; null: none is known to belong to it",
        "sequence": "number of this record within its incident, from 1, without gaps; null in a finding",
        "opened": "time at which the incident was opened",
        "onset": "estimated begin of the change, pooled over the nodes; null: not known, for the reason in "
        "`details.onset`",
        "onset_iso": "the same in ISO 8601, UTC",
        "onset_earliest": EARLIEST,
        "onset_latest": "upper end of the 95 % interval of the onset",
        "nodes": "the nodes concerned, largest peak first",
        "statistic": "largest event statistic over the incident's nodes at the latest decision",
        "peak": "largest event statistic since the incident was opened",
        "threshold": "threshold of the event statistic",
        "node_threshold": "threshold of the node statistic",
        "description": "how the nodes changed, strongest first",
        "resolution": "how it ended: `cleared` back to before, `accepted` as the new normal, `restored` "
        "back to the normal before a change that had been accepted, `timed_out` let go by policy, `merged` "
        "into another incident",
        "merged_into": "the incident that took this one in",
        "by": "who caused the transition: the `detector`'s decisions, a `policy` of the configuration, or an "
        "`operator`",
        "labels": "what people said about the incident",
        "source": "the method that named the nodes",
        "details": "further numbers of the `detector.*` kinds; of a finding its `kind`, the `stage` of the "
        "case file (`early` or `settled`) and what was found",
    },
    "NodeRecord": {
        "name": "name of the node",
        "state": "`alarmed`: changed, by its own data, with the share of false names kept below 5 %; "
        "`suspected`: possibly changed; `recovered`: was in the incident and is as before; `silent`, "
        "`stuck`: no usable data; `watching`: none of these",
        "since": "time at which the node entered the incident",
        "onset": "estimated time of its first changed sample",
        "onset_earliest": EARLIEST,
        "onset_latest": "upper end of the 95 % interval of the onset",
        "statistic": "node statistic at the latest decision; null: no decision",
        "peak": "largest node statistic since it entered",
        "probability": "that the node changed, by its own data and its neighbours; null: not known",
        "p_value": "chance of data as far from before, had the node not changed; null: not known",
        "changed": "whether the summary counts it among the nodes that changed, also once it has recovered; "
        "false: it possibly changed; null: not in an incident",
        "change": "how this node changed, strongest first",
    },
    "Change": {
        "kind": "what changed; `distribution` when no simpler statement is supported",
        "text": "the statement in words",
        "components": "the components it speaks of; two for a correlation",
        "effect": "size: a mean in standard deviations of the reference, a spread as a ratio, the others as "
        "a difference; of several nodes the median, and its absolute size if they disagree on the direction",
        "low": "smallest size over the nodes; null for a single node",
        "high": "largest size over the nodes; null for a single node",
        "before": "value of the node in the reference, mean and spread in original units; null for several "
        "nodes, whose values have no common level",
        "after": "value after the onset, in the units of `before`",
        "unit": "unit of `before` and `after`; null if none was given",
        "z": "strength: effect over its standard error, corrected for serial correlation, pooled over "
        "the nodes",
        "nodes": "number of nodes the statement is drawn from",
    },
    "Labels": _described(Labels),
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
