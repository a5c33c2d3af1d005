"""A broker of `direct`.

A publication comes in from a client or a neighbour, is matched once against everything that is wanted anywhere, and
goes out at most once to each neighbour and each client. Nothing is kept, nothing is sent twice: what a session that
ends had in flight is gone. A subscriber that reads too slowly for too long loses publications, is told how many, and
delays nobody; everybody else pushes back (see `flow`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import starmap
from typing import Any, cast

import numpy as np

from gapless.delivery.direct.interests import LOCAL, Asked, Interests
from gapless.delivery.direct.messages import (
    Accept,
    Confirm,
    Credit,
    Decline,
    Forward,
    Heard,
    Match,
    Missed,
    Publish,
    Reject,
    Subscribe,
    Unsubscribe,
    Want,
    Wanted,
)
from gapless.delivery.flow import Hold, Inbox, Outbox, Waiting
from gapless.delivery.gate import refusal_of
from gapless.delivery.memory import Holders
from gapless.delivery.port import (
    Dial,
    Effect,
    Effects,
    HangUp,
    Message,
    Note,
    Now,
    Refused,
    Role,
    Send,
    Session,
    SpaceSettings,
    Wake,
)
from gapless.delivery.selection import packed, size_of
from gapless.filters import FilterIndex, Interest, Matched, RouteIndex
from gapless.model.batch import Batch, Rows
from gapless.model.errors import FilterError, WireError
from gapless.model.events import Kind
from gapless.model.types import Source

MILLISECOND = 1_000_000
AHEAD_MAX = 24 * 3600 * 1000 * MILLISECOND  # of the incarnation of a publisher: clocks may differ by so much
TOGETHER_MAX = 1_000_000  # so many publishers may be opened after the same newest one
SUBSCRIPTION_BYTES = 512  # what a subscription counts besides its texts: about what a broker keeps for it
HEAD_BYTES_MAX = 1 << 20  # how much one message may say of who gets what


class Peer:
    """One session: a neighbour or a client."""

    __slots__ = ("asked_bytes", "inbox", "interests", "missed", "outbox", "session", "watched")

    def __init__(self, session: Session, window: int) -> None:
        self.session = session
        self.inbox = Inbox(window)
        self.outbox = Outbox()
        self.interests: dict[int | str, Interest] = {}  # by subscription (client) or key (neighbour)
        self.asked_bytes = 0  # of a client: the cost of its subscriptions
        self.missed: dict[int, int] | None = None  # a client too slow to read: what it missed, per subscription
        self.watched = False  # of a client: a wake is under way that looks whether it reads


class DirectBroker:
    """The core of one space at one broker."""

    def __init__(self, me: str, neighbours: Iterable[str], dials: Iterable[str], settings: SpaceSettings) -> None:
        self.me = me
        self.dials = tuple(dials)
        self.settings = settings
        self.tuning = settings.tuning
        self.peers: dict[int, Peer] = {}
        self.by_name: dict[
            tuple[Role, str], int
        ] = {}  # the newest session of each; a client may be called like a broker
        self.interests = Interests(neighbours, self.tuning.unheard_bytes, self.tuning.cover_piece)
        self.working = False  # a wake for what is left to do with interests is under way
        self.routes = RouteIndex()  # by session of a neighbour: what is wanted behind it
        self.index = FilterIndex()  # by session of a client and subscription
        self.holders = Holders(self.tuning.sources_max, settings.names_max)
        self.time = 0  # of the last publications accepted
        self.effects: list[Effect] = []
        self.handlers: dict[Role, dict[type[Message], Callable[[Peer, Any, Now], None]]] = {
            Role.CLIENT: {
                Publish: self.on_publish,
                Subscribe: self.on_subscribe,
                Unsubscribe: self.on_unsubscribe,
                Credit: self.on_credit,
            },
            Role.BROKER: {
                Forward: self.on_forward,
                Want: self.on_want,
                Heard: self.on_heard,
                Wanted: self.on_wanted,
                Credit: self.on_credit,
            },
        }

    # --- inputs -----------------------------------------------------------------------------------------------------

    def on_start(self, stored: Sequence[bytes], now: Now) -> Effects:
        """Reach for the neighbours that are ours to dial."""
        self.effects.extend(Dial(peer) for peer in self.dials)
        if self.interests.expected:
            self.effects.append(Wake(now.at + self.tuning.grace_ms * MILLISECOND, "grace"))
        return self._done(now)

    def on_session_up(self, session: Session, now: Now) -> Effects:
        """A neighbour or a client is there: tell it what it may send and, a neighbour, what is wanted."""
        if session.role is Role.BROKER and session.peer not in self.interests.neighbours:
            self._hang_up(session.id, f"broker {session.peer!r} is not a neighbour of {self.me!r} in this tree")
            return self._done(now)
        name = (session.role, session.peer)
        if name in self.by_name:
            self._part(self.by_name[name])
        self.peers[session.id] = Peer(session, self.tuning.window_bytes)
        self.by_name[name] = session.id
        self._send(session.id, Credit(self.tuning.window_bytes))
        if session.role is Role.BROKER:
            self.interests.rise(session.peer)
        return self._done(now)

    def on_session_down(self, session: int, now: Now) -> Effects:
        """Whoever is behind it is out of reach."""
        if session in self.peers:
            self._part(session)
        return self._done(now)

    def on_message(self, session: int, message: Message, now: Now) -> Effects:
        """Hand a message to its handler."""
        peer = self.peers.get(session)
        if peer is None:
            self._drop("old-session", 1)
            return self._done(now)
        role = peer.session.role
        handle = self.handlers[role].get(type(message))
        if handle is None:
            self._hang_up(session, f"a {role} does not send {type(message).__name__}")
        else:
            handle(peer, message, now)
        return self._done(now)

    def on_wake(self, what: str, now: Now) -> Effects:
        """Time is up: for neighbours that never came, for work left undone, for a client that does not read."""
        if what == "grace":
            for peer in tuple(self.interests.expected):
                self.interests.fall(peer)
        elif what == "covers":
            self.working = False
            self.interests.work()
        else:
            peer_of = self.peers.get(int(what))
            if peer_of is not None:
                peer_of.watched = False
                self._lose_patience(peer_of, now)
        return self._done(now)

    def on_stored(self, then: str, now: Now) -> Effects:
        """Never asked for: `direct` stores nothing."""
        raise AssertionError(f"direct stored nothing, and yet {then!r} is durable")

    def on_store_failed(self, then: str, reason: str, now: Now) -> Effects:
        """Never asked for: `direct` stores nothing."""
        raise AssertionError(f"direct stored nothing, and yet {then!r} failed: {reason}")

    def held(self) -> dict[str, int]:
        """Confirmations not given, publications not sent."""
        waiting = sum(len(peer.outbox.waiting) for peer in self.peers.values())
        counts = {"pending": self.interests.unanswered(), "waiting": waiting, "covers": int(self.interests.busy)}
        return {reason: count for reason, count in counts.items() if count}

    def newest(self, now: Now) -> int:
        """The highest incarnation of a publisher that came to this broker, or could have come by now."""
        return max(self.holders.highest, now.wall)

    # --- publications -----------------------------------------------------------------------------------------------

    def on_publish(self, peer: Peer, message: Publish, now: Now) -> None:
        """A client publishes: check, accept, and send on."""
        hold = self._receive(peer, message.batch)
        if hold is None:
            return
        try:
            refused = refusal_of(message.batch, self.settings)
        except WireError as error:
            self._hang_up(peer.session.id, f"malformed batch: {error}")
            return
        source, first, last = message.batch.source, message.batch.first, message.batch.last
        refused = refused or self._unholdable(peer, source, now)
        if refused is not None:
            self._send(peer.session.id, Reject(source.name, source.incarnation, first, last, *refused))
            self._pay(hold)
            return
        holder = self.holders.take(peer.session.id, source)
        batch = message.batch.since(holder.accepted)
        if batch is None or batch.rows < message.batch.rows:
            self._drop("offered-twice", message.batch.rows - (batch.rows if batch else 0))
        self._send(peer.session.id, Accept(source.name, source.incarnation, first, last))
        if batch is not None:
            holder.accepted = last
            self._route(batch.stamped(self._time(now)), peer, hold, now)
        self._pay(hold)

    def _unholdable(self, peer: Peer, source: Source, now: Now) -> Refused | None:
        """The newest holder of a publisher's name is the only one; a broker knows those that came to it.

        Incarnations are times. One far ahead of them all would make every later publisher look old, and is not taken.
        """
        if self.holders.has_newer(source):
            text = f"publisher {source.name!r} has been taken over by a newer holder of the name"
            return Refused("Fenced", f"{text}: open it again to take it over")
        if source.incarnation > max(now.wall + AHEAD_MAX, self.holders.highest + TOGETHER_MAX):
            text = f"publisher {source.name!r} has the incarnation {source.incarnation}, more than a day ahead of here"
            return Refused("Refused", f"{text}: put right the clocks of the brokers, and open it again")
        if not self.holders.admits(peer.session.id, source.name):
            return Refused("TooManyNames", self._too_many_names(peer))
        return None

    def _too_many_names(self, peer: Peer) -> str:
        return (
            f"{peer.session.peer!r} has published under {self.settings.names_max} names in space "
            f"{self.settings.name!r} since it connected, the most there may be: use fewer names, open another "
            "connection, or raise names_max"
        )

    def _time(self, now: Now) -> int:
        """The wall clock, but never going back, so that the times of a source do not."""
        self.time = max(self.time, now.wall)
        return self.time

    def on_forward(self, peer: Peer, message: Forward, now: Now) -> None:
        """A neighbour sends what somebody here or behind us wants."""
        hold = self._receive(peer, message.batch)
        if hold is None:
            return
        try:
            message.batch.validate()  # who says that it is a broker need not be one
        except WireError as error:
            self._hang_up(peer.session.id, f"malformed batch: {error}")
            return
        self._route(message.batch, peer, hold, now)
        self._pay(hold)

    def _route(self, batch: Batch, origin: Peer, hold: Hold, now: Now) -> None:
        """One message to each destination, however many subscriptions it has."""
        subsets: dict[bytes, Batch] = {}
        for session, found in cast("dict[int, Matched]", self.routes.route(batch)).items():
            if session != origin.session.id:
                part = batch if isinstance(found, slice) else _subset(batch, found, subsets)
                self._offer(self.peers[session], Forward(part), part.size, hold, now)
        clients: dict[int, list[tuple[int, Rows | None]]] = {}
        for (session, subscription), found in cast("dict[tuple[int, int], Matched]", self.index.match(batch)).items():
            rows = None if isinstance(found, slice) else found
            clients.setdefault(session, []).append((subscription, rows))
        each = max(1, HEAD_BYTES_MAX * 8 // (batch.rows + 64))
        for session, matches in clients.items():
            for start in range(0, len(matches), each):
                message = _match(batch, matches[start : start + each], subsets)
                self._offer(self.peers[session], message, message.size, hold, now)

    def _receive(self, peer: Peer, batch: Batch) -> Hold | None:
        if peer.inbox.receive(batch.size):
            return Hold(peer.session.id, peer.inbox, batch.size)
        self._hang_up(peer.session.id, "sent publications without credit for them")
        return None

    # --- flow -------------------------------------------------------------------------------------------------------

    def _offer(self, peer: Peer, message: Forward | Match, size: int, hold: Hold, now: Now) -> None:
        rows = message.batch.rows
        if peer.missed is not None:
            self._miss(peer, message, rows)
        elif peer.outbox.offer(Waiting(message, size, rows, hold, now.at)):
            self._send(peer.session.id, message)
        elif peer.session.role is Role.CLIENT and not peer.watched:
            self._watch(peer, now.at + self.tuning.patience_ms * MILLISECOND)

    def _watch(self, peer: Peer, at: int) -> None:
        peer.watched = True
        self.effects.append(Wake(at, str(peer.session.id)))

    def on_credit(self, peer: Peer, message: Credit, now: Now) -> None:
        """There is room again: own up to what was missed, and go on."""
        peer.outbox.room += message.size
        if peer.missed is not None and peer.outbox.room > 0:
            subscriptions, counts = tuple(peer.missed), tuple(peer.missed.values())
            self._send(peer.session.id, Missed("slow-subscriber", subscriptions, counts))
            peer.missed = None
        while (item := peer.outbox.next()) is not None:
            self._send(peer.session.id, item.message)
            self._pay(item.hold)

    def _lose_patience(self, peer: Peer, now: Now) -> None:
        if not peer.outbox.waiting:
            return
        until = peer.outbox.waiting[0].since + self.tuning.patience_ms * MILLISECOND
        if now.at < until:
            self._watch(peer, until)
            return
        peer.missed = {}
        for item in peer.outbox.clear():
            self._miss(peer, item.message, item.rows)
            self._pay(item.hold)

    def _miss(self, peer: Peer, message: Message, rows: int) -> None:
        assert isinstance(message, Match)
        assert peer.missed is not None
        for subscription, some in zip(message.subscriptions, message.rows, strict=True):
            peer.missed[subscription] = peer.missed.get(subscription, 0) + size_of(some, rows)
        self._drop("slow-subscriber", rows)

    def _pay(self, hold: Hold | None) -> None:
        """One place less for a message; when it is nowhere any more its sender may send as much again."""
        if hold is not None and hold.release() and hold.session in self.peers:
            size = hold.inbox.grant()
            if size:
                self._send(hold.session, Credit(size))

    # --- interests --------------------------------------------------------------------------------------------------

    def on_subscribe(self, peer: Peer, message: Subscribe, now: Now) -> None:
        """A client wants something: tell the neighbours, and confirm when they know.

        It is matched only from its confirmation on. A neighbour may still send what another subscription of the same
        interest asked for, stop when that one ends, and begin again: delivering that is a start with a gap behind.
        """
        number = message.subscription
        cost = SUBSCRIPTION_BYTES + len(message.filter) + len(message.topic)
        if peer.asked_bytes + cost > self.settings.interest_bytes_max:
            self._send(peer.session.id, Decline(number, "TooLarge", self._too_much_asked(peer)))
            return
        try:
            interest = Interest.parse(message.filter, message.topic)
        except FilterError as error:
            self._send(peer.session.id, Decline(number, "FilterError", str(error)))
            return
        if number < 0 or number in peer.interests:
            self._hang_up(peer.session.id, f"subscribed under the number {number}, which is taken or not one")
            return
        peer.interests[number] = interest
        peer.asked_bytes += SUBSCRIPTION_BYTES + interest.size
        self.interests.hold(interest, LOCAL)
        self.interests.change((interest.key,))
        self.interests.ask(Asked(peer.session.id, number), LOCAL)

    def _too_much_asked(self, peer: Peer) -> str:
        return (
            f"the subscriptions of {peer.session.peer!r} in space {self.settings.name!r} would count more than "
            f"{self.settings.interest_bytes_max} bytes, each {SUBSCRIPTION_BYTES} and its filter and topic: want less, "
            "use another connection, or raise interest_bytes_max"
        )

    def on_unsubscribe(self, peer: Peer, message: Unsubscribe, now: Now) -> None:
        """A client wants something no more."""
        interest = peer.interests.pop(message.subscription, None)
        if interest is None:
            return
        peer.asked_bytes -= SUBSCRIPTION_BYTES + interest.size
        self.interests.forget_one(Asked(peer.session.id, message.subscription))
        self.index.remove_owner((peer.session.id, message.subscription))
        self.interests.drop(interest.key, LOCAL)
        self.interests.change((interest.key,))

    def on_want(self, peer: Peer, message: Want, now: Now) -> None:
        """A neighbour tells what is wanted behind it: pass it on, and confirm when everybody knows."""
        name, owner = peer.session.peer, peer.session.id
        touched: list[str] = []
        try:
            removed = {interest.key: interest for interest in starmap(Interest.parse, message.remove)}
            added = {interest.key: interest for interest in starmap(Interest.parse, message.add)}
        except FilterError as error:
            self._hang_up(peer.session.id, f"wants what cannot be read: {error}")
            return
        if any(key not in peer.interests for key in removed):
            self._hang_up(peer.session.id, "takes back what it does not want")
            return
        for interest in removed.values():
            del peer.interests[interest.key]
            self.routes.remove(interest, owner)
            self.interests.drop(interest.key, name)
            touched.append(interest.key)
        for interest in added.values():
            peer.interests[interest.key] = interest
            self.routes.add(interest, owner)
            self.interests.hold(interest, name)
            touched.append(interest.key)
        self.interests.change(touched)
        self._send(peer.session.id, Heard())
        if not message.more:
            self.interests.ask(Asked(peer.session.id, message.number), name)

    def on_heard(self, peer: Peer, message: Heard, now: Now) -> None:
        """A neighbour has room for more of what is wanted here."""
        if not self.interests.heard(peer.session.peer):
            self._hang_up(peer.session.id, "has heard what it was not told")

    def on_wanted(self, peer: Peer, message: Wanted, now: Now) -> None:
        """Everybody in reach behind a neighbour knows.

        The word came behind all publications that brokers routed before they knew: what still comes is without gaps.
        """
        if not self.interests.confirmed(peer.session.peer, message.number, message.exceptions):
            self._hang_up(peer.session.id, f"answered for {message.number}, which was not what it was told last")

    # --- sessions ---------------------------------------------------------------------------------------------------

    def _part(self, session: int) -> None:
        """Forget a session and everything that stood on it."""
        peer = self.peers.pop(session)
        del self.by_name[peer.session.role, peer.session.peer]
        lost = 0
        for item in peer.outbox.clear():
            lost += item.rows
            self._pay(item.hold)
        broker = peer.session.role is Role.BROKER
        if lost:
            self._drop("session-ended" if broker or peer.interests else "unsubscribed", lost)
        holder = peer.session.peer if broker else LOCAL
        self.routes.remove_owner(session)
        for number, interest in peer.interests.items():
            if not broker:
                self.index.remove_owner((session, number))
            self.interests.drop(interest.key, holder)
        self.interests.forget(session)
        self.holders.leave(session)
        if broker:
            self.interests.fall(peer.session.peer)
        self.interests.change([interest.key for interest in peer.interests.values()])

    def _hang_up(self, session: int, reason: str) -> None:
        if session in self.peers:
            self._part(session)
        self.effects.append(HangUp(session, reason))

    # --- effects ----------------------------------------------------------------------------------------------------

    def _send(self, session: int, message: Message) -> None:
        self.effects.append(Send(session, message))

    def _drop(self, reason: str, count: int) -> None:
        self.effects.append(Note(Kind.DROPPED, {"reason": reason, "count": count}))

    def _done(self, now: Now) -> Effects:
        if self.interests.busy and not self.working:
            self.working = True
            self.effects.append(Wake(now.at, "covers"))
        for name, want in self.interests.wants():
            self._send(self.by_name[Role.BROKER, name], want)
        for pending in self.interests.answered():
            session, number = pending.asked
            exceptions = tuple(pending.exceptions)
            peer = self.peers[session]
            if peer.session.role is Role.CLIENT:
                self.index.add(peer.interests[number], (session, number))
                self._send(session, Confirm(number, exceptions))
            elif peer.outbox.follow(word := Wanted(number, exceptions)):
                self._send(session, word)
        effects, self.effects = self.effects, []
        return effects


def _subset(batch: Batch, rows: Rows, subsets: dict[bytes, Batch]) -> Batch:
    """These rows, encoded once however many receive them."""
    if len(rows) == batch.rows:
        return batch
    key = rows.tobytes()
    part = subsets.get(key)
    if part is None:
        part = subsets[key] = batch.take(rows)
    return part


def _match(batch: Batch, matches: list[tuple[int, Rows | None]], subsets: dict[bytes, Batch]) -> Match:
    """One message for several subscriptions of a client: the rows any of them wants, and which are whose."""
    subscriptions = tuple(subscription for subscription, _ in matches)
    chosen = [rows for _, rows in matches]
    first = chosen[0]
    if len(chosen) == 1:
        return Match(batch if first is None else _subset(batch, first, subsets), subscriptions, (b"",))
    some = [rows for rows in chosen if rows is not None]
    if len(some) < len(chosen):
        return Match(batch, subscriptions, tuple([packed(rows, batch.rows) for rows in chosen]))
    union = np.unique(np.concatenate(some))
    part = _subset(batch, union, subsets)
    return Match(part, subscriptions, tuple([packed(np.searchsorted(union, rows), part.rows) for rows in some]))
