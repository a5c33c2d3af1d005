"""What has been seen of each source, for the tests of order and repetition."""

from __future__ import annotations

from gapless.model.types import Source


class Watermarks:
    """The highest seq seen of each source; the source not seen for longest is forgotten when there are too many."""

    __slots__ = ("limit", "seen")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.seen: dict[Source, int] = {}

    def of(self, source: Source) -> int:
        """The highest seq seen, or -1."""
        return self.seen.get(source, -1)

    def raise_to(self, source: Source, seq: int) -> None:
        """Everything up to `seq` has been seen."""
        self.seen.pop(source, None)
        self.seen[source] = seq
        if len(self.seen) > self.limit:
            del self.seen[next(iter(self.seen))]
