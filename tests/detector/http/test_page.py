"""The console as the server sees it: files, policy, token, network, history, live stream, rates."""

from __future__ import annotations

import csv
import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from detector.http import frames
from detector.http.status_page import POLICY, drawn, load_files
from detector.network.network import Network
from tests.detector import rig
from tests.detector.http.page_rig import NODES, Feed, settings

TOKEN = {"Authorization": "Bearer swordfish"}


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feed]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "token").write_text("swordfish\n")
    path = settings(folder, http={"port": 0, "token_file": str(folder / "token")})
    with rig.Service(path) as service:
        service.wait_ready()
        yield Feed(service, TOKEN)


def get(feed: Feed, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", feed.service.port, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_page_needs_no_token_but_its_data_do(feed: Feed) -> None:
    for path in (
        "/",
        "/incidents/x",
        "/nodes/a%2Fb",
        "/page/main.js",
        "/page/style.css",
        "/page/uPlot.iife.min.js",
    ):
        assert get(feed, path)[0].status == 200, path
    for path in ("/api/v1/network", "/api/v1/live", "/api/v1/nodes/n7/history", "/api/v1/status"):
        assert get(feed, path)[0].status == 401, path


def test_strict_policy_and_no_inline_script_or_style(feed: Feed) -> None:
    answer, body = get(feed, "/")
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY
    text = body.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\son\w+=|\sstyle=|javascript:", text)
    assert "http://" not in text
    assert "https://" not in text


def test_every_file_named_by_the_page_is_there(feed: Feed) -> None:
    files = load_files()
    assert "uPlot.LICENSE.txt" in files
    named = set(re.findall(r"/page/([\w.]+)", files["index.html"][0].decode()))
    for name, (body, kind, _) in files.items():
        if kind == "text/javascript":
            named |= set(re.findall(r'from "\./([\w.]+)"', body.decode()))
        elif name == "style.css":
            assert b"url(" not in body
    assert named <= set(files), named - set(files)


def test_files_are_sent_again_only_when_changed(feed: Feed) -> None:
    tag = get(feed, "/page/main.js")[0].headers["ETag"]
    answer, body = get(feed, "/page/main.js", **{"If-None-Match": tag})
    assert (answer.status, body) == (304, b"")
    assert get(feed, "/page/main.js", **{"If-None-Match": '"other"'})[0].status == 200


@pytest.mark.parametrize("path", ["/page/../page.py", "/page/%2e%2e/page.py", "/page/none.js", "/page/"])
def test_nothing_else_is_given_away(feed: Feed, path: str) -> None:
    assert get(feed, path, **TOKEN)[0].status == 404


def test_network_history_and_stream(feed: Feed) -> None:
    network = json.loads(get(feed, "/api/v1/network", **TOKEN)[1])
    assert network["names"] == NODES
    assert len(network["links"]) == 16
    assert np.shape(network["places"]) == (8, 2)

    connection = http.client.HTTPConnection("127.0.0.1", feed.service.port, timeout=20)
    connection.request("GET", "/api/v1/live", headers=TOKEN)
    stream = connection.getresponse()
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    kind, frame = message(stream)
    assert (kind, frame["states"], frame["phase"]) == ("frame", "l" * 8, "learning")
    feed.learn()
    kinds = []
    for _ in range(40):
        kind, frame = message(stream)
        kinds.append(kind)
        if kind == "frame" and frame["phase"] == "watching" and frame["ticks"] > 320:
            break
    else:
        raise AssertionError(f"never saw it watch: {kinds}")
    connection.close()
    assert "detector.calibrated" in kinds
    assert set(frame["states"]) == {"w"}
    assert frame["step"] == 1.0
    assert isinstance(frame["idle"], float)
    assert len(frame["statistic"]) == 8
    assert all(value is not None for value in frame["statistic"])

    for name in NODES:
        found = json.loads(get(feed, f"/api/v1/nodes/{quote(name, safe='')}/history", **TOKEN)[1])
        assert len(found["times"]) == len(found["statistic"]) == len(found["mean"][0]) > 300, "learning, too"
        assert np.mean(found["mean"][0]) == pytest.approx(20.0, abs=0.5)
        assert found["low"] == found["high"] == []
        assert found["statistic"][0] is None
        assert found["statistic"][-1] is not None
        assert found["threshold"] > 0
        assert found["width"] == 1.0
        view = json.loads(get(feed, "/api/v1/nodes/" + quote(name, safe=""), **TOKEN)[1])
        assert view["name"] == name
        assert abs(view["centre"][0] - 20.0) < 1.0
        assert len(view["scales"]) == 2
        assert view["held"] is False
        response, body = get(feed, f"/api/v1/nodes/{quote(name, safe='')}/export", **TOKEN)
        rows = list(csv.DictReader(body.decode().splitlines()))
        assert response.headers["Content-Type"].startswith("text/csv")
        assert [round(float(row["value"]), 3) for row in rows] == [round(x, 3) for x in found["mean"][0]]
        assert rows[0]["time"].endswith("Z")
        assert (rows[0]["statistic"], rows[-1]["statistic"]) == ("", str(found["statistic"][-1]))
    assert get(feed, "/api/v1/nodes/nobody/history", **TOKEN)[0].status == 404
    assert get(feed, "/api/v1/nodes/nobody/export", **TOKEN)[0].status == 404


def message(stream: http.client.HTTPResponse) -> tuple[str, dict[str, object]]:
    kind, data = "", ""
    while (line := stream.readline().decode().strip()) or not data:
        name, _, value = line.partition(": ")
        kind, data = (value if name == "event" else kind), (value if name == "data" else data)
    return kind, json.loads(data)


def test_drawing_of_any_network_is_small_and_within_the_unit_square() -> None:
    single = json.loads(drawn(Network.empty(["only"])))
    assert single["places"] == [[0.0, 0.0]]
    dense = json.loads(drawn(Network.complete([f"n{i}" for i in range(250)])))
    assert len(dense["links"]) == 40_000
    assert dense["links_left_out"] == 250 * 249 // 2 - 20_000
    assert 0.0 <= np.min(dense["places"]) <= np.max(dense["places"]) <= 1.0
    assert dense["groups"] == []
    names = [f"n{i}" for i in range(1000)]
    ring = Network.from_edges([(names[i], names[(i + 1) % 1000]) for i in range(1000)], names)
    large = json.loads(drawn(ring))
    count = max(large["groups"]) + 1
    assert (len(large["groups"]), len(large["group_places"])) == (1000, count)
    assert 40 <= count <= 100
    assert set(large["group_links"]) <= set(range(count))


def test_letters_cover_every_state() -> None:
    script = (Path(frames.__file__).parent / "static" / "marks.js").read_text()
    for name, letter in frames.MARKS.items():
        assert f'letter: "{letter}", name: "{name}"' in script
