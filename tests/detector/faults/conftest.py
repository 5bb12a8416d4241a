"""The secrets of the servers, for faults that brokers are part of."""

from tests.connectors.running import secrets

__all__ = ["secrets"]
