"""Messages that are not samples: a source of a broker hands them over as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connectors.base import Batch, Source


class RawMessages:
    """Takes the place of a source's decoder; keeps what was read until it is taken."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bodies: list[bytes] = []

    def open(self) -> None:
        """No parser is needed."""

    def messages(
        self, payloads: Sequence[bytes], into: Batch, origin: Callable[[int], tuple[str | None, float]]
    ) -> None:
        """Keep each, but for those that are too large, which are counted in ``into``."""
        for payload in payloads:
            if len(payload) > self._max_bytes:
                into.reject("too_large")
            else:
                self._bodies.append(bytes(payload))

    def take(self) -> list[bytes]:
        bodies, self._bodies = self._bodies, []
        return bodies


def take_raw(source: Source, max_bytes: int) -> RawMessages:
    """Have a source, which is not open yet, put its messages undecoded into what is returned."""
    if not source.raw:
        raise ValueError(f"a source of type {source.name} cannot hand over messages undecoded")
    messages = RawMessages(max_bytes)
    source.decoder = messages
    return messages
