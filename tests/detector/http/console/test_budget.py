"""The budget at the console: compared with the past, chosen by an admin, kept until the file changes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from detector.http.console.budget import crossings
from tests.detector import rig
from tests.detector.http.page_rig import Feed, settings


def ask(service: rig.Service, method: str = "GET", **body: Any) -> Any:
    status, answer = service.ask("/api/v1/budget", method, body or None)
    assert status == 200, answer
    return answer


def in_use(view: dict[str, Any]) -> dict[str, Any]:
    (row,) = [row for row in view["rows"] if row["in_use"]]
    return row


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return settings(tmp_path_factory.mktemp("budget"))


def test_a_chosen_budget_counts_until_the_file_has_another(config: Path) -> None:
    with rig.Service(config) as service:
        feed = Feed(service.wait_ready())
        assert ask(service)["rows"] == [], "nothing is learnt yet"
        feed.learn()
        feed.incident("n7")
        feed.push(60)
        view = ask(service)
        assert (view["budget"], view["chosen"]) == ("1 per 500 ticks", None)
        thresholds = [row["threshold"] for row in view["rows"]]
        assert thresholds == sorted(set(thresholds)), "the smaller a budget the higher its threshold"
        assert in_use(view)["events"] >= 1, "the change of n7"
        assert max(view["highest"]) > in_use(view)["threshold"]
        assert len(view["times"]) == len(view["highest"])
        assert in_use(view)["threshold"] == pytest.approx(feed.status()["event_threshold"], rel=1e-4)

        assert service.ask("/api/v1/budget?budget=sometimes")[0] == 400
        assert service.ask("/api/v1/budget", "POST", {"budget": "0 per day"})[0] == 400
        view = ask(service, "POST", budget="1 per 4000 ticks")
        assert (view["budget"], view["configured"]) == ("1 per 4000 ticks", "1 per 500 ticks")
        assert view["chosen"]["who"] == "anonymous"
        chosen = in_use(view)["threshold"]
        assert service.stop() == 0

    with rig.Service(config) as service:
        service.wait_ready()
        assert "set at the console by anonymous, instead of 1 per 500 ticks" in service.said()
        assert in_use(ask(service))["threshold"] == pytest.approx(chosen, rel=1e-3)
        text = yaml.safe_load(config.read_text())
        text["alarm"]["budget"] = "1 per 900 ticks"
        config.write_text(yaml.safe_dump(text))
        service.process.send_signal(1)
        rig.wait_for(lambda: ask(service)["budget"] == "1 per 900 ticks", 120, "the budget of the file")
        assert ask(service)["chosen"] is None
        assert service.stop() == 0

    with rig.Service(config) as service:
        service.wait_ready()
        assert ask(service)["budget"] == "1 per 900 ticks"


def test_only_an_admin_may_choose(config: Path, tmp_path: Path) -> None:
    for name in ("ada", "grace"):
        (tmp_path / name).write_text(f"token-of-{name}")
    tokens = [
        {"name": "Ada", "role": "operate", "token_file": str(tmp_path / "ada")},
        {"name": "Grace", "role": "admin", "token_file": str(tmp_path / "grace")},
    ]
    text = {**yaml.safe_load(config.read_text()), "http": {"port": 0, "tokens": tokens}}
    config.write_text(yaml.safe_dump(text))
    with rig.Service(config) as service:
        service.wait_ready()
        said = {}
        for name in ("ada", "grace"):
            headers = {"Authorization": f"Bearer token-of-{name}"}
            said[name] = service.ask("/api/v1/budget", "POST", {"budget": "1 per 2000 ticks"}, headers)
        assert said["ada"][0] == 403
        assert said["grace"][0] == 200
        assert said["grace"][1]["chosen"]["who"] == "Grace"


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5))
def test_crossings_are_stretches_with_a_pause_between(above: list[bool], pause: int) -> None:
    times, values = np.arange(float(len(above))), np.array(above, float)
    last, expected = -math.inf, 0
    for t, is_above in enumerate(above):
        if is_above:
            expected += t - last > pause
            last = t
    assert crossings(times, values, 0.5, float(pause)) == expected
