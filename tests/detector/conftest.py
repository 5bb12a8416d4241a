"""What the daemon's tests share: a state that has learnt, made once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.detector import rig


@pytest.fixture(scope="session")
def learnt_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rig.learnt(tmp_path_factory.mktemp("learnt"))
