"""Daemons that ask each other about regimes over a real broker: distances only, whoever fails or lies."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import connectors
from connectors.codec.raw_messages import take_raw
from detector.config.config import Config, ConfigError
from detector.diagnosis.exchange.messages import RegimeQuestion
from detector.diagnosis.exchange.peers import PeerExchange
from detector.diagnosis.regime import library as regime_library
from detector.diagnosis.regime.features import points_of, spec_of
from detector.diagnosis.repository import Repository
from detector.runtime.metrics import EXCHANGE, Metrics
from detector.settings.diagnosis import ExchangeSettings
from detector.storage.store import Store
from estimators.regimes.library import RegimeLibrary
from tests import servers
from tests.detector import rig
from tests.detector.diagnosis.regime.regime_cases import case

SPEC = "v1-test-1"
NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[servers.Server]:
    server = servers.mosquitto(tmp_path_factory.mktemp("mosquitto"))
    yield server
    server.stop()


def points(regime: str, k: int = 3, seed: int = 0) -> np.ndarray:
    centre = {"leak": -0.5, "pump": 0.0, "valve": 0.5, "novel": 0.9}[regime]
    rng = np.random.default_rng([seed, ord(regime[0])])
    return np.tanh(centre + 0.1 * rng.normal(size=(k, 10)))


def library(*regimes: str, spec: str = SPEC) -> dict[str, RegimeLibrary]:
    made = RegimeLibrary(spec)
    for regime in regimes:
        made.enrol(regime, points(regime, 30, seed=1))
    return {spec: made}


class Site:
    """One daemon's end of the exchange."""

    def __init__(self, broker: servers.Server, topic: str, name: str, **settings: Any) -> None:
        others = [other for other in NAMES if other != name]
        base = {"name": name, "peers": others, "source": "in", "sink": "out", "timeout": 5.0}
        self.settings = ExchangeSettings(**base | settings)
        where = {"host": "127.0.0.1", "port": broker.port}
        Source, Sink = connectors.source("mqtt"), connectors.sink("mqtt")
        self.source = Source(Source.Config(topics=[topic], qos=0, client_id=f"{topic}-{name}-in", **where))
        self.sink = Sink(Sink.Config(topic=topic, client_id=f"{topic}-{name}-out", **where))
        self.metrics = Metrics()

    def count(self, outcome: str) -> float:
        labels = {"outcome": outcome}
        found = self.metrics.registry.get_sample_value("detector_exchange_messages_total", labels)
        assert found is not None
        return found

    async def ask(self, *groups: np.ndarray, spec: str = SPEC) -> Any:
        """From another thread, as the diagnosis service does."""
        given = [group.tolist() for group in groups]
        answers = await asyncio.to_thread(
            self.exchange.ask, RegimeQuestion, spec=spec, alpha=0.05, groups=given
        )
        return {peer: answer.readings() for peer, answer in answers.items()}

    def hold(self, libraries: dict[str, RegimeLibrary]) -> None:
        self.exchange.hold(RegimeQuestion, partial(regime_library.tables, libraries))

    async def say(self, body: bytes | dict[str, Any]) -> None:
        """Put something on the topic that no daemon would say."""
        if self.sink._connection is None:
            await self.sink.open()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = self.sink._connection.client.publish(self.sink.config.topic, data, qos=1)
        await asyncio.to_thread(sent.wait_for_publish, 5)


def run(broker: servers.Server, test: Callable[..., Awaitable[None]], *sites: dict[str, Any]) -> None:
    """Life of some sites on a topic of their own."""

    async def life() -> None:
        async with asyncio.timeout(40), together(broker, test.__qualname__, sites) as made:
            await test(*made)

    asyncio.run(life())


