"""The secrets of the servers, for the tests of connectors."""

from tests.connectors.running import secrets

__all__ = ["secrets"]
