"""What there is at one moment of a small world. All of it is plain and immutable, so that equal moments are equal."""

from __future__ import annotations

from typing import NamedTuple

KNOCK, OPEN, END = -1, -2, -3  # what a line carries beside messages, which have numbers from 0
DEAD = -1  # the core of a process that is not there
ASKED, OVER = 0, -1  # sessions that are not open yet, or not any more


class Subscribed(NamedTuple):
    """A subscription of an application."""

    number: int
    name: str
    step: str  # what asked for it
    confirmed: bool = False


class Offered(NamedTuple):
    """A batch that an application has handed in."""

    source: str
    first: int
    batch: bytes
    unknown: bool = False  # what has become of it


class Host(NamedTuple):
    """A process, and what outlives it."""

    core: int = DEAD
    life: int = 0
    sessions: int = 0  # numbers given so far
    wanted: tuple[str, ...] = ()  # peers to have a session with
    timers: tuple[tuple[int, str], ...] = ()
    doubt: tuple[tuple[bytes, str], ...] = ()  # stores under way; of the dead: which nobody has looked at
    disk: tuple[bytes, ...] = ()
    # of a client
    place: int = 0  # in the list of servers
    step: int = 0  # of its steps, the next
    seqs: tuple[tuple[str, int], ...] = ()  # the next of each source
    offered: tuple[Offered, ...] = ()  # publications without a good end
    subscriptions: tuple[Subscribed, ...] = ()
    numbers: int = 0
    leaving: tuple[int, ...] = ()  # sessions that it has moved away from and not closed

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self.core != DEAD


class Side(NamedTuple):
    """One side of a wire."""

    host: str
    session: int = ASKED
    newest: bool = False  # no newer session with the same peer has been opened here
    coming: tuple[int, ...] = ()  # what is under way to it
    ended: bool = False  # it sends nothing more
    torn: bool = False  # of what is under way to it, the rest may be lost

    @property
    def open(self) -> bool:
        """Whether there is a session here."""
        return self.session > 0


class Wire(NamedTuple):
    """Two sides; the first has called the second."""

    sides: tuple[Side, Side]


class State(NamedTuple):
    """All of it."""

    hosts: tuple[Host, ...]  # in the order of the names
    wires: tuple[Wire, ...]
    clock: int = 0
    wakes: int = 0  # timers that have gone off
    fault: int = -1  # which of the faults that may happen has; -1: none
    down: bool = False  # the link that has failed is down still
    happened: tuple[int, ...] = ()  # see `history`
