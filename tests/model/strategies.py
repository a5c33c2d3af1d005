"""Publications as hypothesis draws them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.types import INT64_MAX, INT64_MIN, Source

letters = st.characters(exclude_categories=["Cs"])
names = st.sampled_from(["a", "b", "topic", "naïve", "x" * 255]) | st.text(letters, min_size=1, max_size=5)
FIRST, LAST = datetime(1, 1, 2), datetime(9999, 12, 30)  # noqa: DTZ001  # hypothesis adds the zone
times = st.datetimes(FIRST, LAST, timezones=st.just(UTC))
values = (
    st.booleans()
    | st.integers(INT64_MIN, INT64_MAX)
    | st.floats(allow_nan=False)
    | st.text(letters, max_size=8)
    | times
    | st.none()
)
rows_of_any_kind = st.lists(st.dictionaries(names, values, max_size=4), min_size=1, max_size=12)


@st.composite
def rows_of_one_kind(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows as applications mostly have them: the same attributes of the same types, few or many."""
    kinds = [
        st.booleans(),
        st.integers(INT64_MIN, INT64_MAX),
        st.floats(allow_nan=False),
        st.text("abü", max_size=3),
        times,
    ]
    chosen = draw(st.dictionaries(st.sampled_from("abcde"), st.sampled_from(kinds), max_size=4))
    count = draw(st.integers(1, 6) | st.integers(60, 140))
    some = [{name: draw(kind) for name, kind in chosen.items()} for _ in range(min(count, 6))]
    return [some[row % len(some)] for row in range(count)]


all_rows = rows_of_any_kind | rows_of_one_kind()
sources = st.builds(Source, st.text(letters, min_size=1, max_size=9), st.integers(0, INT64_MAX))
Sent = list[tuple[int, dict[str, Any], bytes]]  # seq, attributes that are not null, body


@st.composite
def batches(draw: st.DrawFn) -> tuple[Batch, Sent]:
    """A batch of any rows, with or without holes in its numbers, and what it should say."""
    rows = draw(all_rows)
    bodies = [draw(st.binary(max_size=4)) * (row % 3) for row in range(len(rows))]
    first = draw(st.integers(1, 1 << 62))
    batch = batch_of_rows(draw(sources), first, rows, bodies)
    sent = [
        (first + row, {name: value for name, value in attributes.items() if value is not None}, bodies[row])
        for row, attributes in enumerate(rows)
    ]
    if draw(st.booleans()):
        kept = sorted(draw(st.sets(st.integers(0, len(rows) - 1), min_size=1)))
        batch, sent = taken(batch, kept), [sent[row] for row in kept]
    return batch, sent


def taken(batch: Batch, rows: list[int]) -> Batch:
    """These rows of a batch."""
    return batch.take(np.array(rows, np.intp))
