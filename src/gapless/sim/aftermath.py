"""The aftermath: what began after the faults of a run, as the history of a run without faults.

A delivery that promises little while things fail (`direct`) promises everything again to whoever comes when nothing
fails any more. So the part of a history that is about publications and subscriptions begun after a moment when the
world has settled is judged by itself: what faults have left behind in brokers and clients shows here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gapless.model.events import Event, Kind

_OF_PUBLISHERS = (Kind.ACCEPTED, Kind.REFUSED, Kind.UNKNOWN)
_OF_SUBSCRIBERS = (Kind.CONFIRMED, Kind.COVERED, Kind.UNSUBSCRIBE, Kind.GAP)
_OF_NOBODY = (Kind.DROPPED, Kind.DISCONNECTED, Kind.HELD, Kind.CALM, Kind.END)


def aftermath(history: Iterable[Event], settled: int) -> Iterator[Event]:
    """The events about what began at `settled` or later."""
    published: dict[tuple[str, str, int, int], None] = {}
    older: dict[tuple[str, str, int, int], None] = {}
    holders: dict[tuple[str, str], int] = {}  # of each name, before
    subscribed: dict[tuple[str, str], None] = {}
    for event in history:
        kind = event.event
        if kind is Kind.RUN:
            yield msgspec.structs.replace(event, faults=False, limits=())
        elif kind is Kind.PUBLISH:
            name = (event.space, event.source, event.incarnation, event.seq)
            holder = holders.get(name[:2], 0)
            if event.at < settled:
                holders[name[:2]] = max(holder, event.incarnation)
            if event.at < settled or event.incarnation < holder:  # who has been taken over may be refused
                older[name] = None
            elif name not in older:
                published[name] = None
                yield event
        elif event.at < settled:
            continue
        elif kind is Kind.SUBSCRIBE:
            subscribed[event.space, event.subscription] = None
            yield event
        elif kind in (Kind.DELIVERED, Kind.ACKNOWLEDGED):
            if (event.space, event.subscription) in subscribed:
                if (event.space, event.source, event.incarnation, event.seq) not in older:
                    yield event
        elif kind in _OF_PUBLISHERS and event.source:
            if (event.space, event.source, event.incarnation, event.seq) in published:
                yield event
        elif kind in _OF_SUBSCRIBERS or kind is Kind.REFUSED:
            if (event.space, event.subscription) in subscribed:
                yield event
        elif kind in _OF_NOBODY:
            yield event
