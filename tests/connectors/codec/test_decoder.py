"""Decoding: every shape that is promised, and that nothing at all makes it raise or miscount."""

from __future__ import annotations

import gzip
import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from connectors.base import REASONS, Batch, Sample
from connectors.codec.decoder import Decode, Decoder

NOW = 1_700_000_000.0


def decode(payload: bytes, on: str | None = None, gzipped: bool = False, **config: Any) -> Batch:
    decoder = Decoder(Decode.model_validate(config))
    decoder.open()
    batch = Batch()
    decoder.payload(payload, batch, topic=on, arrival=NOW, gzipped=gzipped)
    check(batch)
    return batch


def check(batch: Batch) -> None:
    assert batch.received == len(batch.samples) + sum(batch.rejected.values())
    assert set(batch.rejected) <= set(REASONS)
    for sample in batch.samples:
        assert type(sample) is Sample
        assert 0 <= sample.time < 1e12
        assert 0 < len(sample.node) <= 256
        assert sample.node.isprintable()
        assert sample.values
        assert not any(math.isinf(value) for value in sample.values)


A = Sample(1.5, "a", (1.0, 2.0))
B = Sample(2.0, "b", (3.0,))


@pytest.mark.parametrize(
    ("payload", "samples"),
    [
        (b'{"time":1.5,"node":"a","values":[1,2]}', [A]),
        (b'{"time":2,"node":"b","value":3}', [B]),
        (b'{"time":2,"node":"b","value":3}\n{"time":1.5,"node":"a","values":[1,2]}\r\n\n', [B, A]),
        (b'[{"time":1.5,"node":"a","values":[1,2]},{"time":2,"node":"b","value":3}]', [A, B]),
        (b'{\n  "time": 1.5,\n  "node": "a",\n  "values": [1,\n 2]\n}', [A]),
        (b'{"node":"b","value":3}', [Sample(NOW, "b", (3.0,))]),
        (b'{"time":null,"node":"b","value":3}', [Sample(NOW, "b", (3.0,))]),
        (b'{"extra":{"deep":[1]},"time":2,"node":"b","value":3}', [B]),
        (b"[]", []),
    ],
)
def test_default_form(payload: bytes, samples: list[Sample]) -> None:
    batch = decode(payload)
    assert batch.samples == samples
    assert not batch.rejected


def test_a_missing_component_is_nan() -> None:
    (sample,) = decode(b'{"time":1,"node":"a","values":[1,null]}').samples
    assert sample.values[0] == 1
    assert math.isnan(sample.values[1])


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "malformed"),
        (b"  \n", "malformed"),
        (b"{", "malformed"),
        (b'{"time":1,"node":"a","values":[NaN]}', "malformed"),
        (b'{"time":1,"node":"a","values":[Infinity]}', "malformed"),
        (b'{"time":1,"node":"a","values":[1e999]}', "malformed"),
        (b'{"time":1,"node":"a","values":[' + b"9" * 400 + b"]}", "malformed"),
        (b'{"time":1,"node":"\xff","value":1}', "malformed"),
        (b"[" * 100_000 + b"]" * 100_000, "malformed"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "malformed"),
        (b'{"time":1,"value":1}', "missing"),
        (b'{"time":1,"node":"a"}', "missing"),
        (b'{"time":1,"node":"a","value":"1"}', "type"),
        (b'{"time":1,"node":"a","value":true}', "type"),
        (b'{"time":"1","node":"a","value":1}', "time"),
        (b'{"time":1,"node":7,"value":1}', "type"),
        (b"null", "type"),
        (b"17", "type"),
        (b'{"time":1,"node":"","value":1}', "node"),
        (b'{"time":1,"node":"a\\nb","value":1}', "node"),
        (b'{"time":1,"node":"a\\u0000","value":1}', "node"),
        (b'{"time":1,"node":"' + b"x" * 257 + b'","value":1}', "node"),
        (b'{"time":-1,"node":"a","value":1}', "time"),
        (b'{"time":1700000000000,"node":"a","value":1}', "time"),
        (b'{"time":1,"node":"a","values":[]}', "values"),
        (b'{"time":1,"node":"a","values":[' + b"1," * 64 + b"1]}", "values"),
        (b'{"time":1,"node":"a","value":1}' + b" " * 2**20, "too_large"),
    ],
)
def test_refusals_are_counted_by_reason(payload: bytes, reason: str) -> None:
    batch = decode(payload)
    assert batch.rejected == {reason: 1}
    assert not batch.samples


def test_a_bad_line_costs_only_itself() -> None:
    lines = [b'{"time":%d,"node":"n","value":%d}' % (i, i) for i in range(1000)]
    for i in (0, 500, 999):
        lines[i] = lines[i][:-1]
    batch = decode(b"\n".join(lines))
    assert batch.rejected == {"malformed": 3}
    assert [sample.time for sample in batch.samples] == [i for i in range(1000) if i not in (0, 500, 999)]


def test_a_bad_element_costs_only_itself() -> None:
    batch = decode(b'[{"time":2,"node":"b","value":3},{"time":2},{"time":1.5,"node":"a","values":[1,2]},5]')
    assert batch.samples == [B, A]
    assert batch.rejected == {"missing": 1, "type": 1}


