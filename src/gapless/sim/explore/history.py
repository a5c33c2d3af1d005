"""What has happened, as far as its order means anything to the checker.

The checker looks at the order of events of one process; at whether a publication was published before or after a
subscription was confirmed, covered or ended; and at whether a fault came before or after. It never asks whether
something was delivered to one process before something was delivered to, or accepted from, another; that nothing is
delivered before it is published is so in whatever can happen. So a history is kept as several sequences, one for each
process and one for what is ordered across processes; a fault stands in all. Histories whose sequences are equal can be
made from each other by exchanging neighbours whose order means nothing, and are judged alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.model.events import Event, Kind, encode_event

ACROSS = (Kind.PUBLISH, Kind.SUBSCRIBE, Kind.CONFIRMED, Kind.COVERED, Kind.UNSUBSCRIBE)
OF_ALL = (Kind.FAULT, Kind.CRASH, Kind.LINK_DOWN, Kind.CALM)


class Histories:
    """Sequences of events as numbers: equal numbers are equal sequences."""

    def __init__(self, names: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._numbers: dict[tuple[int, bytes], int] = {}
        self.empty = (0,) * (len(names) + 1)  # of each process, and of all together

    def __len__(self) -> int:
        """How many sequences."""
        return len(self._numbers)

    def extended(self, happened: tuple[int, ...], events: Sequence[Event]) -> tuple[int, ...]:
        """What has happened, with these events."""
        if not events:
            return happened
        sequences = list(happened)
        for event in events:
            data = encode_event(event)
            for place in self._in(event):
                key = sequences[place], data
                sequences[place] = self._numbers.setdefault(key, len(self._numbers) + 1)
        return tuple(sequences)

    def _in(self, event: Event) -> Sequence[int]:
        if event.event in OF_ALL:
            return range(len(self._places) + 1)
        place = self._places[event.node]
        return (place, len(self._places)) if event.event in ACROSS else (place,)
