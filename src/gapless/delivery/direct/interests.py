"""Who wants what: filters propagated hop by hop, and the confirmation that comes back when everybody in reach knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gapless.delivery.direct.messages import Want
from gapless.filters import Interest

WANT_BYTES = 64 << 10  # about how much of a change goes into one message, well below the limit of a frame
LOCAL = ""  # the holder that stands for all clients of this broker


class Asked(NamedTuple):
    """Who waits for a confirmation: a client's subscription, or a neighbour's Want of that number."""

    session: int
    number: int


class Neighbour:
    """What one neighbour has been told, in this session."""

    __slots__ = ("exceptions", "held", "sent", "told")

    def __init__(self) -> None:
        self.told: dict[str, Interest] = {}
        self.sent = 0  # number of the last Want
        self.held = 0  # number of the last Want that is known to everybody in reach behind it
        self.exceptions: tuple[str, ...] = ()


class Pending:
    """A request that waits until the neighbours have confirmed Wants up to these numbers."""

    __slots__ = ("asked", "exceptions", "waits")

    def __init__(self, asked: Asked, waits: dict[str, int], exceptions: Iterable[str]) -> None:
        self.asked = asked
        self.waits = waits
        self.exceptions = dict.fromkeys(exceptions)


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
        self.pending: list[Pending] = []

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
        for pending in self.pending:
            if pending.waits.pop(peer, None) is not None:
                pending.exceptions[peer] = None

    def changes(self, touched: Iterable[str] | None = None) -> Iterator[tuple[str, Want]]:
        """What each neighbour must be told after these interests (None: all) have changed hands."""
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
                for part in _parts(neighbour.sent, add, remove):
                    yield peer, part
        for key in keys:
            if not self.holders.get(key, True):
                del self.holders[key], self.known[key]

    def ask(self, asked: Asked, asker: str) -> list[tuple[str, Want]]:
        """Note that somebody waits for what has just been told to the neighbours but `asker`.

        A neighbour that could not reach everybody when it last confirmed is asked again: by an empty Want.
        """
        waits: dict[str, int] = {}
        exceptions: list[str] = []
        again: list[tuple[str, Want]] = []
        for peer in self.neighbours:
            if peer == asker:
                continue
            neighbour = self.up.get(peer)
            if neighbour is None:
                if peer in self.expected:
                    waits[peer] = 1
                else:
                    exceptions.append(peer)
            else:
                if neighbour.exceptions and neighbour.sent == neighbour.held:
                    neighbour.sent += 1
                    again.append((peer, Want(neighbour.sent, (), ())))
                if neighbour.sent > neighbour.held:
                    waits[peer] = neighbour.sent
        self.pending.append(Pending(asked, waits, exceptions))
        return again

    def confirmed(self, peer: str, number: int, exceptions: tuple[str, ...]) -> None:
        """A neighbour says that everybody in reach behind it knows its Wants up to this number."""
        neighbour = self.up[peer]
        neighbour.held = number
        neighbour.exceptions = exceptions
        for pending in self.pending:
            if pending.waits.get(peer, number + 1) <= number:
                del pending.waits[peer]
                pending.exceptions.update(dict.fromkeys(exceptions))

    def forget(self, session: int) -> None:
        """Nobody waits there any more."""
        self.pending = [pending for pending in self.pending if pending.asked.session != session]

    def forget_one(self, asked: Asked) -> None:
        """This one request has been taken back."""
        self.pending = [pending for pending in self.pending if pending.asked != asked]

    def answered(self) -> list[Pending]:
        """The requests whose wait is over, taken out."""
        over = [pending for pending in self.pending if not pending.waits]
        if over:
            self.pending = [pending for pending in self.pending if pending.waits]
        return over


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
