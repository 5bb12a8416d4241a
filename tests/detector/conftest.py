"""What the daemon's tests share: a state that has learnt, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.detector import rig


@pytest.fixture(scope="session")
def learnt_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rig.learnt(tmp_path_factory.mktemp("learnt"))
