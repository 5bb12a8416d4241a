"""Named arrays as bytes and back: the npz format of numpy, read without pickle and within a size."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = "biuf"  # of dtypes that may be stored: bool, integers, floats
MAX_BYTES = 256 * 2**20  # of one set of arrays, unpacked

Arrays = Mapping[str, NDArray[Any]]


class Unreadable(ValueError):
    """Bytes that are no set of plain arrays."""


def pack(arrays: Arrays) -> bytes:
    """The same arrays give the same bytes."""
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS:
            raise TypeError(f"array {name} has type {array.dtype}; only numbers and booleans can be stored")
    plain = {name: np.asarray(array, array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    if sum(array.nbytes for array in plain.values()) > MAX_BYTES:
        raise ValueError(f"arrays of more than {MAX_BYTES} bytes cannot be stored")
    out = io.BytesIO()
    np.savez(out, **plain)  # type: ignore[arg-type]
    return out.getvalue()


def unpack(body: bytes) -> dict[str, NDArray[Any]]:
    """What `pack` was given; `Unreadable` for anything else, whoever made it."""
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
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS:
            raise Unreadable(f"array {name} has type {array.dtype}")
    return arrays
