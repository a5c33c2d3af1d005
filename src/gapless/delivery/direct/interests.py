"""Who wants what: filters propagated hop by hop, and the confirmation that comes back when everybody in reach knows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple

from gapless.delivery.direct.messages import Want
from gapless.delivery.port import Tuning
from gapless.filters import Cover, Interest

WANT_BYTES = 64 << 10  # about how much of a change goes into one message, well below the limit of a frame
UNHEARD_BYTES = Tuning().unheard_bytes
PIECE = Tuning().cover_piece
Texts = tuple[str, str]
_TASKS = attrgetter("tasks")
LOCAL = ""  # the holder that stands for all clients of this broker


class Asked(NamedTuple):
    """Who waits for a confirmation: a client's subscription, or a neighbour's Want of that number."""

    session: int
    number: int


class Neighbour:
    """What one neighbour has been told, in this session, and what it is still to be told."""

    __slots__ = (
        "due",
        "exceptions",
        "held",
        "more",
        "sent",
        "taking_back",
        "telling",
        "told",
        "touched",
        "unheard",
        "unheard_bytes",
    )

    def __init__(self) -> None:
        self.told: dict[str, Interest] = {}
        self.sent = 0  # number of the last Want
        self.held = 0  # number of the last Want that is known to everybody in reach behind it
        self.exceptions: tuple[str, ...] = ()
        self.due = True  # another Want is waited for, be it empty
        self.touched: dict[str, None] = {}  # what has changed and is to be told by the next Want
        self.telling: dict[str, None] = {}  # what is still to be told by the last Want, which goes out in parts
        self.taking_back: dict[str, None] = {}  # and of that, what it is to know no more
        self.more = False  # the last part of it that was sent was not its last
        self.unheard: deque[int] = deque()  # the sizes of the messages under way
        self.unheard_bytes = 0

    @property
    def behind(self) -> bool:
        """Whether it takes another Want to tell it how things are."""
        return self.due or bool(self.touched)

    def next_number(self) -> bool:
        """Go on to the next Want, if there is to be one: it tells all that has changed by now."""
        if not self.behind:
            return False
        self.sent += 1
        self.due = False
        self.telling, self.touched = self.touched, {}
        return True


class Pending:
    """A request that waits for the word of so many neighbours."""

    __slots__ = ("asked", "exceptions", "waits")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.waits = 0
        self.exceptions: dict[str, None] = {}


class Interests:
    """The interests behind each neighbour and of the own clients, and what each neighbour must therefore be told.

    A neighbour is told the fewest interests that cover all which anybody but itself holds. While it is told of changes
    it may know too many, but never too few: what takes the place of others is told before they are taken back.
    Neighbours are named by their broker ids.
    """

    def __init__(self, neighbours: Iterable[str], unheard_bytes: int = UNHEARD_BYTES, piece: int = PIECE) -> None:
        self.neighbours = tuple(neighbours)
        self.unheard_bytes = unheard_bytes
        self.part_bytes = min(WANT_BYTES, unheard_bytes)
        self.up: dict[str, Neighbour] = {}
        self.expected = dict.fromkeys(self.neighbours)  # not seen since the start, and still waited for
        self.holders: dict[str, dict[str, int]] = {}  # interest -> who holds it, how often
        self.known: dict[str, Interest] = {}
        self.covers: dict[str, Cover] = {peer: Cover(piece) for peer in self.neighbours}
        self.pending: dict[int, dict[int, Pending]] = {}  # by session and number
        self.waiting: dict[str, dict[Pending, int]] = {peer: {} for peer in self.neighbours}  # for Wants of what number
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
        neighbour = self.up[peer] = Neighbour()
        neighbour.touched = dict.fromkeys(self.covers[peer].told)
        self.expected.pop(peer, None)

    def fall(self, peer: str) -> None:
        """The session has ended: what is behind it is out of reach, and nobody waits for it."""
        self.up.pop(peer, None)
        self.expected.pop(peer, None)
        waiting, self.waiting[peer] = self.waiting[peer], {}
        for pending in waiting:
            self._settle(pending, (peer,))

    def change(self, touched: Iterable[str] | None = None) -> None:
        """Note what each neighbour must be told after these interests (None: all) have changed hands."""
        keys = tuple(dict.fromkeys(self.holders if touched is None else touched))
        for peer, cover in self.covers.items():
            for key in keys:
                wanted = self._is_wanted(key, peer)
                if wanted and key not in cover:
                    cover.add(self.known[key])
                elif not wanted and key in cover:
                    cover.remove(key)
            self._note(peer, cover)
        for key in keys:
            if not self.holders.get(key, True):
                del self.holders[key], self.known[key]

    @property
    def busy(self) -> bool:
        """Whether neighbours are told more than need be, and `work` would help."""
        return any(map(_TASKS, self.covers.values()))

    def work(self) -> None:
        """Go on with making what is told less."""
        for peer, cover in self.covers.items():
            cover.work()
            self._note(peer, cover)

    def _note(self, peer: str, cover: Cover) -> None:
        """Of what comes and goes before a neighbour can be told, it is told nothing, and nothing is kept."""
        touched, cover.touched = cover.touched, {}
        neighbour = self.up.get(peer)
        if neighbour is None:
            return
        for key in touched:
            if (key in cover.told) == (key in neighbour.told):
                neighbour.touched.pop(key, None)
            elif key not in neighbour.telling:
                neighbour.touched[key] = None

    def _is_wanted(self, key: str, peer: str) -> bool:
        """Whether anybody but this neighbour holds the interest."""
        holders = self.holders.get(key, {})
        return len(holders) > 1 or (bool(holders) and peer not in holders)

    def wants(self) -> Iterator[tuple[str, Want]]:
        """What may be sent to neighbours now: one that comes back is told everything, but not all at once."""
        for peer, neighbour in self.up.items():
            while neighbour.unheard_bytes < self.unheard_bytes and (neighbour.more or neighbour.next_number()):
                want, size = self._part(peer, neighbour)
                neighbour.unheard.append(size)
                neighbour.unheard_bytes += size
                yield peer, want

    def _part(self, peer: str, neighbour: Neighbour) -> tuple[Want, int]:
        """As much of the last Want as fits one message, and its size: first what is added, then what is taken back."""
        told = self.covers[peer].told
        add: list[Texts] = []
        remove: list[Texts] = []
        size = 8
        while neighbour.telling and size < self.part_bytes + 8:
            key = next(iter(neighbour.telling))
            del neighbour.telling[key]
            if key not in told:
                neighbour.taking_back[key] = None
            elif key not in neighbour.told:
                neighbour.told[key] = told[key]
                add.append(told[key].texts)
                size += 8 + sum(map(len, add[-1]))
        if not neighbour.telling and neighbour.touched:
            # What takes their place may be among what the next Want adds.
            neighbour.touched.update(neighbour.taking_back)
            neighbour.taking_back = {}
        while not neighbour.telling and neighbour.taking_back and size < self.part_bytes + 8:
            key = next(iter(neighbour.taking_back))
            del neighbour.taking_back[key]
            if key not in told and key in neighbour.told:
                remove.append(neighbour.told.pop(key).texts)
                size += 8 + sum(map(len, remove[-1]))
        neighbour.more = bool(neighbour.telling or neighbour.taking_back)
        return Want(neighbour.sent, tuple(add), tuple(remove), neighbour.more), size

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
                    neighbour.due = True
                if neighbour.behind:
                    neighbour.due = True  # for what it waits may cancel out
                    self._wait(pending, peer, neighbour.sent + 1)
                elif neighbour.sent > neighbour.held:
                    self._wait(pending, peer, neighbour.sent)
        self.pending.setdefault(asked.session, {})[asked.number] = pending
        if not pending.waits:
            self.over.append(pending)

    def _wait(self, pending: Pending, peer: str, number: int) -> None:
        pending.waits += 1
        self.waiting[peer][pending] = number

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
        for pending in list(takewhile(lambda one: waiting[one] <= number, waiting)):
            del waiting[pending]
            self._settle(pending, exceptions)
        return True

    def forget(self, session: int) -> None:
        """Nobody waits there any more."""
        for pending in self.pending.pop(session, {}).values():
            self._release(pending)

    def forget_one(self, asked: Asked) -> None:
        """This one request has been taken back."""
        numbers = self.pending.get(asked.session, {})
        pending = numbers.pop(asked.number, None)
        if pending is not None:
            self._release(pending)
        if not numbers:
            self.pending.pop(asked.session, None)

    def _release(self, pending: Pending) -> None:
        """Whoever asked wants no answer any more: nothing of it is kept."""
        if pending.waits:
            for waiting in self.waiting.values():
                waiting.pop(pending, None)

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
