"""Hazards: the situations that a delivery must be proof against, named, and seen while they occur."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from gapless.delivery.port import Answer, Core, Effects, Message, Note, Role, Send, Unknown
from gapless.filters import Interest
from gapless.filters.covering import covers
from gapless.model.events import Kind
from gapless.sim.host import Host, Watcher
from gapless.sim.network import End

DIRECT_HAZARDS: dict[str, str] = {
    "old-tail": "the tail of an old session is read after a newer one with the same peer has opened",
    "end-of-old": "the end of an old session is noticed after a newer one with the same peer has opened",
    "overtaken": "a publication arrives after a newer one of its source, which took another way",
    "repeated": "a publication arrives that the subscription has had, by another way",
    "late-link": "a link comes up when there are subscriptions already",
    "awaited-neighbour": "a confirmation waits for a neighbour that has not come up yet",
    "awaited-word": "a confirmation waits for the word of a neighbour",
    "untold": "somebody asks for what a neighbour cannot be told yet, as it has not heard what it was told before",
    "out-of-reach": "a confirmation is given while brokers are out of reach",
    "in-reach-again": "a confirmation is asked of a neighbour that could not reach everybody the last time",
    "slow-subscriber": "a broker loses patience with a subscriber that does not read",
    "patient": "a broker looks whether to lose patience with a subscriber that has begun to read again",
    "both-full": "two neighbours have publications for each other and no room",
    "queue": "room returns for some of those that wait, and others go on waiting",
    "gone-with-credit": "somebody goes for whom publications wait",
    "unsubscribed-in-flight": "publications arrive for a subscription that has ended",
    "shared-interest": "a subscription ends while others have the same interest",
    "covered": "a subscription comes that wider ones cover, and neighbours need not be told",
    "uncovered": "a wide interest goes that covered narrow ones",
    "unknown": "a session ends while publications are under way",
    "fenced": "an older holder of a publisher's name publishes after a newer one",
    "offered-twice": "publications are offered again that a broker has accepted",
    "cut-out": "publications arrive that were cut out of a batch of more",
    "several-at-once": "one message carries different rows for several subscriptions",
}

HAZARDS: dict[str, dict[str, str]] = {"direct": DIRECT_HAZARDS}
DROPS: dict[str, tuple[str, ...]] = {
    "direct": ("offered-twice", "old-session", "session-ended", "slow-subscriber", "stale", "unsubscribed"),
}


class DirectWatcher:
    """Sees the hazards of `direct` at one host."""

    def __init__(self, host: Host) -> None:
        self.world = host.world
        self.messages: dict[str, Callable[[Host, Any, End, Any, Effects], None]] = {
            "Match": self.on_match,
            "Credit": self.on_credit,
            "Want": self.on_want,
            "Subscribe": self.on_subscribe,
            "Unsubscribe": self.on_unsubscribe,
            "Forward": self.on_forward,
            "Reject": self.on_reject,
            "Wanted": self.on_confirmation,
            "Confirm": self.on_confirmation,
        }

    def see(self, hazard: str) -> None:
        """It has occurred."""
        self.world.counts[f"hazard:{hazard}"] += 1

    def on_message(self, host: Host, core: Core, end: End, message: Message, effects: Effects) -> None:
        """A core has been given a message."""
        if end.superseded:
            self.see("old-tail")
        look = self.messages.get(type(message).__name__)
        if look is not None:
            look(host, core, end, message, effects)
        elif effects and _dropped(effects, "offered-twice"):
            self.see("offered-twice")

    def on_session(self, host: Host, core: Core, end: End, up: bool, effects: Effects) -> None:
        """A core has been told of a session."""
        if not up and end.superseded:
            self.see("end-of-old")
        if _dropped(effects, "session-ended") or _dropped(effects, "unsubscribed"):
            self.see("gone-with-credit")
        if any(isinstance(effect, Answer) and isinstance(effect.outcome, Unknown) for effect in effects):
            self.see("unknown")

    def on_wake(self, core: Core, what: str, effects: Effects) -> None:
        """A core has been woken."""
        if _dropped(effects, "slow-subscriber"):
            self.see("slow-subscriber")
        elif what != "grace":
            self.see("patient")

    def on_match(self, host: Host, core: Any, end: End, message: Any, effects: Effects) -> None:
        """Publications arrive at a client."""
        batch = message.batch
        if batch.last - batch.first >= batch.rows:
            self.see("cut-out")
        if len(message.subscriptions) > 1 and any(message.rows):
            self.see("several-at-once")
        if _dropped(effects, "unsubscribed"):
            self.see("unsubscribed-in-flight")
        if _dropped(effects, "stale"):
            source, seqs = message.batch.source, message.batch.seqs.tolist()
            had = any(
                event.event is Kind.DELIVERED
                and event.node == host.name
                and event.seq in seqs
                and (event.source, event.incarnation) == source
                for event in self.world.history
            )
            self.see("repeated" if had else "overtaken")

    def on_credit(self, host: Host, core: Any, end: End, message: Any, effects: Effects) -> None:
        """Somebody has room again."""
        if len(effects) > 0 and end.role is not Role.BROKER:
            peer = core.peers.get(end.session)
            if peer is not None and peer.outbox.waiting:
                self.see("queue")

    def on_forward(self, host: Host, core: Any, end: End, message: Any, effects: Effects) -> None:
        """Publications arrive at a broker from a neighbour."""
        here = core.peers.get(end.session)
        back = end.out.into
        if here is not None and here.outbox.waiting:
            other: Any = host.parties[end.peer].cores.get(core.settings.name)
            there = other.peers.get(back.session) if other is not None else None
            if there is not None and there.outbox.waiting:
                self.see("both-full")

    def on_want(self, host: Host, core: Any, end: End, message: Any, effects: Effects) -> None:
        """A neighbour tells what is wanted behind it."""
        if message.add and message.remove and any(map(_covers, product(message.remove, message.add))):
            self.see("uncovered")
        if message.number == 1:
            if message.add:
                self.see("late-link")
        elif not message.add and not message.remove:
            other: Any = host.parties[end.peer].cores.get(core.settings.name)
            there = other.interests.up.get(host.name) if other is not None else None
            if there is not None and there.exceptions:
                self.see("in-reach-again")

    def on_subscribe(self, host: Host, core: Any, end: End, message: Any, effects: Effects) -> None:
        """A client wants something."""
        key = Interest.parse(message.filter, message.topic).key
        if any(key in cover and key not in cover.told for cover in core.interests.covers.values()):
            self.see("covered")
        if core.interests.expected:
            self.see("awaited-neighbour")
        elif not any(isinstance(effect, Send) and effect.session == end.session for effect in effects):
            self.see("awaited-word")
            if any(neighbour.touched for neighbour in core.interests.up.values()):
                self.see("untold")

    def on_unsubscribe(self, host: Host, core: Any, end: End, message: Any, effects: Effects) -> None:
        """A client wants something no more, and nobody need be told."""
        if core.interests.up and not effects:
            self.see("shared-interest")

    def on_reject(self, host: Host, core: Any, end: End, message: Any, effects: Effects) -> None:
        """A publisher is refused."""
        if message.code == "Fenced":
            self.see("fenced")

    def on_confirmation(self, host: Host, core: Any, end: End, message: Any, effects: Effects) -> None:
        """A broker confirms."""
        if message.exceptions:
            self.see("out-of-reach")


def _covers(pair: tuple[tuple[str, str], tuple[str, str]]) -> bool:
    wide, narrow = pair
    return covers(Interest.parse(*wide), Interest.parse(*narrow))


def _dropped(effects: Effects, reason: str) -> bool:
    return any(isinstance(effect, Note) and effect.fields.get("reason") == reason for effect in effects)


WATCHERS: dict[str, Callable[[Host], Watcher]] = {"direct": DirectWatcher}
