"""One space in a client: its leaf core, and the carrying out of what the core decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gapless.client.publisher import Publisher, error_of
from gapless.client.subscription import GapNotice, Handout, Parcel, Subscription
from gapless.delivery.catalogue import DELIVERIES
from gapless.delivery.port import (
    Accepted,
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
    Subscribed,
    Unknown,
    Wake,
)
from gapless.delivery.wire import Codec
from gapless.filters import Interest
from gapless.model.batch import Batch, Rows
from gapless.model.errors import Closed, GaplessError, Overloaded
from gapless.model.types import Source
from gapless.node.clock import now
from gapless.node.journal import Journal
from gapless.node.link import Link

QUEUED_BYTES_MAX = 4 << 20  # publications that may wait for room at the broker before publishers wait too


class LeafSpace:
    """Feeds one leaf core and does what it says."""

    def __init__(self, me: str, settings: SpaceSettings, journal: Journal | None) -> None:
        delivery = DELIVERIES[settings.delivery]
        self.me = me
        self.settings = settings
        self.core: LeafCore = delivery.leaf(me, settings)
        self.codec = Codec(delivery.messages)
        self.journal = journal
        self.dropped: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._channel = 0
        self._publishers: dict[Source, Publisher] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._numbers = 0
        self._roomy: list[asyncio.Future[None]] = []
        self._carry_out(self.core.on_start((), now()))

    # --- sessions -------------------------------------------------------------------------------------------------------

    def session_up(self, link: Link, channel: int) -> None:
        """The space is open at a broker."""
        self._link, self._channel = link, channel
        self._carry_out(self.core.on_session_up(Session(link.number, link.peer, Role.BROKER), now()))

    def session_down(self, link: Link) -> None:
        """The link to the broker has ended."""
        if self._link is link:
            self._link = None
            self._carry_out(self.core.on_session_down(link.number, now()))

    def frame(self, link: Link, data: memoryview) -> None:
        """A message has arrived. Raises WireError."""
        self._carry_out(self.core.on_message(link.number, self.codec.decode(data), now()))

    def close(self) -> None:
        """The bus is closed: nothing more will come or go."""
        closed = Closed("the connection has been closed: connect again")
        for waiter in self._roomy:
            if not waiter.done():
                waiter.set_exception(closed)
        for subscription in tuple(self._subscriptions.values()):
            subscription.fail(closed)

    async def flush(self) -> None:
        """Wait until the outcome of everything handed in is known."""
        for publisher in tuple(self._publishers.values()):
            await publisher.flush()

    # --- publishing -----------------------------------------------------------------------------------------------------

    def publisher(self, name: str) -> Publisher:
        """A publisher under this name; its incarnation is the time, so that the newest holder fences the others."""
        publisher = Publisher(self, Source(name, time.time_ns()), self._loop)
        self._publishers[publisher.source] = publisher
        return publisher

    def publish(self, batch: Batch) -> None:
        """Hand a batch to the core."""
        if self.journal is not None:
            self.journal.published(self.settings.name, batch)
        self._carry_out(self.core.on_publish(batch, now()))

    def queued(self) -> int:
        """Bytes that wait for room at the broker."""
        return self.core.queued()

    async def room(self, deadline: float | None) -> None:
        """Wait until less waits; raises Overloaded when the deadline passes first."""
        while self.core.queued() > QUEUED_BYTES_MAX:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._roomy.append(waiter)
            try:
                async with asyncio.timeout(deadline):
                    await waiter
            except TimeoutError:
                raise Overloaded(
                    f"space {self.settings.name!r} had no room within {deadline:g} s; nothing was sent, try again later"
                ) from None

    def retire(self, publisher: Publisher) -> None:
        """The publisher is closed."""
        self._publishers.pop(publisher.source, None)

    # --- subscribing ----------------------------------------------------------------------------------------------------

    def subscribe(self, interest: Interest, on_gap: Callable[[GapNotice], None] | None) -> Subscription:
        """A new subscription; it is not confirmed yet."""
        self._numbers += 1
        name = f"{self.me}/{self._numbers}"
        subscription = Subscription(self, self._numbers, name, interest, on_gap)
        self._subscriptions[self._numbers] = subscription
        if self.journal is not None:
            self.journal.subscribed(self.settings.name, name, interest)
        self._carry_out(self.core.on_subscribe(self._numbers, interest, now()))
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Nothing more of it is wanted."""
        if self._subscriptions.pop(subscription.number, None) is not None:
            if self.journal is not None:
                self.journal.unsubscribed(self.settings.name, subscription.name)
            self._carry_out(self.core.on_unsubscribe(subscription.number, now()))

    def journal_delivered(self, subscription: Subscription, batch: Batch, rows: Rows | None) -> None:
        """Write down what is handed over, if a journal is kept."""
        if self.journal is not None:
            self.journal.delivered(self.settings.name, subscription.name, batch, rows)

    def _taken(self, token: int) -> None:
        self._carry_out(self.core.on_taken(token, now()))

    # --- effects --------------------------------------------------------------------------------------------------------

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
                reason = str(effect.fields.get("reason", effect.event))
                self.dropped[reason] = self.dropped.get(reason, 0) + int(effect.fields.get("count", 1))
                if self.journal is not None:
                    self.journal.note(self.settings.name, effect)
            else:
                raise AssertionError(f"a client cannot carry out {effect}")
        if self._roomy and self.core.queued() <= QUEUED_BYTES_MAX:
            waiting, self._roomy = self._roomy, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    def _wake(self, what: str) -> None:
        self._carry_out(self.core.on_wake(what, now()))

    def _deliver(self, effect: Deliver) -> None:
        handout = Handout(effect.token, len(effect.matches), self._taken)
        for number, rows in effect.matches:
            self._subscriptions[number].put(Parcel(effect.batch, rows, handout))

    def _answer(self, effect: Answer) -> None:
        request, outcome = effect
        if isinstance(request, Published):
            assert isinstance(outcome, Accepted | Refused | Unknown)
            if self.journal is not None:
                self.journal.settled(self.settings.name, request, outcome)
            publisher = self._publishers.get(request.source)
            if publisher is not None:
                publisher.settle(request, outcome)
        elif isinstance(request, Subscribed):
            assert isinstance(outcome, Confirmed | Refused)
            self._confirm(request.subscription, outcome)

    def _confirm(self, number: int, outcome: Confirmed | Refused) -> None:
        subscription = self._subscriptions.get(number)
        if subscription is None:
            return
        error: GaplessError | None = None
        if isinstance(outcome, Refused):
            error = error_of(outcome)
            del self._subscriptions[number]
        elif self.journal is not None:
            self.journal.confirmed(self.settings.name, subscription.name, outcome)
        subscription.confirm(outcome, error)

    def _gap(self, effect: Gap) -> None:
        subscription = self._subscriptions.get(effect.subscription)
        if subscription is None:
            return
        if self.journal is not None:
            self.journal.gap(self.settings.name, subscription.name, effect)
        subscription.put_gap(GapNotice(effect.reason, effect.count))