@pytest.mark.parametrize(
    ("payload", "config", "samples"),
    [
        (
            {"device": {"id": 17}, "readings": {"t": 1, "h": 2}, "ts": 1500},
            {
                "node": "$.device.id",
                "values": ["readings.t", "readings.h"],
                "time": "ts",
                "time_format": "unix_ms",
            },
            [Sample(1.5, "17", (1.0, 2.0))],
        ),
        (
            {"data": [{"id": "a", "v": [1, 2], "at": "1970-01-01T00:00:01.5Z"}], "v": 1},
            {"records": "data", "node": "id", "values": "v", "time": "at", "time_format": "iso8601"},
            [A],
        ),
        ({"site": "x", "id": "y", "value": 1}, {"node": "{site}/{id}"}, [Sample(NOW, "x/y", (1.0,))]),
        ({"x": [{"y": 4}]}, {"node_constant": "boiler", "values": "x[0].y"}, [Sample(NOW, "boiler", (4.0,))]),
        ({"a.b": 4}, {"node_constant": "boiler", "values": "['a.b']"}, [Sample(NOW, "boiler", (4.0,))]),
        (
            {"time": [1.5, 2], "node": ["a", "b"], "values": [[1, 2], 3]},
            {"columnar": True},
            [A, B],
        ),
        (
            {"t": [1, 2], "x": [5, 6], "y": [7, None]},
            {"columnar": True, "node_constant": "n", "values": ["x", "y"], "time": "t"},
            [Sample(1.0, "n", (5.0, 7.0)), Sample(2.0, "n", (6.0, math.nan))],
        ),
    ],
)
def test_mapping(payload: Any, config: dict[str, Any], samples: list[Sample]) -> None:
    batch = decode(json.dumps(payload).encode(), **config)
    assert repr(batch.samples) == repr(samples)  # repr: NaN equals itself
    assert not batch.rejected


@pytest.mark.parametrize(
    ("pattern", "topic", "node"),
    [
        ("sensors/{node}/+", "sensors/a-7/temperature", "a-7"),
        ("{node}/#", "a/b/c", "a"),
        ("plant/dev-{node}", "plant/dev-3", "3"),
        ("sensors/{node}/+", "sensors/a/b/c", None),
        ("sensors/{node}", "other/a", None),
    ],
)
def test_node_from_topic(pattern: str, topic: str, node: str | None) -> None:
    batch = decode(b'{"time":1,"value":2}', on=topic, topic=pattern)
    if node is None:
        assert batch.rejected == {"topic": 1}
    else:
        assert batch.samples == [Sample(1.0, node, (2.0,))]


def test_csv() -> None:
    text = b"time,node,x,y\n1.5,a,1,2\n2,b,3,\n3,007,nan,1\nbad\n4,c,inf,1\n5,d,x,1\n6,e,1,\xff\n"
    batch = decode(text, format="csv")
    assert batch.samples[0] == A
    assert [sample.node for sample in batch.samples] == ["a", "b", "007"]
    assert math.isnan(batch.samples[1].values[1])
    assert batch.rejected == {"malformed": 2, "type": 2}


def test_csv_with_configured_columns() -> None:
    config = {
        "format": "csv",
        "columns": ["ts", "id", "v"],
        "delimiter": ";",
        "time": "ts",
        "node": "id",
        "values": "v",
    }
    assert decode(b"2;b;3", **config).samples == [B]


def test_influx_line_protocol() -> None:
    text = (
        b'weather,site=x,host=h temp=1.5,hum=2i,note="hi",ok=t 1500000000\n# comment\n\nbroken\nw a="x" 1\n'
    )
    batch = decode(text, format="influx")
    assert batch.samples == [Sample(1.5, "weather,host=h,site=x", (2.0, 1.5))]
    assert batch.rejected == {"malformed": 1, "values": 1}
    mapped = decode(text, format="influx", node="tags.host", values="fields.temp", time_format="unix_ns")
    assert mapped.samples == [Sample(1.5, "h", (1.5,))]


def test_gzip_within_the_cap_and_bombs() -> None:
    payload = b'{"time":2,"node":"b","value":3}'
    assert decode(gzip.compress(payload), gzipped=True).samples == [B]
    assert decode(gzip.compress(payload), compression="gzip").samples == [B]
    assert decode(gzip.compress(b" " * 2**26), gzipped=True).rejected == {"too_large": 1}
    assert decode(gzip.compress(payload)[:-4], gzipped=True).rejected == {"malformed": 1}
    assert decode(b"no gzip", gzipped=True).rejected == {"malformed": 1}


@pytest.mark.parametrize(
    "config",
    [
        {"node": "a", "topic": "{node}"},
        {"topic": "no placeholder"},
        {"values": "a..b["},
        {"values": []},
        {"node": "{a"},
        {"columns": ["a"]},
        {"format": "csv", "columnar": True},
        {"node_constant": "a\nb"},
        {"max_bytes": "a lot"},
        {"unknown": 1},
    ],
)
def test_nonsense_mappings_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Decode.model_validate(config)


