"""Which rows of a batch, as bytes: nothing for all, else a list of numbers or a bit for each, whichever is shorter."""

from __future__ import annotations

import numpy as np

from gapless.model.batch import Rows
from gapless.model.errors import WireError


def packed(rows: Rows | None, count: int) -> bytes:
    """These rising rows (None: all) of a batch of so many."""
    if rows is None or len(rows) == count:
        return b""
    if 4 * len(rows) < _bitmap_size(count):
        return rows.astype("<u4").tobytes()
    bits = np.zeros(count, np.bool_)
    bits[rows] = True
    return np.packbits(bits, bitorder="little").tobytes()


def unpacked(data: bytes, count: int) -> Rows | None:
    """The rows again; raises WireError when they are not rows of a batch of so many."""
    if not data:
        return None
    if len(data) == _bitmap_size(count):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        rows = np.flatnonzero(bits[:count])
        fits = not bits[count:].any()
    elif len(data) % 4 == 0 and len(data) < _bitmap_size(count):
        rows = np.frombuffer(data, "<u4").astype(np.intp)
        fits = int(rows[-1]) < count and bool((rows[1:] > rows[:-1]).all())
    else:
        fits = False
    if not fits or not len(rows):
        raise WireError(f"{len(data)} bytes do not select rows of a batch of {count}")
    return rows


def size_of(data: bytes, count: int) -> int:
    """How many rows are selected."""
    rows = unpacked(data, count)
    return count if rows is None else len(rows)


def _bitmap_size(count: int) -> int:
    return (count + 7) // 8
