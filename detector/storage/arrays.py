"""Arrays as bytes and back, the one way in which the database holds them.

Only booleans, integers and floats, little-endian and in C order, so that a state may move between machines;
no pickle, so that reading a state can run no code. `raw` and `array` turn one array into bytes and back:
snapshots store each array in rows of its own. `pack` and `unpack` do the same with a set of named arrays, for
case files and models, in the layout of safetensors: the length of a header, the header in JSON, then all
bytes. Version 0.1 stored such sets as npz, which `unpack` reads as well.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 256 * 2**20  # of one set of arrays
MAX_HEADER = 2**20
LENGTH = 8  # bytes of the header's length
NPZ = b"PK"  # the first bytes of a zip archive

Arrays = Mapping[str, NDArray[Any]]
NAMES = {"BOOL": "|b1", "I8": "|i1", "U8": "|u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4",
         "I64": "<i8", "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}  # fmt: skip
TYPES = {dtype: name for name, dtype in NAMES.items()}


class Unreadable(ValueError):
    """Bytes that are no arrays."""


class _Entry(msgspec.Struct):
    """One array in the header of a set."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def raw(name: str, array: NDArray[Any]) -> tuple[str, memoryview]:
    """Type and bytes of an array, without a copy if possible: it may be most of our memory."""
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in TYPES:
        raise TypeError(f"array {name} has type {array.dtype}; only numbers and booleans can be stored")
    plain = np.ascontiguousarray(array, dtype)
    return plain.dtype.str, plain.reshape(-1).view(np.uint8).data


def array(name: str, dtype: str, shape: Sequence[int], body: bytes | memoryview) -> NDArray[Any]:
    """The array of these bytes, which may be written to; `Unreadable` if they do not fit."""
    if dtype not in TYPES:
        raise Unreadable(f"array {name} has type {dtype}")
    if min(shape, default=0) < 0 or math.prod(shape) * np.dtype(dtype).itemsize != len(body):
        raise Unreadable(f"array {name} of shape {list(shape)} and type {dtype} has {len(body)} bytes")
    return np.frombuffer(body, np.dtype(dtype)).reshape(shape).copy()


def pack(arrays: Arrays) -> bytes:
    """A set of arrays as one text of bytes; the same arrays give the same bytes."""
    header, bodies, end = {}, [], 0
    for name, given in arrays.items():
        dtype, body = raw(name, given)
        header[name] = _Entry(TYPES[dtype], list(given.shape), (end, end + len(body)))
        bodies.append(body)
        end += len(body)
    if end > MAX_BYTES:
        raise ValueError(f"arrays of more than {MAX_BYTES} bytes cannot be stored")
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % LENGTH)  # so that the numbers are aligned
    return b"".join([len(text).to_bytes(LENGTH, "little"), text, *bodies])


def unpack(body: bytes) -> dict[str, NDArray[Any]]:
    """What `pack` was given; `Unreadable` for anything else, whoever made it."""
    if body[: len(NPZ)] == NPZ:
        return _unpack_npz(body)
    size = int.from_bytes(body[:LENGTH], "little")
    if len(body) < LENGTH or size > min(MAX_HEADER, len(body) - LENGTH):
        raise Unreadable(f"no set of arrays: {len(body)} bytes without a header")
    try:
        header = msgspec.json.decode(body[LENGTH : LENGTH + size], type=dict[str, _Entry])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"no set of arrays: {error}") from None
    data, end = memoryview(body)[LENGTH + size :], 0
    arrays = {}
    for name, entry in header.items():
        begin, stop = entry.data_offsets
        if begin != end or stop < begin:
            raise Unreadable(f"no set of arrays: {name} does not follow the one before it")
        arrays[name] = array(name, NAMES.get(entry.dtype, entry.dtype), entry.shape, data[begin:stop])
        end = stop
    if end != len(data):
        raise Unreadable(f"no set of arrays: {len(data)} bytes instead of {end}")
    return arrays


def _unpack_npz(body: bytes) -> dict[str, NDArray[Any]]:
    """As version 0.1 stored them."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES + 2**20:
                raise Unreadable(f"arrays of more than {MAX_BYTES} bytes")
        with np.load(io.BytesIO(body), allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except Unreadable:
        raise
    except Exception as error:  # zip and npy readers raise all kinds on bytes that are not theirs
        raise Unreadable(f"no set of arrays: {error}") from None
    for name, found in arrays.items():
        if found.dtype.newbyteorder("<").str not in TYPES:
            raise Unreadable(f"array {name} has type {found.dtype}")
    return arrays
