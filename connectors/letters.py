"""Messages that are no samples: a source of brokers hands them over as they are, with all else it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .base import Batch, Source

SOURCES = ("mqtt", "kafka", "redis", "nats")  # those that take messages one by one
SINKS = SOURCES


class Letters:
    """Takes the place of a source's decoder; what was read lies here until it is taken."""

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


def open_letters(source: Source, max_bytes: int) -> Letters:
    """Have a source, which is not open yet, give its messages to the letters that are returned."""
    if not hasattr(source, "decoder"):
        raise ValueError(f"{source.name} does not take messages one by one; {', '.join(SOURCES)} do")
    letters = Letters(max_bytes)
    source.decoder = letters
    return letters
