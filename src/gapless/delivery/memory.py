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


class Holder:
    """The newest holder of one name, and up to where its publications were taken."""

    __slots__ = ("accepted", "incarnation", "sessions")

    def __init__(self) -> None:
        self.incarnation = -1
        self.accepted = -1
        self.sessions = 0  # open ones that have published under the name


class Holders:
    """The newest holder of each publisher's name at a broker.

    A name is kept for as long as a session is open that has published under it, and a session may have so many names
    and no more. Of the names whose sessions have ended the `limit` left last are kept. Whoever comes under a name that
    was forgotten is taken, as by a broker that never heard of it: nobody is fenced for want of memory, and nobody can
    use up the memory of others.
    """

    __slots__ = ("highest", "in_use", "left", "limit", "names", "names_max")

    def __init__(self, limit: int, names_max: int) -> None:
        self.limit = limit
        self.names_max = names_max
        self.in_use: dict[str, Holder] = {}  # names that open sessions have published under
        self.left: dict[str, Holder] = {}  # names of sessions that have ended, the one left longest ago first
        self.names: dict[int, dict[str, None]] = {}  # of each open session
        self.highest = 0  # incarnation of all that ever came

    def has_newer(self, source: Source) -> bool:
        """Whether the name is known to have a newer holder."""
        holder = self.in_use.get(source.name) or self.left.get(source.name)
        return holder is not None and source.incarnation < holder.incarnation

    def admits(self, session: int, name: str) -> bool:
        """Whether the session may publish under this name beside those that it has."""
        names = self.names.get(session, {})
        return name in names or len(names) < self.names_max

    def take(self, session: int, source: Source) -> Holder:
        """This is the newest holder of its name, and publishes by this session."""
        names = self.names.setdefault(session, {})
        holder = self.in_use.get(source.name)
        if holder is None:
            holder = self.in_use[source.name] = self.left.pop(source.name) if source.name in self.left else Holder()
        if source.name not in names:
            names[source.name] = None
            holder.sessions += 1
        if source.incarnation > holder.incarnation:
            holder.incarnation, holder.accepted = source.incarnation, -1
            self.highest = max(self.highest, source.incarnation)
        return holder

    def leave(self, session: int) -> None:
        """The session has ended."""
        for name in self.names.pop(session, {}):
            holder = self.in_use[name]
            holder.sessions -= 1
            if not holder.sessions:
                self.left[name] = self.in_use.pop(name)
        while len(self.left) > self.limit:
            del self.left[next(iter(self.left))]
