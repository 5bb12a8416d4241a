"""The dictionary that boxes share: the same, however the process that learnt it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from click.testing import CliRunner

from detector.cli.main import cli
from detector.config.config import Config
from detector.engines.runners.sharded import ShardedEngine
from detector.replay.learnt import save_learnt
from detector.runtime.pipeline_thread import Plan
from tests.detector.edge.test_daemons import configured, values
from tests.detector.rig import LEARN, START


def test_threads_export_the_same(tmp_path: Path) -> None:
    path, exported = configured(tmp_path / "whole", None), []
    plain = yaml.safe_load(path.read_text())
    for engine in ({"type": "inline"}, {"type": "threads", "workers": 2}):
        path.write_text(yaml.safe_dump({**plain, "engine": engine}))
        config = Config.load(path)
        whole = Plan.of(config).fresh()
        whole.learn(np.array([values(t) for t in range(LEARN)]), START + np.arange(LEARN, dtype=float))
        assert isinstance(whole.engine, ShardedEngine) == (engine["type"] == "threads")
        save_learnt(config.state, config.diagnosis, whole)
        shared = tmp_path / f"{engine['type']}.json"
        ran = CliRunner().invoke(cli, ["edge", "export", str(shared), "--config", str(path)])
        assert ran.exit_code == 0, ran.output
        exported.append(shared.read_bytes())
    assert exported[0] == exported[1]
