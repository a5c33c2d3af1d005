"""Broker processes and client processes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gapless.delivery.catalogue import DELIVERIES
from gapless.delivery.port import Answer, Core, Deliver, Dial, Gap, LeafCore, Published, Role, SpaceSettings
from gapless.filters import Interest
from gapless.model.batch import Batch, Rows
from gapless.sim.applications import Handout, Publisher, Subscriber
from gapless.sim.describe import range_of
from gapless.sim.host import Host
from gapless.sim.network import End, Network
from gapless.sim.world import MILLISECOND, World


class BrokerHost(Host):
    """A broker: one core per space, and sessions with its neighbours and clients."""

    role = Role.BROKER

    def __init__(
        self,
        name: str,
        world: World,
        network: Network,
        parties: dict[str, Host],
        spaces: Iterable[SpaceSettings],
        neighbours: tuple[str, ...],
        dials: tuple[str, ...],
    ) -> None:
        super().__init__(name, world, network, parties)
        self.spaces = tuple(spaces)
        self.neighbours = neighbours
        self.dials = dials
        self.wanted: dict[str, None] = {}  # peers that a core wants to have a session with

    def make_cores(self) -> Iterable[tuple[str, Core]]:
        """One for each space."""
        self.wanted.clear()
        for space in self.spaces:
            yield space.name, DELIVERIES[space.delivery].broker(self.name, self.neighbours, self.dials, space)

    def keep_dialling(self, space: str, effect: Dial) -> None:
        """Keep trying, now and whenever the session is lost."""
        if effect.peer not in self.wanted:
            self.wanted[effect.peer] = None
            self.dial(effect.peer)

    def parted(self, end: End) -> None:
        """Try to have it again."""
        self.refused(end.peer)

    def refused(self, peer: str) -> None:
        """Try again soon."""
        if peer in self.wanted:
            self.later(self.soon(), self.dial, peer)


@dataclass
class Offers:
    """Who holds a publisher's name, in a world where processes come and go."""

    incarnations: dict[tuple[str, str], int] = field(default_factory=dict)

    def next_incarnation(self, space: str, name: str) -> int:
        """A newer holder takes the name over."""
        incarnation = self.incarnations.get((space, name), 0) + 1
        self.incarnations[space, name] = incarnation
        return incarnation


