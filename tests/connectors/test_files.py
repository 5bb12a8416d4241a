"""Files as source and as sink: rotation, truncation, half lines, crashes, full disks."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from connectors import Batch, ConnectorError
from connectors.files.sink import FileSink
from connectors.files.source import FileSource


def line(i: int) -> bytes:
    return b'{"time":%d,"node":"n","value":%d}\n' % (i, i)


def lines(*numbers: int) -> bytes:
    return b"".join(line(i) for i in numbers)


def make(path: Path, **more: Any) -> FileSource:
    return FileSource(FileSource.Config.model_validate({"path": str(path), "poll": "10ms", **more}))


async def take(connector: FileSource, count: int) -> Batch:
    total = Batch()
    async with asyncio.timeout(60):
        while total.received < count:
            batch = await connector.read()
            assert batch is not None
            total.merge(batch)
            total.position = batch.position
    return total


async def quiet(connector: FileSource) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connector.read(), 0.1)


def times(batch: Batch) -> list[int]:
    return [int(sample.time) for sample in batch.samples]


def test_whole_file_ends(tmp_path: Path) -> None:
    """The last line counts even without a line end, and then the stream is over."""

    async def main() -> None:
        path = tmp_path / "a"
        path.write_bytes(lines(1, 2) + line(3)[:-1])
        connector = make(path)
        await connector.open(None)
        assert times(await take(connector, 3)) == [1, 2, 3]
        assert await connector.read() is None
        await connector.close()

    asyncio.run(main())


def test_hostile_first_rows_are_counted_like_any_others(tmp_path: Path) -> None:
    """The rows by which a file is looked at are no better than the rest of it."""
    hostile = b"[" * 100_000 + b"\n" + b'{"time":1e999,"node":[],"value":{}}\n' + b"\xff\x00{\n"

    async def main() -> None:
        path = tmp_path / "a"
        path.write_bytes(line(1) + hostile + lines(2, 3))
        connector = make(path)
        await connector.open(None)
        batch = await take(connector, 6)
        assert times(batch) == [1, 2, 3]
        assert sum(batch.rejected.values()) == 3
        await connector.close()

    asyncio.run(main())


def test_a_missing_whole_file_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError) as caught:
        asyncio.run(make(tmp_path / "absent").open(None))
    assert not caught.value.retry


def test_tail_waits_for_the_file_and_for_whole_lines(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "a"
        connector = make(path, mode="tail")
        await connector.open(None)
        await quiet(connector)
        path.write_bytes(line(1) + line(2)[:10])
        assert times(await take(connector, 1)) == [1]
        await quiet(connector)
        with path.open("ab") as file:
            file.write(line(2)[10:])
        assert times(await take(connector, 1)) == [2]
        await connector.close()

    asyncio.run(main())


def test_tail_from_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "a"
        path.write_bytes(lines(1, 2))
        connector = make(path, mode="tail", start="end")
        await connector.open(None)
        await quiet(connector)
        with path.open("ab") as file:
            file.write(line(3))
        assert times(await take(connector, 1)) == [3]
        await connector.close()

    asyncio.run(main())


def test_rotation_by_rename_while_running(tmp_path: Path) -> None:
    """What was written to the old file after the last read, before and after the rename, is read first."""

    async def main() -> None:
        path = tmp_path / "a"
        path.write_bytes(lines(1, 2))
        connector = make(path, mode="tail")
        await connector.open(None)
        await take(connector, 2)
        path.rename(tmp_path / "a.1")
        with (tmp_path / "a.1").open("ab") as file:
            file.write(line(3))
        path.write_bytes(lines(4, 5))
        assert times(await take(connector, 3)) == [3, 4, 5]
        await connector.close()

    asyncio.run(main())


def test_rotations_while_away(tmp_path: Path) -> None:
    """Two rotations between stop and start: the rest of the old file, the one between, the new one."""

    async def main() -> None:
        path = tmp_path / "a"
        path.write_bytes(lines(1, 2))
        connector = make(path, mode="tail")
        await connector.open(None)
        position = (await take(connector, 2)).position
        await connector.close()
        with path.open("ab") as file:
            file.write(line(3))
        path.rename(tmp_path / "a.2")
        (tmp_path / "a.1").write_bytes(lines(4, 5))
        path.write_bytes(line(6))
        for i, name in enumerate(["a.2", "a.1", "a"]):
            os.utime(tmp_path / name, (1000 + i, 1000 + i))
        again = make(path, mode="tail")
        await again.open(json.loads(json.dumps(position)))
        assert times(await take(again, 4)) == [3, 4, 5, 6]
        await quiet(again)
        await again.close()

    asyncio.run(main())


def test_truncation_in_place(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "a"
        path.write_bytes(lines(1, 2, 3))
        connector = make(path, mode="tail")
        await connector.open(None)
        position = (await take(connector, 3)).position
        path.write_bytes(b"")
        await quiet(connector)
        path.write_bytes(line(7))
        assert times(await take(connector, 1)) == [7]
        await connector.close()
        again = make(path, mode="tail")
        await again.open(position)  # the file is another one now, under the same inode
        assert times(await take(again, 1)) == [7]
        await again.close()

    asyncio.run(main())


def test_a_reused_inode_is_not_mistaken(tmp_path: Path) -> None:
    """Same inode, longer file, other beginning: it is read from its start."""

    async def main() -> None:
        path = tmp_path / "a"
        path.write_bytes(lines(1, 2))
        connector = make(path, mode="tail")
        await connector.open(None)
        position = (await take(connector, 2)).position
        await connector.close()
        path.write_bytes(lines(11, 12, 13, 14))
        position["inode"] = path.stat().st_ino
        again = make(path, mode="tail")
        await again.open(position)
        assert times(await take(again, 4)) == [11, 12, 13, 14]
        await again.close()

    asyncio.run(main())


def test_csv_keeps_its_header_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "a.csv"
        path.write_bytes(b"time,node,x,y\n1,a,2,3\n")
        connector = make(path, mode="tail", decode={"format": "csv"})
        await connector.open(None)
        first = await take(connector, 1)
        await connector.close()
        with path.open("ab") as file:
            file.write(b"2,b,4,5\n")
        again = make(path, mode="tail", decode={"format": "csv"})
        await again.open(first.position)
        (sample,) = (await take(again, 1)).samples
        assert (sample.node, sample.values) == ("b", (4.0, 5.0))
        await again.close()

    asyncio.run(main())


def test_an_endless_line_is_counted_once(tmp_path: Path) -> None:
    """5 MiB without a line end cost one reject and no memory; a restart in it counts it once, too."""

    async def main() -> None:
        path = tmp_path / "a"
        path.write_bytes(line(1) + b"x" * (5 * 2**20) + b"\n" + line(2))
        connector = make(path)
        await connector.open(None)
        batches = []
        while (batch := await connector.read()) is not None:
            batches.append(batch)
        assert [t for batch in batches for t in times(batch)] == [1, 2]
        assert sum(batch.rejected.get("too_large", 0) for batch in batches) == 1
        again = make(path)
        await again.open(batches[0].position)
        rest = []
        while (batch := await again.read()) is not None:
            rest.append(batch)
        assert sum(batch.rejected.get("too_large", 0) for batch in rest) == 1
        assert [t for batch in rest for t in times(batch)] == [2]

    asyncio.run(main())


# -- the sink ---------------------------------------------------------------------------------


def record(i: int) -> dict[str, Any]:
    return {"id": f"r{i}", "event": "opened", "text": "x" * 50}


def sink(path: Path, **more: Any) -> FileSink:
    return FileSink(FileSink.Config.model_validate({"path": str(path), **more}))


def ids(*paths: Path) -> list[str]:
    return [json.loads(text)["id"] for path in paths for text in path.read_text().splitlines()]


def test_a_half_written_line_is_repaired(tmp_path: Path) -> None:
    """A crash in the middle of a line: it is cut off, and written again when the record comes again."""

    async def main() -> None:
        path = tmp_path / "out"
        connector = sink(path)
        await connector.write([record(1), record(2)])
        await connector.close()
        whole = path.read_bytes()
        path.write_bytes(whole[:-7])
        again = sink(path)
        await again.open()
        assert ids(path) == ["r1"]
        await again.write([record(1), record(2), record(3)])
        await again.close()
        assert ids(path) == ["r1", "r2", "r3"]

    asyncio.run(main())


def test_rotation_by_size(tmp_path: Path) -> None:
    """All records are in the files kept, in order; a repeat across the rotation is not written again."""

    async def main() -> None:
        path = tmp_path / "out"
        connector = sink(path, max_size=500, keep=3)
        for i in range(20):
            await connector.write([record(i)])
        await connector.close()
        kept = [tmp_path / "out.3", tmp_path / "out.2", tmp_path / "out.1", path]
        found = ids(*kept)
        assert found == [f"r{i}" for i in range(20 - len(found), 20)]
        assert not (tmp_path / "out.4").exists()
        assert all(p.stat().st_size <= 500 for p in kept)
        again = sink(path, max_size=500, keep=3)
        await again.write([record(int(found[-1][1:])), record(int(ids(tmp_path / "out.1")[-1][1:]))])
        await again.close()
        assert ids(*kept) == found

    asyncio.run(main())


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write fails half-way: an error worth a retry, the file as before, and later all is there."""

    async def main() -> None:
        path = tmp_path / "out"
        connector = sink(path)
        await connector.write([record(1)])
        real = os.write

        def full(descriptor: int, text: bytes) -> int:
            if len(text) > 30:
                return real(descriptor, text[:30])
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(ConnectorError, match="No space") as caught:
                await connector.write([record(2)])
        assert caught.value.retry
        assert ids(path) == ["r1"]
        await connector.write([record(2)])
        await connector.close()
        assert ids(path) == ["r1", "r2"]

    asyncio.run(main())
