"""Whatever comes from a broker is a message, or refused with a reason; nothing else is raised."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from detector.edge.messages import OpenThere, Refused, Told, cut_up, pack, record, unpack, verified

KEY, OTHER = b"0123456789abcdef", b"fedcba9876543210"
HEAD = Told(
    sender="north", epoch=0, tick=5, network="n", budget="1 per 1d", spec="s", first=0, count=0, width=1,
    rows=b"", incidents=[OpenThere("a-1", 1.0, 0.0, 1.0, [3])],
)  # fmt: skip
ROWS = arrays(
    np.float32, st.tuples(st.integers(1, 30), st.integers(1, 20)),
    elements=st.one_of(st.floats(-1e6, 1e6, width=32), st.just(np.nan)),
)  # fmt: skip


@given(ROWS)
def test_what_is_told_is_heard(rows: np.ndarray) -> None:
    (told,) = cut_up(HEAD, rows)
    heard = unpack(verified(msgspec.json.encode(record(told, KEY)), KEY))
    assert heard == told
    np.testing.assert_array_equal(heard.boxes(), rows)


@given(st.binary(max_size=500))
def test_random_bytes_are_refused(payload: bytes) -> None:
    with pytest.raises(Refused):
        verified(payload, KEY)
    with pytest.raises(Refused):
        unpack(payload)


@given(st.integers(0, 10**6), st.integers(1, 255), st.booleans())
def test_a_changed_byte_is_noticed_or_changes_nothing(place: int, flip: int, cut: bool) -> None:
    (told,) = cut_up(HEAD, np.ones((3, 4), np.float32))
    payload = bytearray(msgspec.json.encode(record(told, KEY)))
    at = place % len(payload)
    payload[at] ^= flip
    with suppress(Refused):
        assert unpack(verified(bytes(payload[:at] if cut else payload), KEY)) == told  # in what is not read


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_neighbour_that_errs_is_refused_or_read(place: int, flip: int) -> None:
    """Signed, and wrong: what is read still keeps all bounds."""
    (told,) = cut_up(HEAD, np.ones((3, 4), np.float32))
    body = bytearray(pack(told))
    body[place % len(body)] ^= flip
    with suppress(Refused):
        found = unpack(bytes(body))
        assert found.boxes().shape == (found.count, found.width)
        assert not np.isinf(found.boxes()).any()


def test_another_key_is_another_network() -> None:
    with pytest.raises(Refused, match="not signed with our key"):
        verified(msgspec.json.encode(record(HEAD, OTHER)), KEY)
