"""What has been seen of each source, for the tests of order and repetition; bounded, and never wrong for it."""

from __future__ import annotations

from gapless.model.types import Source


class Watermarks:
    """The highest seq seen of each source; the source not seen for longest is forgotten when there are too many.

    What is forgotten leaves its incarnation behind: a source that is not known and whose incarnation is no higher than
    one forgotten may have been seen, and any other has not. So a limit of memory can cost publications, which are then
    missed and told, but never lets one through twice.
    """

    __slots__ = ("floor", "limit", "seen")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.seen: dict[Source, int] = {}
        self.floor = -1  # the highest incarnation of a source that was forgotten

    def of(self, source: Source) -> int:
        """The highest seq seen, or -1."""
        return self.seen.get(source, -1)

    def may_have_forgotten(self, source: Source) -> bool:
        """Whether nobody can tell any more what was seen of it."""
        return source.incarnation <= self.floor and source not in self.seen

    def raise_to(self, source: Source, seq: int) -> None:
        """Everything up to `seq` has been seen. Of what was forgotten that may be less than had been: it stays so."""
        if self.may_have_forgotten(source):
            return
        self.seen[source] = max(seq, self.seen.pop(source, -1))
        if len(self.seen) > self.limit:
            forgotten = next(iter(self.seen))
            del self.seen[forgotten]
            self.floor = max(self.floor, forgotten.incarnation)


class Holders:
    """The newest holder of each publisher's name, by incarnation; bounded as above."""

    __slots__ = ("floor", "highest", "limit", "newest")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.newest: dict[str, int] = {}
        self.floor = -1  # the highest incarnation under a name that was forgotten
        self.highest = 0  # of all

    def has_newer(self, source: Source) -> bool:
        """Whether the name has a newer holder, or may have had one."""
        return source.incarnation < self.newest.get(source.name, self.floor + 1)

    def note(self, source: Source) -> None:
        """This is the newest holder of its name."""
        self.newest.pop(source.name, None)
        self.newest[source.name] = source.incarnation
        self.highest = max(self.highest, source.incarnation)
        if len(self.newest) > self.limit:
            forgotten = next(iter(self.newest))
            self.floor = max(self.floor, self.newest.pop(forgotten))
