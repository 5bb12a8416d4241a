"""What faults share: the secrets of the servers that are part of some, and a state after a burst."""

from tests.connectors.running import secrets
from tests.detector.faults.burst_rig import through_stdin

__all__ = ["secrets", "through_stdin"]
