"""What the contracts are tried with: secrets of servers for connectors, a small network for estimators."""

from tests.connectors.running import secrets
from tests.estimators.conftest import network

__all__ = ["network", "secrets"]
