"""A leaf of `direct`: the core in a client's library.

It sends publications once. What was under way when the session ended has an unknown outcome and is not sent again,
because a second copy could arrive as well. It lets through to each subscription only what is newer than what it had of
the same source, so that a move from broker to broker neither repeats nor reorders anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gapless.delivery.direct.messages import (
    Accept,
    Confirm,
    Credit,
    Decline,
    Match,
    Missed,
    Publish,
    Reject,
    Subscribe,
    Unsubscribe,
)
from gapless.delivery.flow import Inbox, Outbox, Waiting
from gapless.delivery.memory import Watermarks
from gapless.delivery.port import (
    Accepted,
    Answer,
    Confirmed,
    Deliver,
    Effect,
    Effects,
    Gap,
    HangUp,
    Message,
    Note,
    Now,
    Published,
    Refused,
    Send,
    Session,
    SpaceSettings,
    Subscribed,
    Unknown,
)
from gapless.delivery.selection import unpacked
from gapless.filters import Interest
from gapless.model.batch import Batch, Rows
from gapless.model.errors import WireError
from gapless.model.events import Kind
from gapless.model.types import Source


class Subscription:
    """One subscription of the application."""

    __slots__ = ("confirmed", "interest", "seen")

    def __init__(self, interest: Interest, sources_max: int) -> None:
        self.interest = interest
        self.confirmed = False
        self.seen = Watermarks(sources_max)


class DirectLeaf:
    """The core of one space in one client."""

    def __init__(self, me: str, settings: SpaceSettings) -> None:
        self.me = me
        self.tuning = settings.tuning
        self.session = 0  # none
        self.inbox = Inbox(self.tuning.window_bytes)
        self.outbox = Outbox()
        self.sent: dict[Source, deque[tuple[int, int]]] = {}  # under way: first and last of each batch
        self.unsure = Watermarks(self.tuning.sources_max)  # up to where publications may have got through, unanswered
        self.subscriptions: dict[int, Subscription] = {}
        self.tokens = 0
        self.untaken: dict[int, tuple[Inbox, int]] = {}  # handed over, and not yet taken by the application
        self.effects: list[Effect] = []
        self.handlers: dict[type[Message], Callable[[Any, Now], None]] = {
            Credit: self.on_credit,
            Accept: self.on_accept,
            Reject: self.on_reject,
            Confirm: self.on_confirm,
            Decline: self.on_decline,
            Match: self.on_match,
            Missed: self.on_missed,
        }

    # --- inputs from the host ---------------------------------------------------------------------------------------

    def on_start(self, stored: Sequence[bytes], now: Now) -> Effects:
        """Nothing to do before there is a session."""
        return self._done()

    def on_session_up(self, session: Session, now: Now) -> Effects:
        """A broker is there: ask again for everything that is subscribed."""
        if self.session:
            self._part()
        self.session = session.id
        self.inbox = Inbox(self.tuning.window_bytes)
        self._send(Credit(self.tuning.window_bytes))
        for number, subscription in self.subscriptions.items():
            self._send(Subscribe(number, *subscription.interest.texts))
        return self._done()

    def on_session_down(self, session: int, now: Now) -> Effects:
        """The broker is gone; what was under way may or may not have arrived."""
        if session == self.session:
            self._part()
        return self._done()

    def on_message(self, session: int, message: Message, now: Now) -> Effects:
        """Hand a message to its handler."""
        handle = self.handlers.get(type(message))
        if session != self.session:
            self._drop("old-session", 1)
        elif handle is None:
            self._hang_up(f"a broker does not send {type(message).__name__} to a client")
        else:
            handle(message, now)
        return self._done()

    def on_wake(self, what: str, now: Now) -> Effects:
        """Never asked for."""
        raise AssertionError(f"a leaf of direct asked for no wake, and yet {what!r} is due")

    def on_stored(self, then: str, now: Now) -> Effects:
        """Never asked for: `direct` stores nothing."""
        raise AssertionError(f"direct stored nothing, and yet {then!r} is durable")

    def on_store_failed(self, then: str, reason: str, now: Now) -> Effects:
        """Never asked for: `direct` stores nothing."""
        raise AssertionError(f"direct stored nothing, and yet {then!r} failed: {reason}")

    def held(self) -> dict[str, int]:
        """Publications without an answer, deliveries not taken."""
        counts = {
            "unanswered": sum(map(len, self.sent.values())),
            "waiting": len(self.outbox.waiting),
            "untaken": len(self.untaken),
        }
        return {reason: count for reason, count in counts.items() if count}

    def newest(self, now: Now) -> int:
        """Brokers know; a leaf does not."""
        return 0

    def queued(self) -> int:
        """Bytes of publications that wait to be sent."""
        return self.outbox.size

    # --- publishing -------------------------------------------------------------------------------------------------

    def on_publish(self, batch: Batch, now: Now) -> Effects:
        """Send it when the broker has room for it."""
        message = Publish(batch)
        if self.outbox.offer(Waiting(message, batch.size, batch.rows, None, now.at)):
            self._publish(message)
        return self._done()

    def _publish(self, message: Publish) -> None:
        batch = message.batch
        self.sent.setdefault(batch.source, deque()).append((batch.first, batch.last))
        self._send(message)

    def on_credit(self, message: Credit, now: Now) -> None:
        """The broker has room: send what waits."""
        self.outbox.room += message.size
        while (item := self.outbox.next()) is not None:
            assert isinstance(item.message, Publish)
            self._publish(item.message)

    def on_accept(self, message: Accept, now: Now) -> None:
        """The broker has it."""
        self._settle(message, Accepted())

    def on_reject(self, message: Reject, now: Now) -> None:
        """The broker will not have it; whoever has it of an earlier attempt may."""
        source = Source(message.source, message.incarnation)
        if message.first <= self.unsure.of(source) or self.unsure.may_have_forgotten(source):
            self._settle(message, Unknown(f"refused when it was offered again ({message.text})"))
        else:
            self._settle(message, Refused(message.code, message.text))

    def _settle(self, message: Accept | Reject, outcome: Accepted | Refused | Unknown) -> None:
        source = Source(message.source, message.incarnation)
        under_way = self.sent.get(source)
        if under_way is None or under_way[0] != (message.first, message.last):
            self._hang_up(f"answered for {source}, {message.first} to {message.last}, which was not the next to answer")
            return
        under_way.popleft()
        if not under_way:
            del self.sent[source]
        self.effects.append(Answer(Published(source, message.first, message.last), outcome))

    # --- subscribing ------------------------------------------------------------------------------------------------

    def on_subscribe(self, subscription: int, interest: Interest, now: Now) -> Effects:
        """Ask the broker, now or when there is one."""
        self.subscriptions[subscription] = Subscription(interest, self.tuning.sources_max)
        if self.session:
            self._send(Subscribe(subscription, *interest.texts))
        return self._done()

    def on_unsubscribe(self, subscription: int, now: Now) -> Effects:
        """Deliver nothing more of it, and tell the broker."""
        if self.subscriptions.pop(subscription, None) is not None and self.session:
            self._send(Unsubscribe(subscription))
        return self._done()

    def on_confirm(self, message: Confirm, now: Now) -> None:
        """Everybody in reach knows of the subscription."""
        subscription = self.subscriptions.get(message.subscription)
        if subscription is not None:
            subscription.confirmed = True
            self.effects.append(Answer(Subscribed(message.subscription), Confirmed(message.exceptions)))

    def on_decline(self, message: Decline, now: Now) -> None:
        """The broker will not have the subscription."""
        if self.subscriptions.pop(message.subscription, None) is not None:
            self.effects.append(Answer(Subscribed(message.subscription), Refused(message.code, message.text)))

    def on_match(self, message: Match, now: Now) -> None:
        """Publications: to each subscription what is new to it."""
        batch, size = message.batch, message.size
        if not self.inbox.receive(size):
            self._hang_up("sent publications without credit for them")
            return
        try:
            chosen = [unpacked(rows, batch.rows) for rows in message.rows]
        except WireError as error:
            self._hang_up(str(error))
            return
        matches: list[tuple[int, Rows | None]] = []
        for number, rows in zip(message.subscriptions, chosen, strict=True):
            fresh = self._fresh(number, batch, rows)
            if fresh is None or len(fresh):
                matches.append((number, fresh))
        if not matches:
            self._passed(self.inbox, size)
            return
        self.tokens += 1
        self.untaken[self.tokens] = (self.inbox, size)
        self.effects.append(Deliver(self.tokens, batch, tuple(matches)))

    def _fresh(self, number: int, batch: Batch, rows: Rows | None) -> Rows | None:
        """Of these rows those that are above all the subscription has had of this source."""
        count = batch.rows if rows is None else len(rows)
        subscription = self.subscriptions.get(number)
        if subscription is None:
            self._drop("unsubscribed", count)
            return np.empty(0, np.intp)
        if subscription.seen.may_have_forgotten(batch.source):
            self._drop("forgotten", count)
            self.effects.append(Gap(number, "forgotten", count))
            return np.empty(0, np.intp)
        seen = subscription.seen.of(batch.source)
        last = batch.last if rows is None else int(batch.seqs[rows[-1]])
        if batch.first <= seen:
            rows = np.arange(batch.rows) if rows is None else rows
            rows = rows[batch.seqs[rows] > seen]
            if len(rows) < count:
                self._drop("stale", count - len(rows))
        if last > seen:
            subscription.seen.raise_to(batch.source, last)
        return rows

    def on_missed(self, message: Missed, now: Now) -> None:
        """The broker dropped publications because this client did not read."""
        for number, count in zip(message.subscriptions, message.counts, strict=True):
            if number in self.subscriptions:
                self.effects.append(Gap(number, message.reason, count))

    def on_taken(self, token: int, now: Now) -> Effects:
        """The application has taken a delivery over: the broker may send as much again."""
        inbox, size = self.untaken.pop(token)
        self._passed(inbox, size)
        return self._done()

    def _passed(self, inbox: Inbox, size: int) -> None:
        inbox.passed(size)
        if inbox is self.inbox and self.session:
            grant = inbox.grant()
            if grant:
                self._send(Credit(grant))

    # --- sessions ---------------------------------------------------------------------------------------------------

    def _part(self) -> None:
        """The session is over: nobody answers for what was under way, and publications may be missed from now on."""
        self.session = 0
        self.outbox.room = 0
        for source, under_way in self.sent.items():
            self.unsure.raise_to(source, max(last for _, last in under_way))  # what is offered again comes out of turn
            for first, last in under_way:
                outcome = Unknown("the session with the broker ended before it answered")
                self.effects.append(Answer(Published(source, first, last), outcome))
        self.sent.clear()
        for number, subscription in self.subscriptions.items():
            if subscription.confirmed:
                subscription.confirmed = False
                self.effects.append(Gap(number, "disconnected", -1))

    def _hang_up(self, reason: str) -> None:
        self.effects.append(HangUp(self.session, reason))
        self._part()

    def _send(self, message: Message) -> None:
        self.effects.append(Send(self.session, message))

    def _drop(self, reason: str, count: int) -> None:
        self.effects.append(Note(Kind.DROPPED, {"reason": reason, "count": count}))

    def _done(self) -> Effects:
        effects, self.effects = self.effects, []
        return effects