@contextlib.asynccontextmanager
async def together(broker: servers.Server, topic: str, sites: Any) -> AsyncIterator[list[Site]]:
    made = [Site(broker, topic.replace("<locals>", ""), **site) for site in sites]
    tasks = []
    for site in made:
        site.exchange = PeerExchange(site.settings, site.source, site.sink, site.metrics)
        tasks.append(asyncio.create_task(site.exchange.run()))
    try:
        for site in made:
            await until(lambda site=site: site.exchange.error is None)
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_three_sites_name_what_each_knows(broker):
    """One asks, two answer with distances to what they hold; nothing but that is on the wire."""

    async def test(a: Site, b: Site, c: Site) -> None:
        b.hold(library("leak", "pump"))
        c.hold(library("valve"))
        heard = []
        listen = Site(broker, a.sink.config.topic, "ear")
        inbox = take_raw(listen.source, 2**20)
        await listen.source.open(None)
        answers = await a.ask(points("leak"), points("valve"))
        while len(heard) < 3:
            await listen.source.read()
            heard += inbox.take()
        await listen.source.close()

        assert sorted(answers) == ["b", "c"]
        assert [sorted(table) for table in answers["b"]] == [["leak", "pump"], ["leak", "pump"]]
        assert answers["b"][0]["leak"].rho < 1.0 < answers["c"][0]["valve"].rho
        assert answers["c"][1]["valve"].rho < 1.0
        assert (a.count("asked"), a.count("heard"), b.count("answered")) == (1, 2, 1)
        fields = {"event", "id", "version", "sender", "question", "spec", "tables"}
        told = [json.loads(body) for body in heard]
        assert [set(one) for one in told if one["event"] == "regime.answer"] == [fields, fields]
        tables = [table for one in told if one["event"] == "regime.answer" for table in one["tables"]]
        assert all(len(numbers) == 3 for table in tables for numbers in table.values())

    run(broker, test, {"name": "a"}, {"name": "b"}, {"name": "c"})


def test_who_is_missing_is_not_waited_for_longer(broker):
    """One of two peers does not exist: the other's answer counts, after the time is over."""

    async def test(a: Site, b: Site) -> None:
        b.hold(library("leak"))
        answers = await a.ask(points("leak"))
        assert sorted(answers) == ["b"]
        assert sorted(await b.ask(points("leak"))) == ["a"], "a has nothing, and says so"

    run(broker, test, {"name": "a", "timeout": 1.0}, {"name": "b", "timeout": 1.0})


def test_both_ask_at_once(broker):
    """Two that ask each other at the same time both get their answer."""

    async def test(a: Site, b: Site) -> None:
        a.hold(library("leak"))
        b.hold(library("pump"))
        first, second = await asyncio.gather(a.ask(points("pump")), b.ask(points("leak")))
        assert first["b"][0]["pump"].rho < 1.0
        assert second["a"][0]["leak"].rho < 1.0

    run(broker, test, {"name": "a", "peers": ["b"]}, {"name": "b", "peers": ["a"]})


def test_strangers_garbage_and_other_versions(broker):
    """Counted, answered by nobody, and the exchange goes on."""
    head = {"id": "q", "version": 1, "sender": "b", "spec": SPEC}
    question = head | {"event": "regime.question", "alpha": 0.05, "until": 4e9, "groups": [[[0.0] * 10]]}
    answer = head | {"event": "regime.answer", "question": "q", "tables": []}

    async def test(a: Site, b: Site) -> None:
        a.hold(library("leak"))
        for bad in (b"", b"\\xff\\xfe", b'{"event": "regime.quest', b"[" * 100_000, b"x" * (2**20 + 1),
                    question | {"version": 2}, question | {"groups": []}, question | {"alpha": 2.0},
                    question | {"groups": [[[0.0], [0.0, 0.0]]]}, question | {"groups": [[["x"]]]},
                    question | {"groups": [[[0.0, 0.0]]]}, question | {"event": "incident.opened"},
                    answer | {"tables": [{"leak": [-1.0, 0.0, 0.5]}]}):  # fmt: skip
            await b.say(bad)
        await until(lambda: a.count("malformed") == 13)
        await b.say(question | {"sender": "mallory"})
        await until(lambda: a.count("stranger") == 1)
        await b.say(question | {"until": 1.0})
        await b.say(answer | {"question": "nobody asked"})
        await until(lambda: a.count("late") == 2)
        await b.say(question | {"spec": "v9-other-1"})
        await until(lambda: a.count("spec") == 1)
        b.hold(library("leak"))
        assert (await a.ask(points("leak")))["b"][0]["leak"].rho < 1.0

    run(broker, test, {"name": "a", "peers": ["b"]}, {"name": "b", "peers": ["a"]})


def test_an_answer_about_other_features_does_not_count(broker):
    async def test(a: Site, b: Site) -> None:
        asked = asyncio.create_task(a.ask(points("leak")))
        await until(lambda: bool(a.exchange._waiting))
        (id,) = a.exchange._waiting
        lie = {"event": "regime.answer", "id": "x", "sender": "b", "question": id, "tables": [{}]}
        await b.say(lie | {"spec": "v9-other-1"})
        await b.say(lie | {"spec": SPEC, "tables": [{}, {}]})
        assert await asked == {}
        assert (a.count("spec"), a.count("malformed")) == (1, 1)

    run(broker, test, {"name": "a", "peers": ["b"], "timeout": 1.0}, {"name": "b", "peers": ["c"]})


