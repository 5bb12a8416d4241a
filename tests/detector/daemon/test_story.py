"""The story of docs/story.md by real daemons: two sites, a broker between them, the scripted operator."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from connectors.simulation.source import Truth
from detector.adaptation.model_file import AdaptedModel
from detector.cli.main import cli
from detector.config.config import Config
from tests import servers
from tests.detector import rig

STORY = Path(__file__).parents[3] / "examples" / "story"
SITES = ("east", "west")
LABELLED = 5_780  # ticks: twelve events at each site, the last one over
LATER = 6_300  # and then a leak at west, where there was none before, and two more events at each


def script() -> Any:
    spec = importlib.util.spec_from_file_location("scripted_operator", STORY / "scripted_operator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


operator = script()


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[servers.Server]:
    server = servers.mosquitto(tmp_path_factory.mktemp("mosquitto"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {site: servers.free_port() for site in SITES}


def configuration(folder: Path, site: str, broker: servers.Server, port: int, ticks: int) -> Path:
    """That of the examples at full speed, with these ports, until a tick."""
    data = yaml.safe_load((STORY / f"{site}.yaml").read_text())
    data["sources"]["plant"] |= {"speed": 0, "ticks": ticks}
    data["sources"]["peers-in"]["port"] = data["sinks"]["peers-out"]["port"] = broker.port
    data["sinks"]["console"] = {"type": "file", "path": str(folder / f"{site}.jsonl")}
    data["state"]["directory"] = str(folder / f"state-{site}")
    data["http"]["port"] = port
    path = folder / f"{site}.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def at_rest(service: rig.Service) -> bool:
    """The simulation is over, and everything is analyzed and learnt."""
    _, status = service.ask("/api/v1/status")
    _, diagnosis = service.ask("/api/v1/diagnosis")
    busy = [order for order in diagnosis["actions"] if order["state"] == "running"]
    ended = status["sources"]["plant"]["status"] == "ended" and not status["queue"]["samples"]
    return ended and not diagnosis["waiting"] and not busy


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(cli, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def regimes(config: Path) -> dict[str, Any]:
    return run("diagnosis", "regime", "list", "--config", str(config))


def findings(config: Path, incident: str) -> dict[str, Any]:
    """By kind, of the settled case file, by what is known now."""
    told = run("incidents", "analyze", incident, "--config", str(config))
    return {one["details"]["kind"]: one for one in told if one["details"]["stage"] == "settled"}


def test_the_configurations_are_right():
    for site in SITES:
        config = Config.load(STORY / f"{site}.yaml")
        assert config.exchange is not None
        assert config.exchange.name == site
        assert operator.simulation(config).config.nodes == 50


def test_the_operator_knows_what_happened():
    """An event by its nodes and time; what follows it is left alone; the rest is false."""
    source = operator.simulation(Config.load(STORY / "east.yaml"))
    first, second = source.truth(2600)
    assert (first.type, second.type) == ("leak", "jam")

    def said(opened: float, *names: str) -> Any:
        record = {"opened": opened, "nodes": [{"name": name} for name in names]}
        return operator.label_for(record, [first, second])

    assert said(first.begin + 5, first.nodes[0], "x") == {
        "alarm": "true", "type": "leak", "nodes": list(first.nodes)}  # fmt: skip
    assert said(first.begin + 5, "x") == {"alarm": "false"}
    assert said(first.begin - 5, *first.nodes) == {"alarm": "false"}
    assert said(first.end + 5, *first.nodes) is None


def test_labels_make_it_right(broker, ports, tmp_path):
    """After twelve events at each site a new one has learnt nodes; west has a leak named by east alone."""
    configs = {site: configuration(tmp_path, site, broker, ports[site], LABELLED) for site in SITES}
    with (
        rig.Service(configs["east"]).wait_ready() as east,
        rig.Service(configs["west"]).wait_ready() as west,
    ):
        for site, service in (("east", east), ("west", west)):
            rig.wait_for(lambda service=service: at_rest(service), what="the end of the simulation")
            source = operator.simulation(Config.load(configs[site]))
            said = operator.label_ended(f"http://127.0.0.1:{service.port}", source)
            assert len(said) >= 9
            assert operator.label_ended(f"http://127.0.0.1:{service.port}", source) == [], "each only once"
            rig.wait_for(lambda service=service: at_rest(service), what="what labels teach")
        names = {site: {one["name"] for one in regimes(configs[site])["regimes"]} for site in SITES}
        assert {"leak", "jam"} <= names["east"]
        assert {"noise", "jam"} <= names["west"]
        assert "leak" not in names["west"]
        assert east.stop() == west.stop() == 0

    for site in SITES:
        configuration(tmp_path, site, broker, ports[site], LATER)
    with rig.Service(configs["east"]).wait_ready() as east:
        rig.wait_for(lambda: connected(configs["east"]))
        with rig.Service(configs["west"]).wait_ready() as west:
            rig.wait_for(lambda: connected(configs["west"]))
            for site, service in (("east", east), ("west", west)):
                rig.wait_for(lambda service=service: at_rest(service), what="later events")
                check_known_types(configs[site], service)
            check_the_leak(configs["west"], west, tmp_path)
            assert west.metric("exchange_messages_total", outcome="heard") >= 1


def connected(config: Path) -> bool:
    return bool(regimes(config)["exchange"].endswith(": connected"))


def later(config: Path, service: rig.Service) -> list[tuple[str, Truth]]:
    """The incidents that nobody has labelled, of events after the labels."""
    source = operator.simulation(Config.load(config))
    truths = [one for one in source.truth(LATER) if one.begin >= source.config.start + LABELLED]
    _, listed = service.ask("/api/v1/incidents")
    met = [(one["incident"], operator.truth_of(one, truths)) for one in listed["incidents"]]
    found = [(incident, truth) for incident, truth in met if truth is not None]
    assert len(found) >= 2
    return found


def check_known_types(config: Path, service: rig.Service) -> None:
    """Later events of types that were labelled have the right nodes, type and regime."""
    for incident, truth in later(config, service):
        if truth.type != "leak" or config.stem == "east":
            found = findings(config, incident)
            nodes, regime = found["footprint"]["details"], found["regime"]["details"]
            assert len({node["name"] for node in nodes["nodes"]} ^ set(truth.nodes)) <= 2
            assert (regime["regime"], regime["by"]) == (truth.type, None)
            assert nodes.get("type", truth.type) == truth.type
            if config.stem == "east":  # at west thresholds do as well, and serve
                assert nodes["source"] == "learnt"


def check_the_leak(config: Path, service: rig.Service, folder: Path) -> None:
    """East names it, thresholds name its nodes, and a soft sensor at its centre is repaired."""
    incident, leak = next((incident, one) for incident, one in later(config, service) if one.type == "leak")
    found = findings(config, incident)
    regime = found["regime"]["details"]
    assert (regime["regime"], regime["by"], regime["novel"]) == ("leak", "east", False)
    assert found["regime"]["summary"].endswith("known to east")
    footprint = found["footprint"]["details"]
    assert footprint["source"] == "threshold", "nobody has labelled a leak at west"
    assert len({node["name"] for node in footprint["nodes"]} ^ set(leak.nodes)) <= 2

    source, node, rng = operator.simulation(Config.load(config)), leak.nodes[0], np.random.default_rng(1)
    v, size = source.names.index(node), source.config.changes[0].size
    offset, gain = source.offset[v], source.gain[v]
    u = np.concatenate([rng.normal(size=300), rng.uniform(-3.0, 6.0, 100)])
    y = response(u) + 0.2 * rng.normal(size=400)
    pairs, written = folder / "pairs.csv", folder / "model.json"
    rows = zip((offset + gain * u).tolist(), y.tolist(), strict=True)
    pairs.write_text("reading,quantity\n" + "".join(f"{a},{b}\n" for a, b in rows))
    said = run("adapt", "fit", str(pairs), "--target", "quantity", "--incident", incident, "--node", node,
               "--model", "line", "-o", str(written), "--config", str(config))  # fmt: skip
    assert said["error_after"] < 0.9 * said["error_before"]
    fresh = size + rng.normal(size=500)
    in_use = np.polyval(np.polyfit(u[:300], y[:300], 1), fresh)
    adapted = AdaptedModel.load(written).predict((offset + gain * fresh)[:, None])
    errors = [np.sqrt(np.mean((said - response(fresh)) ** 2)) for said in (in_use, adapted)]
    assert errors[1] < 0.7 * errors[0]


def response(u: np.ndarray) -> np.ndarray:
    """What the soft sensor stands for."""
    return 3.0 * np.tanh(u / 2.0)
