"""Recordings in every form give the same samples, and count what they refuse."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors.base import Sample
from connectors.codec.decoder import Decode
from detector.replay.recordings import gather, look_at, on_grid, read_recording, wide_columns

ROWS = [(1000.0 + t, {"a": t + 0.5, "b": -t - 0.25}) for t in range(600)]
EXPECTED = [Sample(time, name, (value,)) for time, row in ROWS for name, value in row.items()]


def written(tmp_path: Path, text: str, name: str = "file.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def read(path: Path, **more: Any) -> list[Sample]:
    return gather(read_recording(path, **{"dim": 1, "names": ["a", "b"], **more}))


def test_all_forms_hold_the_same(tmp_path: Path) -> None:
    wide = "time,a,b\n" + "".join(f"{t},{row['a']},{row['b']}\n" for t, row in ROWS)
    semicolons = wide.replace(",", ";")
    long = "time,node,value\n" + "".join(f"{s.time},{s.node},{s.values[0]}\n" for s in EXPECTED)
    lines = "".join(json.dumps({"time": s.time, "node": s.node, "values": s.values}) + "\n" for s in EXPECTED)
    array = lines.strip().replace("\n", "\n")
    for text in (wide, semicolons, long, lines, array, wide.replace("\n", "\r\n"), "\ufeff" + wide):
        assert read(written(tmp_path, text)) == EXPECTED


def test_times_in_words(tmp_path: Path) -> None:
    wide = "timestamp,a,b\n2026-11-16T08:00:00Z,1,2\n2026-11-16 09:00:01+01:00,3,\n"
    found = read(written(tmp_path, wide))
    assert [sample.time for sample in found] == [1794816000.0, 1794816000.0, 1794816001.0]
    long = "time,node,value\n2026-11-16T08:00:00Z,a,1\n"
    assert read(written(tmp_path, long)) == [Sample(1794816000.0, "a", (1.0,))]


def test_components_of_wide_columns(tmp_path: Path) -> None:
    text = "time,b.h,a.t,a.h,b.t,other\n1,2,3,4,5,6\n2,,1,,1,1\n3,,,,,1\n"
    found = read(written(tmp_path, text), dim=2, components=["t", "h"])
    assert found[:2] == [Sample(1.0, "a", (3.0, 4.0)), Sample(1.0, "b", (5.0, 2.0))]
    assert [math.isnan(value) for value in found[2].values] == [False, True]
    assert len(found) == 4, "a row without values says nothing"


def test_dots_in_names() -> None:
    header = ["time", "hall.1", "hall.2"]
    assert wide_columns(header, 1, ["hall.1", "hall.2"], None) == [("hall.1", [1]), ("hall.2", [2])]
    assert wide_columns(header, 1, None, None) == [("hall.1", [1]), ("hall.2", [2])]
    assert wide_columns(["time", "p.x.t", "p.x.h"], 2, ["p.x"], ["t", "h"]) == [("p.x", [1, 2])]
    assert wide_columns(["time", "p.t", "p.h", "q.t", "q.h"], 2, None, None) == [("p", [1, 2]), ("q", [3, 4])]


def test_what_is_refused_is_counted(tmp_path: Path) -> None:
    text = "time,a,b\n1,2,3\nsoon,1,1\n2,x,1\n3,inf,1\n4,1\n5,nan,NA\n6,1,1e999\n7,1,2\n"
    parts = list(read_recording(written(tmp_path, text), dim=1, names=["a", "b"]))
    batch = parts[-1].batch
    assert batch.rejected == {"time": 2, "values": 3, "malformed": 2}
    assert batch.received == len(batch.samples) + 7
    assert parts[-1].share == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("abc\n1\n", "line 1: expected JSON lines"),
        ("time,a,a\n1,2,3\n", "two columns are called 'a'"),
        ("when,node,value\n1,a,2\n", "needs a column called time"),
        ("time,x,y\n1,2,3\n", "no column for 'a' with 1 component"),
    ],
)
def test_files_that_cannot_be_read(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path, text))


def test_the_decode_settings_of_a_source_decide(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": "a", "v": 1, "ts": 5000}\n')
    decode = Decode(node="id", values="v", time="ts", time_format="unix_ms")
    assert read(path, decode=decode) == [Sample(5.0, "a", (1.0,))]
    assert not look_at(path, decode).is_wide


def test_samples_on_the_grid() -> None:
    samples = [Sample(10.2, "a", (1.0,)), Sample(10.9, "a", (2.0,)), Sample(13.0, "b", (3.0,)),
               Sample(13.0, "stranger", (9.0,)), Sample(13.0, "a", (1.0, 2.0))]  # fmt: skip
    X, times = on_grid(samples, ["a", "b"], 1, 1.0)
    np.testing.assert_array_equal(times, [10.0, 13.0])
    np.testing.assert_array_equal(X[:, :, 0], [[2.0, np.nan], [np.nan, 3.0]])
    with pytest.raises(ValueError, match="no sample of a node"):
        on_grid(samples[3:4], ["a"], 1, 1.0)
