"""Which rows of a batch a message selects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.delivery.selection import packed, size_of, unpacked
from gapless.model.errors import WireError

selections = st.integers(1, 300).flatmap(
    lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1), min_size=1).map(sorted))
)


@given(selections)
def test_rows_come_back_as_they_went(selection: tuple[int, list[int]]) -> None:
    """Any selection is read as it was written, in at most a bit for each row, and nothing stands for everything."""
    count, rows = selection
    data = packed(np.array(rows), count)
    assert len(data) <= (count + 7) // 8
    back = unpacked(data, count)
    assert (list(range(count)) if back is None else back.tolist()) == rows
    assert (back is None) is (len(rows) == count)
    assert size_of(data, count) == len(rows)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\1\0\0", 100),
        (b"\xff\0\0\0", 100),
        (b"\1\0\0\0\1\0\0\0", 100),
        (b"\2\0\0\0\1\0\0\0", 100),
        (b"\0" * 13, 100),
        (b"\0" * 12 + b"\xf0", 100),
        (b"\0" * 14, 100),
    ],
)
def test_what_selects_no_rows_is_refused(data: bytes, count: int) -> None:
    """Bytes of a wrong length, beyond the batch, out of order or selecting nothing are refused."""
    with pytest.raises(WireError, match="do not select rows"):
        unpacked(data, count)
