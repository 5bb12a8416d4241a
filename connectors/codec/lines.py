"""Cutting a byte stream into whole lines, with a cap on the length of one."""

from __future__ import annotations

from connectors.base import Batch
from connectors.codec.decoder import Decode
from connectors.codec.tables import csv_header


class LineCutter:
    """Keeps the unfinished last line between chunks, and the CSV header once it was seen.

    A line above the cap is skipped to its end and counted once, holding no more than the cap.
    """

    def __init__(self, config: Decode) -> None:
        self._config = config
        self._rest = b""
        self._skipped = 0  # bytes thrown away so far of a line that is too long
        self.header: list[str] | None = None
        self.wants_header = config.format == "csv" and config.columns is None

    @property
    def pending(self) -> int:
        """Bytes taken in of a line that has not ended yet: a position must lie before them."""
        return self._skipped + len(self._rest)

    def feed(self, chunk: bytes, into: Batch) -> bytes:
        """Take a chunk; give all whole lines it completes."""
        if self._skipped:
            skipped, found, rest = chunk.partition(b"\n")
            if not found:
                self._skipped += len(skipped)
                return b""
            self._skipped, chunk = 0, rest
            into.reject("too_large")
        data = self._rest + chunk
        cut = data.rfind(b"\n") + 1
        whole, self._rest = data[:cut], data[cut:]
        if len(self._rest) > self._config.max_bytes:
            self._skipped, self._rest = len(self._rest), b""
        return self._without_header(self._capped(whole, into))

    def end(self, into: Batch) -> bytes:
        """The stream ended: what is left is a line, too."""
        rest, self._rest = self._rest, b""
        if self._skipped:
            self._skipped = 0
            into.reject("too_large")
        return self._without_header(self._capped(rest, into))

    def _capped(self, whole: bytes, into: Batch) -> bytes:
        limit = self._config.max_bytes
        if len(whole) <= limit:
            return whole
        lines = whole.split(b"\n")
        long = sum(len(line) > limit for line in lines)
        if not long:
            return whole
        into.reject("too_large", long)
        return b"\n".join(line for line in lines if len(line) <= limit)

    def _without_header(self, whole: bytes) -> bytes:
        if not self.wants_header or self.header is not None or not whole:
            return whole
        line, _, whole = whole.lstrip(b"\r\n").partition(b"\n")
        self.header = csv_header(line, self._config.delimiter)
        return whole