def test_questions_are_limited(broker):
    """More than so many in a minute are not answered: distances to chosen points tell about the samples."""

    async def test(a: Site, b: Site) -> None:
        b.hold(library("leak"))
        got = [await a.ask(points("leak")) for _ in range(4)]
        assert [len(answers) for answers in got] == [1, 1, 0, 0]
        assert b.count("limited") == 2

    run(
        broker,
        test,
        {"name": "a", "peers": ["b"], "timeout": 5},
        {"name": "b", "peers": ["a"], "per_minute": 2},
    )


def test_unknown_regimes_stay_at_home():
    """Numbers mean nothing elsewhere: only regimes with a name are answered for."""
    held = library("leak")[SPEC]
    held.add(dataclasses.replace(held.structures["leak"], label="unknown-3"))
    groups = [points("leak").tolist()]
    question = RegimeQuestion(id="q", sender="a", spec=SPEC, alpha=0.05, until=0.0, groups=groups)

    assert [sorted(table) for table in regime_library.tables({SPEC: held}, question)["tables"]] == [["leak"]]
    assert regime_library.tables({}, question) == {"tables": [{}]}


def test_a_broker_that_goes_and_comes(tmp_path):
    """Without it nobody is waited for; when it is back, answers come again."""
    broker = servers.mosquitto(tmp_path / "broker")

    async def test(a: Site, b: Site) -> None:
        b.hold(library("leak"))
        assert len(await a.ask(points("leak"))) == 1
        broker.kill()
        await until(lambda: a.exchange.error is not None)
        assert await a.ask(points("leak")) == {}
        broker.start()
        await until(lambda: a.exchange.error is None and b.exchange.error is None)
        assert len(await a.ask(points("leak"))) == 1

    try:
        run(broker, test, {"name": "a", "peers": ["b"]}, {"name": "b", "peers": ["a"]})
    finally:
        broker.stop()


def test_the_doors_must_take_messages():
    """Sources that read lines or ask for samples cannot carry an exchange."""
    Source = connectors.source("stdin")
    with pytest.raises(ValueError, match="type stdin cannot hand over messages undecoded"):
        take_raw(Source(Source.Config()), 1000)


def test_all_outcomes_are_there_from_the_start():
    page = Metrics().page().decode()
    for outcome in EXCHANGE:
        assert f'detector_exchange_messages_total{{outcome="{outcome}"}} 0.0' in page


SHIFT = (480, 600)  # ticks in which three nodes of the daemon that asks are shifted


def site(folder: Path, port: int, name: str, peers: list[str], changed: bool) -> Path:
    """Configuration and data of a daemon."""
    folder.mkdir()
    rng = np.random.default_rng(len(name))
    values = rng.normal(size=(620 if changed else 5, 8))
    if changed:
        values[slice(*SHIFT), 2:5] += 3.0
    rows = [{"time": rig.START + t, "node": f"n{v}", "value": round(float(x), 4)}
            for t, row in enumerate(values) for v, x in enumerate(row)]  # fmt: skip
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    where = {"type": "mqtt", "host": "127.0.0.1", "port": port}
    base = rig.settings(folder)
    hear = where | {"topics": ["regimes"], "qos": 0, "client_id": f"{name}-in"}
    tell = where | {"topic": "regimes", "client_id": f"{name}-out"}
    exchange = {"name": name, "peers": peers, "source": "hear", "sink": "tell", "timeout": "3s"}
    return rig.write_config(
        folder, sources=base["sources"] | {"hear": hear}, sinks=base["sinks"] | {"tell": tell},
        windows={"reference": 130, "tests": [5, 10, 64]}, diagnosis={"exchange": exchange},
    )  # fmt: skip


