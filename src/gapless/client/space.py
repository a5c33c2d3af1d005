"""One space in a client: its leaf core, and the carrying out of what the core decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from gapless.client.deadline import within
from gapless.client.handout import GapNotice, Handout, Parcel
from gapless.client.publisher import Publisher, error_named
from gapless.client.start import NOW, Start
from gapless.client.subscription import Subscription
from gapless.delivery.catalogue import DELIVERIES
from gapless.delivery.port import (
    Answer,
    Confirmed,
    Deliver,
    Effects,
    Gap,
    HangUp,
    LeafCore,
    Note,
    Published,
    Refused,
    Role,
    Send,
    Session,
    SpaceSettings,
    Unknown,
    Wake,
)
from gapless.delivery.wire import Codec
from gapless.filters import Interest
from gapless.model.batch import Batch
from gapless.model.errors import Closed, GaplessError, Overloaded, Unsupported
from gapless.model.publication import Publication
from gapless.model.types import Source
from gapless.node.clock import now
from gapless.node.journal import Journal
from gapless.node.link import Link
from gapless.node.surroundings import here

AHEAD_NS = 12 * 3600 * 1_000_000_000  # how much further than a broker's clock ours is believed
QUEUED_BYTES_MAX = 4 << 20  # publications that may wait for room at the broker before publishers wait too


class LeafSpace:
    """Feeds one leaf core and does what it says."""

    def __init__(self, me: str, run: str, settings: SpaceSettings, journal: Journal | None) -> None:
        """`run` tells this process from earlier ones of its name. Raises Unsupported for a delivery unknown here."""
        delivery = DELIVERIES.get(settings.delivery)
        if delivery is None:
            raise Unsupported(
                f"space {settings.name!r} has the delivery {settings.delivery!r}, which this program does not know: "
                "install the version of Gapless that its brokers have"
            )
        self.me = me
        self.settings = settings
        self.core: LeafCore = delivery.leaf(me, settings)
        self.codec = Codec(delivery.messages)
        self.journal = journal
        self.frame_bytes_max = 0  # of the broker, told by it
        self.dropped: dict[str, int] = {}
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._channel = 0
        self._publishers: dict[Source, Publisher] = {}
        self._incarnation = 0  # the latest that was given
        self._trusted_until = 0  # no incarnation is further ahead of the brokers, whatever the clock here says
        self._unnamed: dict[str, None] = {}  # names that were made up here, for publishers that have none
        self._spare_names: list[str] = []  # those of them whose publishers are gone
        self._subscriptions: dict[int, Subscription] = {}
        self._numbers = 0
        self._roomy: dict[asyncio.Future[None], None] = {}
        self._closed = False
        if journal is not None:
            journal.space(settings)
        self._carry_out(self.core.on_start((), now()))

    # --- sessions -----------------------------------------------------------------------------------------------------

    def session_up(self, link: Link, channel: int, frame_bytes_max: int, newest: int) -> None:
        """The space is open at a broker, which knows publishers up to this incarnation."""
        self._link, self._channel, self.frame_bytes_max = link, channel, frame_bytes_max
        self._incarnation = max(self._incarnation, newest)
        self._trusted_until = newest - now().at + AHEAD_NS if newest else 0
        self._carry_out(self.core.on_session_up(Session(link.number, link.peer, Role.BROKER), now()))

    def session_down(self, link: Link) -> None:
        """The link to the broker has ended."""
        if self._link is link:
            self._link = None
            self._carry_out(self.core.on_session_down(link.number, now()))

    def frame(self, link: Link, data: memoryview) -> None:
        """A message has arrived. Raises WireError."""
        self._carry_out(self.core.on_message(link.number, self.codec.decode(data), now()))

    def leave(self) -> None:
        """The connection is about to be closed: what waits at the broker for subscriptions here is wanted no more."""
        if self._link is not None:
            for number in self._subscriptions:
                self._carry_out(self.core.on_unsubscribe(number, now()))

    def close(self, closed: GaplessError) -> None:
        """Nothing more will come or go, for this reason. Subscribers leave first: nothing is missed by who has left."""
        self._closed = True
        for subscription in tuple(self._subscriptions.values()):
            subscription.fail(closed)
            if self.journal is not None:
                self.journal.unsubscribe(self.settings.name, subscription.name, now())
        self._subscriptions.clear()
        for publisher in self._publishers.values():
            publisher.discard(closed)
        if self._link is not None:
            self.session_down(self._link)
        for publisher in tuple(self._publishers.values()):
            for request in publisher.abandon(closed):
                if self.journal is not None:
                    self.journal.answer(self.settings.name, Answer(request, Unknown("closed")), "", now())
        self._let_in()
        self.journal = None

    def disown(self, closed: Closed) -> None:
        """This is the copy of the space in a forked process: nothing here may be used."""
        self.journal = None
        self._link = None
        for publisher in self._publishers.values():
            publisher.disown(closed)
        for subscription in self._subscriptions.values():
            subscription.disown(closed)

    @property
    def publishers(self) -> tuple[Publisher, ...]:
        """Those that are open, or have something under way."""
        return tuple(self._publishers.values())

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """Those that are open."""
        return tuple(self._subscriptions.values())

    # --- publishing ---------------------------------------------------------------------------------------------------

    def publisher(self, name: str | None) -> Publisher:
        """A publisher under this name or one of its own. It fences those before it, whatever the clock here says."""
        ours = now().wall
        if self._trusted_until:
            ours = min(ours, now().at + self._trusted_until)
        self._incarnation = max(self._incarnation + 1, ours)
        publisher = Publisher(self, Source(name or self._own_name(), self._incarnation), self._loop)
        self._publishers[publisher.source] = publisher
        return publisher

    def _own_name(self) -> str:
        """A name that nobody else has. One that is free again is used again: brokers count the names of a client."""
        if self._spare_names:
            return self._spare_names.pop()
        name = f"{self.me}.{here().token(8)}"
        self._unnamed[name] = None
        return name

    def publish(self, batch: Batch) -> None:
        """Hand a batch to the core."""
        if self.journal is not None:
            self.journal.publish(self.settings.name, batch, now())
            self.journal.flush()  # what leaves must have been written, even if this process is killed
        self._carry_out(self.core.on_publish(batch, now()))

    async def room(self, publisher: Publisher, deadline: float | None) -> None:
        """Wait until less waits to be sent, or the publisher is closed. Raises Overloaded when the deadline passes."""
        if self.has_room():
            return
        async with within(deadline, lambda: self._overloaded(deadline)):
            while not self.has_room() and publisher.closed is None:
                waiter: asyncio.Future[None] = self._loop.create_future()
                self._roomy[waiter] = None
                try:
                    await waiter
                finally:
                    self._roomy.pop(waiter, None)

    def _overloaded(self, deadline: float | None) -> Overloaded:
        there = f"{self.core.queued()} bytes wait to be sent" + ("" if self._link else ", and no broker is connected")
        return Overloaded(
            f"space {self.settings.name!r} had no room within {deadline:g} s: {there}; nothing was taken, try again"
        )

    def has_room(self) -> bool:
        """Whether little enough waits to be sent."""
        return self.core.queued() <= QUEUED_BYTES_MAX

    def _let_in(self) -> None:
        """Let those look again who wait for room."""
        waiting, self._roomy = self._roomy, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def retire(self, publisher: Publisher) -> None:
        """The publisher is closed; it will be told what is under way if anything is."""
        if not publisher.under_way and self._publishers.pop(publisher.source, None) is not None:
            if publisher.source.name in self._unnamed:
                self._spare_names.append(publisher.source.name)
        self._let_in()

    # --- subscribing --------------------------------------------------------------------------------------------------

    def subscribe(self, interest: Interest, start: Start, on_gap: Callable[[GapNotice], None] | None) -> Subscription:
        """A new subscription; it is not confirmed yet. Raises Unsupported when the space cannot begin there."""
        if start != NOW:
            raise Unsupported(
                f"space {self.settings.name!r} keeps nothing of the past (its delivery is {self.settings.delivery!r}): "
                'subscribe with start="now"'
            )
        self._numbers += 1
        name = f"{self.me}/{self._run}{self._numbers}"
        subscription = Subscription(self, self._numbers, name, interest, on_gap)
        self._subscriptions[self._numbers] = subscription
        if self.journal is not None:
            self.journal.subscribe(self.settings.name, name, interest, now())
        self._carry_out(self.core.on_subscribe(self._numbers, interest, now()))
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Nothing more of it is wanted."""
        if self._subscriptions.pop(subscription.number, None) is not None:
            if self.journal is not None:
                self.journal.unsubscribe(self.settings.name, subscription.name, now())
            self._carry_out(self.core.on_unsubscribe(subscription.number, now()))

    def handed(self, subscription: Subscription, part: Batch, each: Iterator[Publication]) -> Iterator[Publication]:
        """The same publications, each written down when it is taken, if a journal is kept."""
        return each if self.journal is None else self._writing(self.journal, subscription, part, each)

    def _writing(
        self, journal: Journal, subscription: Subscription, part: Batch, each: Iterator[Publication]
    ) -> Iterator[Publication]:
        for publication, plain in zip(each, part.plain_attributes, strict=True):
            seq, body = publication.seq, publication.body
            journal.deliver_one(self.settings.name, subscription.name, part.source, seq, plain, body, now())
            yield publication

    def handed_whole(self, subscription: Subscription, part: Batch) -> None:
        """Write down that the application has all of these."""
        if self.journal is not None:
            self.journal.deliver(self.settings.name, subscription.name, part, None, now())

    def taken_over(self, subscription: Subscription, part: Batch) -> None:
        """Write down that the application has asked for more after these."""
        if self.journal is not None:
            self.journal.acknowledge(self.settings.name, subscription.name, part, None, now())
            self.journal.flush()

    def _taken(self, token: int) -> None:
        self._carry_out(self.core.on_taken(token, now()))

    # --- effects ------------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Effects) -> None:
        for effect in effects:
            if type(effect) is Send:
                if self._link is not None:
                    self._link.send(self._channel, self.codec.encode(effect.message))
            elif type(effect) is Deliver:
                self._deliver(effect)
            elif type(effect) is Answer:
                self._answer(effect)
            elif type(effect) is Gap:
                self._gap(effect)
            elif type(effect) is Wake:
                self._loop.call_later(max(effect.at - now().at, 0) / 1e9, self._wake, effect.what)
            elif type(effect) is HangUp:
                if self._link is not None:
                    self._link.end(effect.reason, "WireError")
            elif type(effect) is Note:
                self._note(effect)
            else:
                raise AssertionError(f"a client cannot carry out {effect}")
        if self._roomy and self.has_room():
            self._let_in()

    def _wake(self, what: str) -> None:
        if not self._closed:
            self._carry_out(self.core.on_wake(what, now()))

    def _deliver(self, effect: Deliver) -> None:
        handout = Handout(effect.token, len(effect.matches), self._taken)
        for number, rows in effect.matches:
            parcel = Parcel(effect.batch, rows, handout)
            subscription = self._subscriptions.get(number)
            if subscription is None:
                handout.release()
            else:
                subscription.put(parcel)

    def _answer(self, effect: Answer) -> None:
        request, outcome = effect
        if isinstance(request, Published):
            if self.journal is not None:
                self.journal.answer(self.settings.name, effect, "", now())
            publisher = self._publishers.get(request.source)
            if publisher is not None:
                assert not isinstance(outcome, Confirmed)
                publisher.settle(request, outcome)
            return
        subscription = self._subscriptions.get(request.subscription)
        if subscription is None:
            return
        if self.journal is not None:
            self.journal.answer(self.settings.name, effect, subscription.name, now())
            self.journal.flush()
        if isinstance(outcome, Confirmed):
            subscription.confirm(outcome)
        elif isinstance(outcome, Refused):
            del self._subscriptions[request.subscription]
            subscription.fail(error_named(outcome.code, outcome.text))

    def _gap(self, effect: Gap) -> None:
        subscription = self._subscriptions.get(effect.subscription)
        if subscription is None:
            return
        if self.journal is not None:
            self.journal.gap(self.settings.name, subscription.name, effect, now())
        subscription.put_gap(GapNotice(effect.reason, effect.count))

    def _note(self, effect: Note) -> None:
        reason = str(effect.fields.get("reason", effect.event))
        self.dropped[reason] = self.dropped.get(reason, 0) + int(effect.fields.get("count", 1))
        if self.journal is not None:
            self.journal.note(self.settings.name, effect, now())
