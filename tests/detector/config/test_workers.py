"""Workers that would have nothing to do are told before anything is learnt."""

from __future__ import annotations

from typing import Any

import pytest

from detector.config.workers import idle_workers
from detector.settings.estimator import EngineSettings


@pytest.mark.parametrize(
    ("engine", "n_nodes", "boxed", "key", "words"),
    [
        ({"type": "threads", "workers": 8, "parts": 2}, 90, False, "workers", "2 parts, so that 6 of 8"),
        ({"type": "ray", "workers": 8, "parts": 2}, 90, False, "workers", "2 parts, so that 6 of 8"),
        ({"type": "threads", "workers": 2}, 90, False, "workers", "1 part (auto, for 90 nodes), so that 1"),
        ({"type": "ray"}, 5000, False, "parts", "auto gives 4 parts for 5,000 nodes, and never more than 4"),
        ({"type": "threads"}, 90, True, "type", "with edge a box is one part"),
    ],
)
def test_they_are_told(engine: dict[str, Any], n_nodes: int, boxed: bool, key: str, words: str) -> None:
    found = idle_workers(EngineSettings.model_validate(engine), n_nodes, boxed)
    assert found is not None
    assert found[0] == ("engine", key)
    assert words in found[1]


@pytest.mark.parametrize(
    "engine",
    [{}, {"workers": 8}, {"type": "threads"}, {"type": "threads", "workers": 2, "parts": 4},
     {"type": "ray", "workers": 2, "parts": 2}],
)  # fmt: skip
def test_others_are_not(engine: dict[str, Any]) -> None:
    assert idle_workers(EngineSettings.model_validate(engine), 90, False) is None