def test_two_daemons(broker, tmp_path):
    """A daemon that knows nothing has its incident named by another one; a third does not exist."""
    configs = {
        "knows": site(tmp_path / "knows", broker.port, "knows", ["asks"], changed=False),
        "asks": site(tmp_path / "asks", broker.port, "asks", ["knows", "nobody"], changed=True),
    }
    store = Store(tmp_path / "knows" / "state")
    leaks = [case("shifted", f"s{i}") for i in range(10)]
    regime = regime_library.empty("leak", spec_of(leaks[0]))
    for one in leaks:
        regime = regime.with_windows(one.incident, points_of(one).values())
    regime_library.save(Repository(store), regime.learnt())
    store.close()

    with rig.Service(configs["knows"]).wait_ready() as knows:
        rig.wait_for(lambda: knows.metric("models", kind="regime") == 1)
        with rig.Service(configs["asks"]).wait_ready() as asks:
            out = tmp_path / "asks" / "out.jsonl"
            rig.wait_for(lambda: any(id.endswith("-regime-settled") for id in rig.ids(out)), 60)
            assert asks.metric("exchange_messages_total", outcome="heard") >= 1
            status, told = asks.ask("/api/v1/diagnosis/regime/list", "POST", {})
        assert knows.metric("exchange_messages_total", outcome="answered") >= 1

    records = [json.loads(line) for line in out.read_text().splitlines()]
    finding = next(one for one in records if one["id"].endswith("-regime-settled"))
    details = finding["details"]
    assert (details["regime"], details["by"], details["novel"]) == ("leak", "knows", False)
    assert details["missing"] == ["nobody"]
    assert {node["name"] for node in details["nodes"]} <= {"n2", "n3", "n4"}
    assert finding["summary"].startswith("regime leak (p = ")
    assert finding["summary"].endswith("known to knows; no answer from nobody")
    assert (status, told["regimes"]) == (200, [])
    assert told["exchange"] == "asks with knows, nobody: connected"
    assert not [one for one in records if one["event"].startswith("regime.")], "messages are no records"


CONFIGURED = """
graph: {edges: [[a, b]]}
sources:
  plant: {type: stdin}
  hear: {type: mqtt, host: h, topics: [regimes]}
sinks:
  tell: {type: mqtt, host: h, topic: regimes}
  out: {type: stdout}
diagnosis:
  time_limit: 20s
  exchange: {name: here, peers: [there], source: hear, sink: tell}
"""


def test_connectors_of_the_exchange_are_set_aside():
    """They bring no samples and take no records, and are there for the exchange and for `detector check`."""
    config = Config.parse(CONFIGURED)

    assert list(config.source_objects()) == ["plant"]
    assert list(config.sink_objects()) == ["out"]
    assert list(config.source_objects(True)) == ["plant", "hear"]
    pair = config.exchange_connectors()
    assert pair is not None
    assert [one.name for one in pair] == ["mqtt", "mqtt"]
    assert Config.parse(CONFIGURED.split("diagnosis")[0]).exchange_connectors() is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("source: hear", "source: ear", "exchange.source: there is no source 'ear'; known: plant, hear"),
        ("sink: tell", "sink: out", "exchange.sink: out is of type stdout; must be one of mqtt, kafka,"),
        ("source: hear", "source: plant", "exchange.source: plant is of type stdin; must be one of mqtt"),
        ("  plant: {type: stdin}\n", "", "sources: the only source is set aside for the exchange"),
        ("peers: [there]", "peers: [here]", "exchange: peers: 'here' is the name of this daemon"),
        ("peers: [there]", "peers: []", "exchange.peers: must have at least 1 item"),
        (
            "time_limit: 20s",
            "time_limit: 5s",
            "diagnosis.exchange.timeout: must be less than diagnosis.time_limit, 5 s",
        ),
        ("peers: [there]", "peers: [there], per_minute: 0", "exchange.per_minute: must be at least"),
        ("name: here", "nam: here", "exchange.nam: unknown key; did you mean name"),
    ],
)
def test_bad_configurations(old, new, message):
    """Each is told with its key."""
    with pytest.raises(ConfigError) as caught:
        Config.parse(CONFIGURED.replace(old, new))
    assert message in str(caught.value)


def test_a_reload_sets_connectors_aside(broker, tmp_path):
    """Connectors of samples and records become those of an exchange while running, and back again."""
    path = site(tmp_path / "one", broker.port, "one", ["two"], changed=False)
    with_exchange = yaml.safe_load(path.read_text())
    without = {key: value for key, value in with_exchange.items() if key != "diagnosis"}
    path.write_text(yaml.safe_dump(without))
    with rig.Service(path).wait_ready() as service:

        def in_use() -> tuple[set[str], set[str], Any]:
            _, status = service.ask("/api/v1/status")
            _, told = service.ask("/api/v1/diagnosis/regime/list", "POST", {})
            return set(status["sources"]), set(status["sinks"]), told.get("exchange")

        assert in_use() == ({"in", "hear"}, {"out", "tell"}, None)
        for config, wanted in ((with_exchange, ({"in"}, {"out"}, "one with two: connected")),
                               (without, ({"in", "hear"}, {"out", "tell"}, None))):  # fmt: skip
            path.write_text(yaml.safe_dump(config))
            service.process.send_signal(signal.SIGHUP)
            rig.wait_for(lambda wanted=wanted: in_use() == wanted)
        assert service.process.poll() is None
