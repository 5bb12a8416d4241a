"""The scripted operator of the story: labels what a daemon found by what the simulation knows.

    python examples/story/scripted_operator.py examples/story/east.yaml          # label until interrupted
    python examples/story/scripted_operator.py examples/story/east.yaml --once   # what has ended so far

An incident of nodes that an event befell while it was on gets its type and its nodes; one that has nothing to
do with any event is a false alarm; one that follows an event, on its nodes, is left alone.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connectors.simulation.source import SimulateSource, Truth
from detector.config.config import Config

FOLLOWS_S = 200.0  # for so long after an event its nodes may not be quiet yet


def truth_of(incident: Mapping[str, Any], truths: Sequence[Truth]) -> Truth | None:
    """The event that the record of an incident is about."""
    nodes, opened = {node["name"] for node in incident["nodes"]}, incident["opened"]
    met = [one for one in truths if one.begin <= opened < one.end and nodes & set(one.nodes)]
    return max(met, key=lambda one: len(nodes & set(one.nodes)), default=None)


def label_for(incident: Mapping[str, Any], truths: Sequence[Truth]) -> dict[str, Any] | None:
    """What to say about it; None: nothing."""
    met = truth_of(incident, truths)
    if met is not None:
        return {"alarm": "true", "type": met.type, "nodes": list(met.nodes)}
    nodes, opened = {node["name"] for node in incident["nodes"]}, incident["opened"]
    late = any(one.end <= opened < one.end + FOLLOWS_S and nodes & set(one.nodes) for one in truths)
    return None if late else {"alarm": "false"}


def simulation(config: Config) -> SimulateSource:
    """The source of the configuration that knows the truth; it needs a `start`."""
    found = [source for source in config.source_objects().values() if isinstance(source, SimulateSource)]
    if len(found) != 1 or found[0].config.start is None:
        raise SystemExit("the configuration must have one source of type simulate, with start given")
    return found[0]


def label_ended(address: str, source: SimulateSource) -> list[str]:
    """Label the incidents that have ended and that nobody has labelled; the ids of those."""
    said = []
    incidents = ask(f"{address}/api/v1/incidents?state=ended&limit=1000")["incidents"]
    for incident in reversed(incidents):
        ticks = int((incident["time"] - (source.config.start or 0.0)) / source.config.period) + 1
        label = label_for(incident, source.truth(ticks))
        if incident["labels"] is None and incident["resolution"] != "merged" and label is not None:
            ask(f"{address}/api/v1/incidents/{incident['incident']}/label", label)
            said.append(incident["incident"])
            print(f"{incident['incident']}: {label.get('type', 'false alarm')}", flush=True)
    return said


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=60) as answer:
        return json.load(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--once", action="store_true", help="label what has ended so far, and stop")
    given = parser.parse_args()
    config = Config.load(given.config)
    source, address = simulation(config), f"http://{config.http.host}:{config.http.port}"
    while True:
        label_ended(address, source)
        if given.once:
            break
        time.sleep(1.0)


if __name__ == "__main__":
    main()