CONFIGS: list[dict[str, Any]] = [
    {},
    {"node": "device.id", "values": ["a", "b"], "time": "t", "time_format": "unix_ms"},
    {"node": "{node}-{time}", "values": "values[0]", "time_format": "iso8601"},
    {"columnar": True},
    {"records": "data"},
    {"topic": "s/{node}/+"},
    {"format": "csv"},
    {"format": "csv", "columns": ["time", "node", "value"]},
    {"format": "influx"},
    {"format": "influx", "node": "tags.host", "values": ["fields.a", "fields.b"]},
    {"compression": "gzip"},
]
SEEDS = [
    b'{"time":1.5,"node":"a","values":[1,2]}\n{"time":2,"node":"b","value":3}',
    b'[{"time":2,"node":"b","value":3},{"time":2,"node":"b","values":[3,null]}]',
    b'{"device":{"id":"x"},"a":1,"b":2,"t":1000}',
    b'{"time":[1,2],"node":["a","b"],"values":[1,[2,3]]}',
    b'{"data":[{"time":"2024-01-01T00:00:00Z","node":"a","value":1}]}',
    b"time,node,value\n1,a,2\n2,b,3\n",
    b'm,host=a a=1,b=2i,c="x y",d=t 1500000000\nm\\ n,host=b a=1u',
    gzip.compress(b'{"time":2,"node":"b","value":3}'),
]


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(CONFIGS))
def test_random_bytes_never_raise(payload: bytes, config: dict[str, Any]) -> None:
    batch = decode(payload, on="s/x/y", **config)
    assert batch.received >= 0


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["time", "node", "values", "value", "data", "device", "a", "x"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_JSON, min_size=1, max_size=3), st.sampled_from(CONFIGS))
def test_random_json_never_raises(documents: list[Any], config: dict[str, Any]) -> None:
    decode(b"\n".join(json.dumps(document).encode() for document in documents), on="s/x/y", **config)


def test_twenty_thousand_mutated_payloads_add_up() -> None:
    """Flip, cut, insert, repeat bytes of good payloads (seeded); configurations take turns."""
    rng = random.Random(7)
    decoders = []
    for config in CONFIGS:
        decoder = Decoder(Decode.model_validate(config))
        decoder.open()
        decoders.append(decoder)
    for i in range(20_000):
        payload = bytearray(SEEDS[i % len(SEEDS)])
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(payload) + 1)
            kind = rng.randrange(4)
            if kind == 0 and at < len(payload):
                payload[at] = rng.randrange(256)
            elif kind == 1:
                del payload[at : at + rng.randint(1, 8)]
            elif kind == 2:
                payload[at:at] = rng.choice(
                    [b"NaN", b"1e999", b"null", b"[", b"}", b"\xff", b"\0", b'"', b"-", b"9" * 50]
                )
            else:
                payload[at:at] = payload[at : at + rng.randint(1, 20)]
        batch = Batch()
        decoders[i % len(decoders)].payload(bytes(payload), batch, topic="s/x/y", arrival=NOW)
        check(batch)


def test_many_messages_at_once_count_like_one_by_one() -> None:
    """Decoding a batch in one go is the same as message by message, whatever hides among them."""
    odd = [
        b"", b" ", b"{}", b"[]", b"null", b"{", b"}", b'{"time":1,', b'"node":"a","value":2}', b"{}{}",
        b'{"time":1,"node":"a","values":[1]}{"time":2,"node":"a","values":[1]}',
        b'{"time":1,"node":"a","values":[1]}\n{"time":2,"node":"a","values":[1]}',
        b'{"time":1,"node":"a","values":[1],"x":[{}', b'{"time":1,"node":"a","values":[1],"x":"}',
        b'{"time":1,"node":"a\\n","values":[1]}', b'[{"time":1,"node":"a","values":[1]}]',
        b'{"node":"a","value":1}',
        b'{"time":1,"node":"a","value":1}', b" " * 2**20 + b"{}", b'{"time":1e99,"node":"a","values":[1]}',
    ]  # fmt: skip
    good = [b'{"time":%d,"node":"n","values":[1]}' % i for i in range(5)]
    rng = random.Random(3)
    for _ in range(2000):
        payloads = [rng.choice(odd if rng.random() < 0.2 else good) for _ in range(rng.randint(1, 6))]
        together, apart = Batch(), Batch()
        Decoder(Decode()).messages(payloads, together, lambda i: (None, NOW))
        single = Decoder(Decode())
        for payload in payloads:
            single.payload(payload, apart, arrival=NOW)
        check(together)
        assert together.samples == apart.samples
        assert together.rejected == apart.rejected


def test_the_hour_that_daylight_saving_repeats_is_two_hours() -> None:
    """With an offset a local time is a moment; without one it is UTC, which repeats nothing."""
    texts = ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T01:30:00"]
    lines = [b'{"time":"%s","node":"a","value":1}' % text.encode() for text in texts]
    times = [sample.time for sample in decode(b"\n".join(lines)).samples]
    assert [time - times[0] for time in times] == [0.0, 3600.0, 3600.0]
