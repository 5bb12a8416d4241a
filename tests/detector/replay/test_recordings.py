"""Recordings in every form give the same samples, for commands and for `run`, and count what they refuse."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors.base import Expected, Sample
from connectors.codec.decoder import Decode
from connectors.codec.layout import wide_columns
from connectors.files.first_rows import FileDecode
from connectors.files.source import FileSource
from detector.replay.recordings import Recording, gather, on_grid

ROWS = [(1794816000.0 + t, {"a": t + 0.5, "b": -t - 0.25}) for t in range(600)]
EXPECTED = [Sample(time, name, (value,)) for time, row in ROWS for name, value in row.items()]
WIDE = "time,a,b\n" + "".join(f"{t:.0f},{row['a']},{row['b']}\n" for t, row in ROWS)
LONG = "time,node,value\n" + "".join(f"{s.time:.0f},{s.node},{s.values[0]}\n" for s in EXPECTED)
LINES = "".join(json.dumps({"time": s.time, "node": s.node, "values": s.values}) + "\n" for s in EXPECTED)


def worded(form: str) -> str:
    def text(time: float) -> str:
        return datetime.fromtimestamp(time, UTC).strftime(form)

    return "Zeit;a;b\n" + "".join(
        f"{text(t)};{row['a']:.2f};{row['b']:.2f}\n".replace(".", ",") if "." not in form else
        f"{text(t)};" + f"{row['a']:.2f};{row['b']:.2f}\n".replace(".", ",")
        for t, row in ROWS
    )  # fmt: skip


FORMS = {
    "wide": WIDE,
    "semicolons": WIDE.replace(",", ";"),
    "tabs": WIDE.replace(",", "\t"),
    "decimal commas": WIDE.replace(",", ";").replace(".", ","),
    "long": LONG,
    "long with other names": LONG.replace("time,node,value", "Timestamp,sensor_id,reading"),
    "JSON lines": LINES,
    "JSON lines with other names": LINES.replace('"time"', '"ts"').replace('"node"', '"device"'),
    "wide JSON": "".join(json.dumps({"time": t, **row}) + "\n" for t, row in ROWS),
    "line ends of Windows": WIDE.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + WIDE,
    "blank lines": "\n\n" + WIDE.replace("\n1794816010", "\n\n1794816010"),
    "milliseconds": "".join(line.replace(",", "000,", 1) if line[0].isdigit() else line
                            for line in WIDE.splitlines(keepends=True)),
    "ISO 8601": worded("%Y-%m-%dT%H:%M:%S+00:00"),
    "day first": worded("%d.%m.%Y %H:%M:%S"),
    "slashes": worded("%m/%d/%Y %H:%M:%S"),
    "a column of words": WIDE.replace("time,a,b", "time,a,state,b").replace(".5,", ".5,running,"),
}  # fmt: skip


def written(tmp_path: Path, text: str | bytes, name: str = "file.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def recorded(path: Path, decode: Decode | None = None, **more: Any) -> Recording:
    return Recording(path, Expected(**{"dim": 1, "nodes": ["a", "b"], **more}), decode)


def read(path: Path, decode: Decode | None = None, **more: Any) -> list[Sample]:
    return gather(recorded(path, decode, **more))


def run(path: Path, **more: Any) -> list[Sample]:
    """As `detector run` reads a file."""

    async def main() -> list[Sample]:
        source = FileSource(FileSource.Config.model_validate({"path": str(path)}))
        source.expect(Expected(**{"dim": 1, "nodes": ["a", "b"], **more}))
        await source.open(None)
        samples: list[Sample] = []
        while (batch := await source.read()) is not None:
            samples += batch.samples
        await source.close()
        return samples

    return asyncio.run(main())


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_hold_the_same(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, FORMS[form])
    assert read(path) == EXPECTED
    assert run(path) == EXPECTED
    assert gather(Recording(path)) == EXPECTED, "without knowing the nodes"


def test_a_packed_file_is_read_as_if_it_were_not(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(WIDE.encode()), "file.csv.gz")
    assert read(path) == EXPECTED
    assert run(path) == EXPECTED


def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    times = [datetime.fromtimestamp(t, UTC) for t, _ in ROWS]
    wide = {"when": pa.array(times, pa.timestamp("ns", tz="UTC")),
            "a": [row["a"] for _, row in ROWS], "b": [row["b"] for _, row in ROWS]}  # fmt: skip
    parquet.write_table(pa.table(wide), tmp_path / "wide.parquet", row_group_size=100)
    long = {
        "time": [s.time for s in EXPECTED],
        "node": pa.array([s.node for s in EXPECTED]).dictionary_encode(),
        "values": [list(s.values) for s in EXPECTED],
    }
    parquet.write_table(pa.table(long), tmp_path / "long.parquet", row_group_size=77)
    for path in tmp_path.iterdir():
        assert read(path) == EXPECTED
        assert run(path) == EXPECTED
    written(tmp_path, b"PAR1garbage", "bad.parquet")
    with pytest.raises(ValueError, match="not a Parquet file"):
        read(tmp_path / "bad.parquet")


def test_a_parquet_source_goes_on_where_it_was(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"time": [float(t) for t in range(9000)], "a": [float(t) for t in range(9000)]})
    path = tmp_path / "long.parquet"
    parquet.write_table(table, path, row_group_size=1500)

    async def main() -> list[float]:
        source = FileSource(FileSource.Config.model_validate({"path": str(path)}))
        await source.open(None)
        first = await source.read()
        assert first is not None
        await source.close()
        await source.open(first.position)
        samples = list(first.samples)
        while (batch := await source.read()) is not None:
            samples += batch.samples
        await source.close()
        return [sample.time for sample in samples]

    assert asyncio.run(main()) == list(range(9000))


def test_a_followed_table_waits_for_its_first_row(tmp_path: Path) -> None:
    path = written(tmp_path, "time,sensor,va")

    async def main() -> None:
        source = FileSource(
            FileSource.Config.model_validate({"path": str(path), "mode": "tail", "poll": "10ms"})
        )
        await source.open(None)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(source.read(), 0.1)
        with path.open("a") as file:
            file.write("lue\n5,a,1.5\n")
        batch = await asyncio.wait_for(source.read(), 30)
        assert batch is not None
        assert batch.samples == [Sample(5.0, "a", (1.5,))]
        await source.close()

    asyncio.run(main())


def test_columns_of_nodes_that_come_later(tmp_path: Path) -> None:
    path = written(tmp_path, "time,a,b\n1,2,3\n")

    async def main() -> None:
        source = FileSource(
            FileSource.Config.model_validate({"path": str(path), "mode": "tail", "poll": "10ms"})
        )
        source.expect(Expected(["a"], 1))
        await source.open(None)
        batch = await source.read()
        assert batch is not None
        assert [sample.node for sample in batch.samples] == ["a"]
        source.expect(Expected(["a", "b"], 1))
        with path.open("a") as file:
            file.write("2,2,3\n")
        batch = await asyncio.wait_for(source.read(), 30)
        assert batch is not None
        assert [(sample.time, sample.node) for sample in batch.samples] == [(2.0, "a"), (2.0, "b")]
        await source.close()

    asyncio.run(main())


def test_times_in_words(tmp_path: Path) -> None:
    wide = "timestamp,a,b\n2026-11-16T08:00:00Z,1,2\n2026-11-16 09:00:01+01:00,3,\n"
    found = read(written(tmp_path, wide))
    assert [sample.time for sample in found] == [1794816000.0, 1794816000.0, 1794816001.0]


@pytest.mark.parametrize("mark", [".", ":", "/", "_"])
def test_components_of_wide_columns(mark: str, tmp_path: Path) -> None:
    text = "time,b.h,a.t,a.h,b.t,other\n1,2,3,4,5,6\n2,,1,,1,1\n3,,,,,1\n".replace(".", mark)
    path = written(tmp_path, text)
    found = read(path, dim=2, components=["t", "h"])
    assert found[:2] == [Sample(1.0, "a", (3.0, 4.0)), Sample(1.0, "b", (5.0, 2.0))]
    assert [math.isnan(value) for value in found[2].values] == [False, True]
    assert len(found) == 4, "a row without values says nothing"
    assert recorded(path, dim=2, components=["t", "h"]).strangers() == (["other"], [])


def test_names_with_marks_in_them() -> None:
    def columns(names: list[str], *expected: Any) -> list[tuple[str, list[str]]]:
        return list(wide_columns(names, Expected(*expected)).items())

    hall = [("hall.1", ["hall.1"]), ("hall.2", ["hall.2"])]
    assert columns(["hall.1", "hall.2"], ["hall.1", "hall.2"], 1) == hall
    assert columns(["hall.1", "hall.2"]) == hall
    assert columns(["p.x.t", "p.x.h"], ["p.x"], 2, ["t", "h"]) == [("p.x", ["p.x.t", "p.x.h"])]
    four = ["p.t", "p.h", "q.t", "q.h"]
    assert columns(four) == [("p", ["p.t", "p.h"]), ("q", ["q.t", "q.h"])]
    assert columns([name.replace(".", "_") for name in four])[1] == ("q", ["q_t", "q_h"])
    assert columns(["L_T1", "L_T2", "F_PU1"]) == [(name, [name]) for name in ("L_T1", "L_T2", "F_PU1")]


def test_quantities_below_each_other(tmp_path: Path) -> None:
    text = "time,host,metric,value\n1,x,cpu,0.5\n1,x,disk,0.25\n2,y,cpu,1\n"
    assert [sample.node for sample in gather(Recording(written(tmp_path, text)))] == [
        "x.cpu",
        "x.disk",
        "y.cpu",
    ]


def test_what_is_refused_is_counted_and_explained(tmp_path: Path) -> None:
    good = "".join(f"{t},{t / 7},{t / 9}\n" for t in range(100, 200))
    bad = "1,2,3\nsoon,1,1\n2,x,1\n3,inf,1\n4,1\n5,nan,NA\n6,1,1e999\n,1,2\n"
    found = recorded(written(tmp_path, f"time,a,b\n{good}{bad}"))
    batch = next(iter(found)).batch
    assert batch.rejected == {"type": 5, "time": 2, "malformed": 2}
    assert batch.received == len(batch.samples) + 9
    words = [problem.split("file.csv, ")[1] for problem in found.problems]
    assert words == [
        "line 103: column 'time': 'soon' is no time",
        "line 104: column 'a': 'x' is no number",
        "line 105: column 'a': 'inf' is no number",
        "line 106: expected 3 cells, got 2: 4,1",
        "line 108: column 'b': '1e999' is no number",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("time,a,b\n", "nothing but a header"),
        ("abc\n1\n", "line 1: expected JSON lines"),
        ("1,2,3\n4,5,6\n", "line 1: expected the names of the columns, got numbers: 1"),
        ("time,a,a\n1,2,3\n", "two columns are called 'a'"),
        ("time,a,\n1,2,3\n", "column 3 has no name"),
        ("x,y,z\n3,1,2\n2,2,2\n5,1,1\n", "no column is a time"),
        ("time,x,y\n1,2,3\n", "no column for 'a' with 1 component; columns: x, y"),
        ("time,a,b\n1,2\n", "line 2: expected 3 cells as in line 1, got 2"),
        ("time,a\nnoon,2\n", "column 'time': 'noon' is no time that is understood"),
        ("time,a\n03/04/2026,2\n04/04/2026,3\n", "may be %d/%m/%Y or %m/%d/%Y; give its time_format"),
        ("\ufefftime,a".encode("utf-16"), "not UTF-8 text at byte 0; it looks like UTF-16"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(text: str | bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_the_decode_settings_of_a_source_decide(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": "a", "v": 1, "ts": 5000}\n')
    decode = Decode(node="id", values="v", time="ts", time_format="unix_ms")
    assert read(path, decode) == [Sample(5.0, "a", (1.0,))]
    path = written(tmp_path, "when,a\n03/04/2026,2\n04/04/2026,3\n")
    decode = FileDecode(time_format="%d/%m/%Y")
    assert [sample.time for sample in read(path, decode)] == [1775174400.0, 1775260800.0]


def test_samples_on_the_grid() -> None:
    samples = [Sample(10.2, "a", (1.0,)), Sample(10.9, "a", (2.0,)), Sample(13.0, "b", (3.0,)),
               Sample(13.0, "stranger", (9.0,)), Sample(13.0, "a", (1.0, 2.0))]  # fmt: skip
    X, times = on_grid(samples, ["a", "b"], 1, 1.0)
    np.testing.assert_array_equal(times, [10.0, 13.0])
    np.testing.assert_array_equal(X[:, :, 0], [[2.0, np.nan], [np.nan, 3.0]])
    with pytest.raises(ValueError, match="no sample of a node"):
        on_grid(samples[3:4], ["a"], 1, 1.0)
