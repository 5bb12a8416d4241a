"""For all tests: one thread of linear algebra, as the daemon itself has it; servers, started on first use."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))  # tests share helpers: `from tests.detector import rig`

from hypothesis import HealthCheck, settings

from tests import kafka_server
from tests.connectors.running import running  # one set of servers for the whole session

__all__ = ["running"]

# How long an example takes says what else the machine is doing.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_report_header() -> str:
    return f"Kafka: {kafka_server.described()}"
