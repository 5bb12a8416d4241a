"""An object in a file, whose arrays are mapped by every process that reads it: one copy for all of them."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from types import TracebackType
from typing import Any, Self

ALIGN = 64  # as arrays of their own are, or better


class Mapped:
    """``value`` in a temporary file, until the context ends; whoever has read it may go on using it."""

    def __init__(self, value: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(value, 5, buffer_callback=buffers.append)
        raws = [buffer.raw() for buffer in buffers]
        with tempfile.NamedTemporaryFile(prefix="detector-", delete=False) as file:
            self.path = file.name
            try:
                ends = []
                for raw in raws:
                    file.write(b"\0" * (-file.tell() % ALIGN))
                    start = file.tell()
                    file.write(raw)
                    ends.append((start, file.tell()))
                start = file.tell()
                pickle.dump((body, ends), file)
                file.write(start.to_bytes(8, "little"))
            except BaseException:
                os.unlink(self.path)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.unlink(self.path)

    @staticmethod
    def read(path: str) -> Any:
        """The object; its arrays may be written to, which nobody else sees."""
        with open(path, "rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        view = memoryview(whole)
        start = int.from_bytes(view[-8:], "little")
        body, ends = pickle.loads(view[start:-8])
        return pickle.loads(body, buffers=[view[first:last] for first, last in ends])
