"""From batches to publications: the one place where a subscriber's objects are made."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import NamedTuple

import numpy as np

from gapless.model.batch import Batch, Rows
from gapless.model.publication import Publication


class GapNotice(NamedTuple):
    """Publications are missing here. `count` is how many, -1 when nobody knows."""

    reason: str
    count: int  # type: ignore[assignment]  # nobody counts the elements of a notice as tuples can


class Handout:
    """A delivery of the core, until every subscription in it has begun to hand its rows over."""

    __slots__ = ("places", "taken", "token")

    def __init__(self, token: int, places: int, taken: Callable[[int], None]) -> None:
        self.token = token
        self.places = places
        self.taken = taken

    def release(self) -> None:
        """One subscription holds it back no more."""
        self.places -= 1
        if self.places == 0:
            self.taken(self.token)


class Parcel(NamedTuple):
    """Rows of a batch for one subscription."""

    batch: Batch
    rows: Rows | None
    handout: Handout

    def part(self) -> Batch:
        """Those rows as a batch of their own."""
        return self.batch if self.rows is None else self.batch.take(self.rows)


def rest_of(part: Batch, current: Iterator[Publication]) -> Batch | None:
    """Of a batch that was being taken one by one, what was not taken yet: None when nothing is left."""
    left = len(deque(current))
    return part.take(np.arange(part.rows - left, part.rows)) if left else None


def publications_of(batch: Batch) -> Iterator[Publication]:
    """The publications of a batch, in order."""
    return map(
        Publication,
        repeat(batch.source.name),
        batch.seqs.tolist(),
        batch.attributes,
        batch.bodies.slices(),
        repeat(batch.time),
    )
