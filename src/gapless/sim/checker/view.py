"""A history made ready to be judged: its publications, and what each subscription was told and handed, indexed.

Built in one pass by `reader`; the modules named after the promises only read it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from gapless.model.events import Event, digest_of_attributes
from gapless.sim.checker.verdict import name_of

Identity = tuple[str, int, int]  # source, incarnation, seq
Rank = tuple[int, int]  # incarnation, seq: the order of a source


class Mark(NamedTuple):
    """A moment of the history: its place in the order of events, and in the journal of its node."""

    when: int
    node: str
    known: int  # how many events of this node, this one included
    event: Event


@dataclass(eq=False)
class Publication:
    """One publication, however often it was offered."""

    identity: Identity
    event: Event  # the first offer
    when: int  # place in the order of events
    number: int  # dense within the space, for tables
    lane: str  # P in D(s, P): what is in one order
    rank: Rank
    process: int  # the life of the process that offered it
    knows: dict[str, int] | None  # causal clock: how much of each journal had happened before
    accepted: Event | None = None
    refused: Event | None = None
    unknown: Event | None = None
    pubend: str = ""
    tick: int = 0
    handed: Event | None = None  # the first delivery to anyone

    @property
    def loose(self) -> bool:
        """Whether it was published without any order."""
        return self.event.order == "eventual"

    @cached_property
    def digest(self) -> str:
        """Of its attributes."""
        return digest_of_attributes(self.event.attributes or {})

    def __str__(self) -> str:
        return name_of(self.event)


class Handover(NamedTuple):
    """A `delivered` event; no publication when nothing of that name had been published before."""

    when: int
    event: Event
    publication: Publication | None


@dataclass(slots=True, eq=False)
class Life:
    """D(s) of one process of the subscriber, with what it kept of the process before it."""

    handed: list[Handover] = field(default_factory=list)
    places: dict[Identity, int] = field(default_factory=dict)  # where each first stands in `handed`
    kept: int = 0  # how many are of the process before

    def append(self, handover: Handover) -> None:
        event = handover.event
        self.places.setdefault((event.source, event.incarnation, event.seq), len(self.handed))
        self.handed.append(handover)

    def cut(self, kept: int) -> Life:
        """D(s) as the next process finds it."""
        life = Life(kept=kept)
        for handover in self.handed[:kept]:
            life.append(handover)
        return life


@dataclass(slots=True, eq=False)
class Excuse:
    """Why publications may be missing: an announced gap, or an exception of a confirmation."""

    mark: Mark
    told: bool  # by a gap notice, which must come before anything later
    over_budget: bool  # by then more had failed than the space promises to bear
    partition: str = ""  # what lies beyond it, until it is covered; empty for a range
    whole: bool = False  # whatever was published until it is covered, as a gap of `direct` says
    covered: Mark | None = None


@dataclass(slots=True, eq=False)
class Subscription:
    """One subscription, from its `subscribe` to its `unsubscribe`, through all its processes."""

    name: str
    asked: Event | None = None
    node: str = ""
    filter: str = ""
    topic: str = ""
    total: bool = False
    confirmed: Mark | None = None  # the first time: later ones do not move the start
    starts: dict[str, int] | None = None
    lives: list[Life] = field(default_factory=lambda: [Life()])
    acknowledged: int = 0  # how many of the current life
    excuses: list[Excuse] = field(default_factory=list)
    open: dict[str, list[Excuse]] = field(default_factory=dict)  # exceptions not yet covered
    repeats: list[tuple[Event, Event]] = field(default_factory=list)
    unmarked: list[tuple[Event, Event]] = field(default_factory=list)
    pending: Event | None = None  # a subscribe without an answer
    refused: Event | None = None
    dead: Mark | None = None  # its process died and has not come back
    ended: Mark | None = None  # unsubscribed
    since: int = 0  # `at` of the last confirmation or return

    @property
    def over(self) -> Mark | None:
        """When it ended, by itself or with its process."""
        return self.ended or self.dead

    def delivered(self, publication: Publication) -> bool:
        """Whether any of its processes was handed this."""
        return any(publication.identity in life.places for life in self.lives)


class Refusal(NamedTuple):
    """A refusal, and what the history had told by then."""

    mark: Mark
    newest: int = 0  # holder of the publisher's name
    names: int = 0  # that the process has published under in this space
    asked: Event | None = None  # the subscribe that is refused
    beside: tuple[Event, ...] = ()  # it, and those of the process that stood beside it


class Act(NamedTuple):
    """A step of happened-before: a process published or was handed a publication, or was cut back to some."""

    node: str
    publication: Publication | None  # None: the process died
    published: bool
    kept: tuple[Publication, ...] = ()


@dataclass(slots=True, eq=False)
class World:
    """What happened outside all spaces."""

    clock: str = "global"
    parents: dict[str, str] | None = None
    crashes: dict[str, list[Mark]] = field(default_factory=dict)  # by process
    first_fault: Mark | None = None
    last_fault: Mark | None = None
    over_budget: Mark | None = None
    calm: Mark | None = None
    end: Mark | None = None
    held: list[Event] = field(default_factory=list)
    disconnected: list[Mark] = field(default_factory=list)
    draining: dict[str, Mark] = field(default_factory=dict)  # when each process first said goodbye to all
    applications: dict[str, None] = field(default_factory=dict)  # processes that published or subscribed
    started: Counter[str] = field(default_factory=Counter)  # journals that processes of each name have begun
    asking: dict[str, Event] = field(default_factory=dict)  # joins and leaves without an answer

    def died_after(self, node: str, when: int) -> bool:
        """Whether the process that was `node` at this moment has died since."""
        crashes = self.crashes.get(node)
        return crashes is not None and crashes[-1].when > when


@dataclass(slots=True, eq=False)
class View:
    """One space of a history."""

    space: str
    delivery: str
    mode: str
    faults: bool
    bound: int
    limits: tuple[str, ...]
    world: World
    publications: dict[Identity, Publication] = field(default_factory=dict)
    subscriptions: list[Subscription] = field(default_factory=list)
    seqs: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # of each source and incarnation, rising
    lanes: dict[str, list[Publication]] = field(default_factory=dict)  # each in rank order
    refusals: list[Refusal] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)  # beyond which what is asked is refused
    declared: dict[str, Any] = field(default_factory=dict)  # the types of attributes
    is_declared: bool = False  # a run event tells of this very space
    names: dict[str, dict[str, None]] = field(default_factory=dict)  # that each process has published under
    contradictions: list[tuple[Publication, Event, Event]] = field(default_factory=list)
    confirmations: list[tuple[Subscription, Mark]] = field(default_factory=list)  # those with exceptions
    gaps: list[tuple[Subscription, Mark]] = field(default_factory=list)
    drops: list[Mark] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    holders: dict[str, int] = field(default_factory=dict)  # the highest incarnation of each source
    deliveries: int = 0

    def named(self, event: Event) -> list[Publication]:
        """The publications in the range that an event names, of those published so far."""
        seqs = self.seqs.get((event.source, event.incarnation), [])
        low = bisect_left(seqs, event.seq)
        high = bisect_right(seqs, max(event.seq, event.last))
        return [self.publications[event.source, event.incarnation, seq] for seq in seqs[low:high]]

    def begun_after(self, publication: Publication, mark: Mark) -> bool:
        """Whether its publish began after this moment: by time, or as far as causality tells."""
        if publication.knows is None:
            return publication.when > mark.when
        return publication.knows.get(mark.node, 0) >= mark.known

    def due_by(self) -> tuple[int, str]:
        """Until when what began must have come about, or why liveness cannot be judged."""
        world = self.world
        if world.end is None:
            return 0, "the history has no end event"
        if world.calm is None and (self.faults or world.first_fault is not None):
            return 0, "the run never became calm"
        if world.calm and world.last_fault and world.last_fault.when > world.calm.when:
            return 0, "a fault came after calm"
        if world.clock == "causal":
            return world.end.event.at + (1 << 62), ""
        deadline = world.end.event.at - self.bound
        if world.calm and deadline < world.calm.event.at:
            return 0, "the run ended before its bound had passed since calm"
        return deadline, ""


def reason_of(event: Event) -> str:
    """The reason as programs read it: what stands before the colon."""
    return event.reason.partition(":")[0]
