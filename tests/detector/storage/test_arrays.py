"""The array codec: what goes in comes out, whoever made the bytes, and nothing else is taken for arrays."""

from __future__ import annotations

import io

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from detector.storage.arrays import LENGTH, NAMES, Unreadable, array, pack, raw, unpack

DTYPES = st.sampled_from([np.dtype(name) for name in NAMES.values()])
ARRAYS = st.dictionaries(
    st.text(max_size=8),
    DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0))),
)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Bit by bit: NaN and negative zero included."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@given(ARRAYS)
def test_round_trip(arrays):
    """All types and shapes, in order, bit by bit; the same arrays give the same bytes."""
    body = pack(arrays)
    found = unpack(body)
    assert list(found) == list(arrays)
    assert all(same(found[name], arrays[name]) for name in arrays)
    assert pack(arrays) == body
    for made in found.values():
        assert made.flags.writeable


@given(ARRAYS)
def test_one_array_at_a_time(arrays):
    """As snapshots store them."""
    for name, given_array in arrays.items():
        dtype, body = raw(name, given_array)
        assert same(array(name, dtype, given_array.shape, bytes(body)), given_array)


def test_foreign_order_and_strides():
    """Big-endian and sliced arrays become plain ones."""
    x = np.arange(24.0).reshape(4, 6)
    found = unpack(pack({"big": x.astype(">f8"), "sliced": x[::2, 1::3], "turned": x.T}))
    assert all(made.dtype == np.dtype("<f8") for made in found.values())
    np.testing.assert_array_equal(found["big"], x)
    np.testing.assert_array_equal(found["sliced"], x[::2, 1::3])
    np.testing.assert_array_equal(found["turned"], x.T)


def test_no_copy_of_what_is_plain():
    """A snapshot can be most of the memory."""
    x = np.arange(10.0)
    _, body = raw("x", x)
    x[0] = 7.0
    assert np.frombuffer(body)[0] == 7.0


@given(ARRAYS)
def test_the_npz_of_version_0_1_is_read(arrays):
    out = io.BytesIO()
    arrays = {f"a{k}": given_array for k, given_array in enumerate(arrays.values())}
    np.savez(out, **arrays)
    found = unpack(out.getvalue())
    assert all(same(found[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize(
    "bad", [np.array(["x"]), np.array([1j]), np.array([{}], object), np.longdouble([1.0])]
)
def test_other_types_are_refused(bad):
    with pytest.raises(TypeError, match="array x has type"):
        pack({"x": bad})


def test_objects_in_an_npz_are_not_read():
    """Reading them would run code."""
    out = io.BytesIO()
    np.savez(out, x=np.array([{}], object))
    with pytest.raises(Unreadable):
        unpack(out.getvalue())


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(body):
    """Nothing but Unreadable, ever, and no arrays out of nowhere."""
    try:
        found = unpack(body)
    except Unreadable:
        return
    assert sum(made.nbytes for made in found.values()) <= len(body)


@given(st.data())
def test_damage_is_refused_or_harmless(data):
    """Cut off, or with a byte changed in the header: refused, or arrays of no more bytes than there are."""
    body = pack({"x": np.arange(5.0), "y": np.ones((2, 3), np.int32)})
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(Unreadable):
        unpack(body[:end])
    with pytest.raises(Unreadable):
        unpack(body + b"\0")
    at = data.draw(st.integers(0, LENGTH + 100))
    changed = body[:at] + bytes([data.draw(st.integers(0, 255))]) + body[at + 1 :]
    try:
        found = unpack(changed)
    except Unreadable:
        return
    assert sum(made.nbytes for made in found.values()) == 5 * 8 + 6 * 4


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**62, 4], "data_offsets": [0, 8]},
        {"dtype": "|O", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]},
        {"dtype": "F64", "shape": [1], "data_offsets": [0, -8]},
        {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]},
    ],
)
def test_headers_that_lie(entry):
    text = msgspec.json.encode({"x": entry})
    with pytest.raises(Unreadable):
        unpack(len(text).to_bytes(LENGTH, "little") + text + bytes(8))
