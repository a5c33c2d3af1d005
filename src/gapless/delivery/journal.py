"""What a process writes into its journal: the requests of the application, and what cores answer, as history events.

The simulator and real processes write through this, so their histories say the same things in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.delivery.port import Accepted, Answer, Confirmed, Gap, Note, Now, Published, Refused, SpaceSettings
from gapless.filters import Interest
from gapless.model.batch import Batch, Rows
from gapless.model.events import Event, Kind, digest_of, digest_of_attributes
from gapless.model.types import Source


def declared(settings: SpaceSettings) -> dict[str, Any]:
    """What the `run` event of a space tells of it: the types of attributes, and beyond which sizes it refuses."""
    sizes = ("body_bytes_max", "attributes_max", "attribute_bytes_max", "interest_bytes_max", "names_max")
    return {
        "delivery": settings.delivery,
        "attributes": {name: kind.name.lower() for name, kind in settings.attributes.items()} or None,
        "sizes": {name: getattr(settings, name) for name in sizes},
    }


class Journal:
    """The journal of one process; all its spaces write into it."""

    def __init__(self, node: str, write: Callable[[Event], None], n: int = 0) -> None:
        """`n` is the position of the last event that an earlier process of this name has written."""
        self.node = node
        self.n = n
        self._write = write

    def write(self, kind: Kind, now: Now, space: str = "", **fields: Any) -> None:
        """One event."""
        self.n += 1
        self._write(Event(event=kind, at=now.at, wall=now.wall, node=self.node, n=self.n, space=space, **fields))

    # --- publishing

    def publish(self, space: str, batch: Batch, now: Now) -> None:
        """The application hands in these publications."""
        source = batch.source
        bodies = batch.bodies.slices()
        for seq, attributes, body in zip(batch.seqs.tolist(), batch.plain_attributes, bodies, strict=True):
            self.write(
                Kind.PUBLISH,
                now,
                space,
                source=source.name,
                incarnation=source.incarnation,
                seq=seq,
                attributes=attributes,
                body=digest_of(body),
                size=len(body),
            )

    def answer(self, space: str, answer: Answer, subscription: str, now: Now) -> None:
        """The core answers a request; `subscription` names the one it is about, if any."""
        outcome = answer.outcome
        about = _range_of(answer.request) if isinstance(answer.request, Published) else {"subscription": subscription}
        if isinstance(outcome, Accepted):
            self.write(Kind.ACCEPTED, now, space, **about)
        elif isinstance(outcome, Confirmed):
            self.write(Kind.CONFIRMED, now, space, exceptions=outcome.exceptions, **about)
        elif isinstance(outcome, Refused):
            self.write(Kind.REFUSED, now, space, reason=f"{outcome.code}: {outcome.text}", **about)
        else:
            self.write(Kind.UNKNOWN, now, space, **about)

    # --- subscribing

    def subscribe(self, space: str, subscription: str, interest: Interest, now: Now) -> None:
        """The application subscribes."""
        topic = "" if interest.topic is None else interest.topic.text
        self.write(Kind.SUBSCRIBE, now, space, subscription=subscription, filter=interest.filter.text, topic=topic)

    def unsubscribe(self, space: str, subscription: str, now: Now) -> None:
        """The application wants no more of it."""
        self.write(Kind.UNSUBSCRIBE, now, space, subscription=subscription)

    def deliver(self, space: str, subscription: str, batch: Batch, rows: Rows | None, now: Now) -> None:
        """These rows (None: all) are handed to the application."""
        seqs, attributes, bodies = batch.seqs.tolist(), batch.plain_attributes, batch.bodies.slices()
        for row in range(len(seqs)) if rows is None else rows.tolist():
            self.deliver_one(space, subscription, batch.source, seqs[row], attributes[row], bodies[row], now)

    def deliver_one(
        self,
        space: str,
        subscription: str,
        source: Source,
        seq: int,
        attributes: Mapping[str, Any],
        body: bytes,
        now: Now,
    ) -> None:
        """One publication, its times as microseconds, is handed to the application."""
        self.write(
            Kind.DELIVERED,
            now,
            space,
            subscription=subscription,
            source=source.name,
            incarnation=source.incarnation,
            seq=seq,
            body=digest_of(body),
            digest=digest_of_attributes(attributes),
        )

    def acknowledge(self, space: str, subscription: str, batch: Batch, rows: Rows | None, now: Now) -> None:
        """The application has taken over all up to the last of these rows (None: all)."""
        self.write(
            Kind.ACKNOWLEDGED,
            now,
            space,
            subscription=subscription,
            source=batch.source.name,
            incarnation=batch.source.incarnation,
            seq=batch.last if rows is None else int(batch.seqs[rows[-1]]),
        )

    def gap(self, space: str, subscription: str, gap: Gap, now: Now) -> None:
        """The subscriber is told that something is missing."""
        self.write(Kind.GAP, now, space, subscription=subscription, reason=gap.reason, count=max(gap.count, 0))

    # --- what happens besides

    def note(self, space: str, note: Note, now: Now) -> None:
        """What a core finds worth noting."""
        self.write(note.event, now, space, **note.fields)

    def disconnected(self, peer: str, reason: str, now: Now) -> None:
        """This process ends its session with a peer, on its own decision."""
        self.write(Kind.DISCONNECTED, now, peer=peer, reason=reason)

    def link_up(self, peer: str, now: Now) -> None:
        """This process has a session with a neighbour."""
        self.write(Kind.LINK_UP, now, peer=peer)

    def link_down(self, peer: str, now: Now) -> None:
        """This process has lost its session with a peer."""
        self.write(Kind.LINK_DOWN, now, peer=peer)

    def held(self, space: str, held: dict[str, int], now: Now) -> None:
        """At the end: what has not drained."""
        for reason, count in held.items():
            self.write(Kind.HELD, now, space, reason=reason, count=count)


def _range_of(request: Published) -> dict[str, Any]:
    source = request.source
    return {
        "source": source.name,
        "incarnation": source.incarnation,
        "seq": request.first,
        "last": request.last if request.last > request.first else 0,
    }
