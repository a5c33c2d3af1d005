"""From batches to publications: the one place where a subscriber's objects are made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from gapless.model.batch import Batch, Rows
from gapless.model.publication import Publication


def publications_of(batch: Batch, rows: Rows | None) -> Iterator[Publication]:
    """The publications in these rows (None: all), in order."""
    part = batch if rows is None else batch.take(rows)
    return map(
        Publication,
        repeat(part.source.name),
        part.seqs.tolist(),
        part.attributes,
        part.bodies.slices(),
        repeat(part.time),
    )
