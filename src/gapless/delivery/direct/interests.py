"""Who wants what: filters propagated hop by hop, and the confirmation that comes back when everybody in reach knows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gapless.delivery.direct.messages import Want
from gapless.filters import Interest

WANT_BYTES = 64 << 10  # about how much of a change goes into one message, well below the limit of a frame
UNHEARD_BYTES = 1 << 20  # so much of what is wanted may be under way to a neighbour at a time
LOCAL = ""  # the holder that stands for all clients of this broker


class Asked(NamedTuple):
    """Who waits for a confirmation: a client's subscription, or a neighbour's Want of that number."""

    session: int
    number: int


class Neighbour:
    """What one neighbour has been told, in this session."""

    __slots__ = ("exceptions", "held", "sent", "told", "unheard", "unheard_bytes", "untold")

    def __init__(self) -> None:
        self.told: dict[str, Interest] = {}
        self.sent = 0  # number of the last Want
        self.held = 0  # number of the last Want that is known to everybody in reach behind it
        self.exceptions: tuple[str, ...] = ()
        self.untold: deque[Want] = deque()  # to be sent when it has taken in what is under way
        self.unheard: deque[int] = deque()  # the sizes of those under way
        self.unheard_bytes = 0

    def next_want(self) -> Want | None:
        """What may be sent to it now: a neighbour that comes back is told everything, but not all at once."""
        if not self.untold or self.unheard_bytes >= UNHEARD_BYTES:
            return None
        want = self.untold.popleft()
        size = _size_of(want)
        self.unheard.append(size)
        self.unheard_bytes += size
        return want


class Pending:
    """A request that waits for the word of so many neighbours."""

    __slots__ = ("asked", "exceptions", "waits")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.waits = 0
        self.exceptions: dict[str, None] = {}


class Interests:
    """The interests behind each neighbour and of the own clients, and what each neighbour must therefore be told.

    A neighbour is told of an interest while anybody but itself holds it. Neighbours are named by their broker ids.
    """

    def __init__(self, neighbours: Iterable[str]) -> None:
        self.neighbours = tuple(neighbours)
        self.up: dict[str, Neighbour] = {}
        self.expected = dict.fromkeys(self.neighbours)  # not seen since the start, and still waited for
        self.holders: dict[str, dict[str, int]] = {}  # interest -> who holds it, how often
        self.known: dict[str, Interest] = {}
        self.pending: dict[int, dict[int, Pending]] = {}  # by session and number
        self.waiting: dict[str, deque[tuple[int, Pending]]] = {peer: deque() for peer in self.neighbours}
        self.over: list[Pending] = []  # whose wait is over

    def hold(self, interest: Interest, holder: str) -> None:
        """One more of the holder's subscriptions has this interest."""
        holders = self.holders.setdefault(interest.key, {})
        holders[holder] = holders.get(holder, 0) + 1
        self.known[interest.key] = interest

    def drop(self, key: str, holder: str) -> None:
        """One less."""
        holders = self.holders[key]
        holders[holder] -= 1
        if not holders[holder]:
            del holders[holder]

    def rise(self, peer: str) -> None:
        """A session with a neighbour has opened: it knows nothing yet."""
        self.up[peer] = Neighbour()
        self.expected.pop(peer, None)

    def fall(self, peer: str) -> None:
        """The session has ended: what is behind it is out of reach, and nobody waits for it."""
        self.up.pop(peer, None)
        self.expected.pop(peer, None)
        waiting, self.waiting[peer] = self.waiting[peer], deque()
        for _, pending in waiting:
            self._settle(pending, (peer,))

    def change(self, touched: Iterable[str] | None = None) -> None:
        """Note what each neighbour must be told after these interests (None: all) have changed hands."""
        keys = tuple(dict.fromkeys(self.holders if touched is None else touched))
        for peer, neighbour in self.up.items():
            add, remove = [], []
            for key in keys:
                holders = self.holders.get(key, {})
                wanted = len(holders) > 1 or (bool(holders) and peer not in holders)
                if wanted and key not in neighbour.told:
                    neighbour.told[key] = self.known[key]
                    add.append(self.known[key].texts)
                elif not wanted and key in neighbour.told:
                    remove.append(neighbour.told.pop(key).texts)
            if add or remove or not neighbour.sent:
                neighbour.sent += 1
                neighbour.untold.extend(_parts(neighbour.sent, add, remove))
        for key in keys:
            if not self.holders.get(key, True):
                del self.holders[key], self.known[key]

    def wants(self) -> Iterator[tuple[str, Want]]:
        """What may be sent to neighbours now."""
        for peer, neighbour in self.up.items():
            while (want := neighbour.next_want()) is not None:
                yield peer, want

    def heard(self, peer: str) -> bool:
        """A neighbour has taken in the first of the Wants under way; false when none was."""
        neighbour = self.up[peer]
        if not neighbour.unheard:
            return False
        neighbour.unheard_bytes -= neighbour.unheard.popleft()
        return True

    def ask(self, asked: Asked, asker: str) -> None:
        """Note that somebody waits for what has just been told to the neighbours but `asker`.

        A neighbour that could not reach everybody when it last confirmed is asked again: by an empty Want.
        """
        pending = Pending(asked)
        for peer in self.neighbours:
            if peer == asker:
                continue
            neighbour = self.up.get(peer)
            if neighbour is None:
                if peer in self.expected:
                    self._wait(pending, peer, 1)
                else:
                    pending.exceptions[peer] = None
            else:
                if neighbour.exceptions and neighbour.sent == neighbour.held:
                    neighbour.sent += 1
                    neighbour.untold.append(Want(neighbour.sent, (), ()))
                if neighbour.sent > neighbour.held:
                    self._wait(pending, peer, neighbour.sent)
        self.pending.setdefault(asked.session, {})[asked.number] = pending
        if not pending.waits:
            self.over.append(pending)

    def _wait(self, pending: Pending, peer: str, number: int) -> None:
        pending.waits += 1
        self.waiting[peer].append((number, pending))

    def _settle(self, pending: Pending, exceptions: Iterable[str]) -> None:
        """One of the neighbours that it waits for has answered, or never will."""
        pending.exceptions.update(dict.fromkeys(exceptions))
        pending.waits -= 1
        if not pending.waits:
            self.over.append(pending)

    def confirmed(self, peer: str, number: int, exceptions: tuple[str, ...]) -> bool:
        """A neighbour says that everybody in reach behind it knows its Wants up to this number; false when it lies."""
        neighbour = self.up[peer]
        if not neighbour.held <= number <= neighbour.sent:
            return False
        neighbour.held = number
        neighbour.exceptions = exceptions
        waiting = self.waiting[peer]
        while waiting and waiting[0][0] <= number:
            self._settle(waiting.popleft()[1], exceptions)
        return True

    def forget(self, session: int) -> None:
        """Nobody waits there any more."""
        self.pending.pop(session, None)

    def forget_one(self, asked: Asked) -> None:
        """This one request has been taken back."""
        numbers = self.pending.get(asked.session, {})
        numbers.pop(asked.number, None)
        if not numbers:
            self.pending.pop(asked.session, None)

    def answered(self) -> list[Pending]:
        """The requests whose wait is over, taken out, without those that nobody makes any more."""
        over, self.over = self.over, []
        found = [pending for pending in over if self._is_pending(pending)]
        for pending in found:
            self.forget_one(pending.asked)
        return found

    def _is_pending(self, pending: Pending) -> bool:
        return self.pending.get(pending.asked.session, {}).get(pending.asked.number) is pending

    def unanswered(self) -> int:
        """How many wait."""
        return sum(map(len, self.pending.values()))


Texts = tuple[str, str]


def _parts(number: int, add: list[Texts], remove: list[Texts]) -> Iterator[Want]:
    """One change, as messages that fit a frame; the removals go first, and the last part says that it is."""
    pieces: list[tuple[list[Texts], list[Texts]]] = [([], [])]
    size = 0
    for kind, texts in [(1, texts) for texts in remove] + [(0, texts) for texts in add]:
        if size >= WANT_BYTES:
            pieces.append(([], []))
            size = 0
        pieces[-1][kind].append(texts)
        size += 8 + sum(map(len, texts))
    for place, (added, removed) in enumerate(pieces, 1):
        yield Want(number, tuple(added), tuple(removed), place < len(pieces))


def _size_of(want: Want) -> int:
    return 8 + sum([8 + len(filter_text) + len(topic) for filter_text, topic in want.add + want.remove])