class ClientHost(Host):
    """A process with Gapless' library and an application in it."""

    role = Role.CLIENT

    def __init__(
        self, name: str, world: World, network: Network, parties: dict[str, Host], servers: tuple[str, ...]
    ) -> None:
        super().__init__(name, world, network, parties)
        self.servers = servers
        self.place = 0  # in the list of servers
        self.spaces: dict[str, SpaceSettings] = {}
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self.intakes: dict[tuple[str, int], Subscriber] = {}
        self.numbers = 0  # given to subscriptions of this process
        self.reading = True
        self.closing = False

    def make_cores(self) -> Iterable[tuple[str, Core]]:
        """One for each space that the application uses."""
        for space in self.spaces.values():
            yield space.name, DELIVERIES[space.delivery].leaf(self.name, space)

    def leaf(self, space: str) -> LeafCore:
        """The core of a space."""
        core: LeafCore = self.cores[space]  # type: ignore[assignment]  # the catalogue makes leaves for clients
        return core

    def start(self) -> None:
        """The process begins, and the application with it."""
        self.intakes.clear()
        self.numbers = 0
        self.reading = True
        super().start()
        self.connect()
        for subscriber in self.subscribers:
            subscriber.begin()
        for publisher in self.publishers:
            publisher.begin()

    # --- sessions

    def connect(self) -> None:
        """Reach for the current server."""
        if not self.closing:
            self.dial(self.servers[self.place])

    def parted(self, end: End) -> None:
        """Reconnect, unless it was a session that has been left behind."""
        if self.servers[self.place] not in self.newest:
            self.later(self.soon(), self.connect)

    def refused(self, peer: str) -> None:
        """Try the next server of the list."""
        if peer == self.servers[self.place]:
            self.place = (self.place + 1) % len(self.servers)
            self.later(self.soon(), self.connect)

    def move(self, overlap_ms: int) -> None:
        """Go over to the next server of the list; with an overlap the old session is closed only so much later."""
        self.place = (self.place + 1) % len(self.servers)
        for attempt in self.attempts.values():
            attempt.out.end()
        self.attempts.clear()
        for end in list(self.ends.values()):
            if overlap_ms and end.peer != self.servers[self.place]:
                self.later(overlap_ms * MILLISECOND, self._leave, end)
            else:
                self._leave(end)
        self.connect()

    def _leave(self, end: End) -> None:
        if end.open and self.alive:
            self.journal.disconnected(end.peer, "closed", self.stamp())
            self.drop(end)

    def close(self) -> None:
        """The application ends: it wants nothing more, waits for what is under way, and says goodbye."""
        self.closing = True
        for subscriber in self.subscribers:
            subscriber.stop()
        for publisher in self.publishers:
            publisher.stop()
        self._drain()

    def _drain(self) -> None:
        if any(core.held() for core in self.cores.values()) and self.newest:
            self.later(20 * MILLISECOND, self._drain)
            return
        for end in list(self.ends.values()):
            self._leave(end)

    # --- requests of the application

    def publish(self, space: str, batch: Batch) -> None:
        """Hand publications to the library."""
        self.journal.publish(space, batch, self.stamp())
        self.world.mark(self.name, f"publish {space}", *batch.buffers())
        if self.world.tell is not None:
            self.world.tell(self.world.now, self.name, f"publish {range_of(batch)}")
        self.carry(space, self.leaf(space).on_publish(batch, self.now()))

    def subscribe(self, subscriber: Subscriber, interest: Interest) -> int:
        """Ask for a subscription; its number."""
        self.numbers += 1
        space, number = subscriber.plan.space, self.numbers
        self.intakes[space, number] = subscriber
        self.journal.subscribe(space, subscriber.name, interest, self.stamp())
        self.world.mark(self.name, f"subscribe {space} {number}")
        if self.world.tell is not None:
            self.world.tell(self.world.now, self.name, f"subscribe {subscriber.name}")
        self.carry(space, self.leaf(space).on_subscribe(number, interest, self.now()))
        return number

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Want no more of it."""
        space = subscriber.plan.space
        self.journal.unsubscribe(space, subscriber.name, self.stamp())
        self.world.mark(self.name, f"unsubscribe {space} {subscriber.number}")
        self.carry(space, self.leaf(space).on_unsubscribe(subscriber.number, self.now()))

    def hand_over(self, subscriber: Subscriber, batch: Batch, rows: Rows | None) -> None:
        """The application gets publications."""
        self.journal.deliver(subscriber.plan.space, subscriber.name, batch, rows, self.stamp())
        if self.world.tell is not None:
            self.world.tell(self.world.now, self.name, f"deliver {subscriber.name} {range_of(batch, rows)}")

    def gap(self, subscriber: Subscriber, gap: Gap) -> None:
        """The application is told that something is missing."""
        self.journal.gap(subscriber.plan.space, subscriber.name, gap, self.stamp())
        self.world.count(f"situation:gap-{gap.reason}")
        if self.world.tell is not None:
            self.world.tell(self.world.now, self.name, f"gap {subscriber.name} {gap.reason}")

    def taken(self, space: str, token: int) -> None:
        """The application has taken a delivery over."""
        self.world.mark(self.name, f"taken {space} {token}")
        self.carry(space, self.leaf(space).on_taken(token, self.now()))

    # --- effects for the application

    def deliver(self, space: str, effect: Deliver) -> None:
        """Give each subscription its rows."""
        handout = Handout(space, effect.token, len(effect.matches))
        for number, rows in effect.matches:
            self.intakes[space, number].put(effect.batch, rows, handout)

    def answer(self, space: str, effect: Answer) -> None:
        """Write it down and tell whoever asked."""
        request, outcome = effect
        now = self.stamp()
        word = type(outcome).__name__.lower()
        if isinstance(request, Published):
            self.journal.answer(space, effect, "", now)
            about = f"{request.source}:{request.first}-{request.last}"
            for publisher in self.publishers:
                publisher.answered(request, outcome)
        else:
            about = self.intakes[space, request.subscription].name
            self.journal.answer(space, effect, about, now)
            if getattr(outcome, "exceptions", ()):
                about += f" without {', '.join(outcome.exceptions)}"  # type: ignore[union-attr]  # seen just above
                self.world.count("situation:confirmed-with-exceptions")
        self.world.count(f"situation:{word}")
        if self.world.tell is not None:
            self.world.tell(now.at, self.name, f"{word} {about}")

    def tell_gap(self, space: str, effect: Gap) -> None:
        """Put the notice where it belongs in what the subscription is handed."""
        self.intakes[space, effect.subscription].put_gap(effect)
