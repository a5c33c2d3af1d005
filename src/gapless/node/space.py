"""One space at one broker: its core, and the carrying out of what the core decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gapless.delivery.catalogue import DELIVERIES
from gapless.delivery.port import Dial, Effects, HangUp, Note, Role, Send, Session, SpaceSettings, Wake
from gapless.delivery.wire import Codec
from gapless.model.events import Kind
from gapless.node.clock import now
from gapless.node.link import Link


class Counters:
    """What one space has done since the broker started."""

    __slots__ = ("batches_in", "batches_out", "bytes_in", "bytes_out", "dropped", "publications_in", "publications_out")

    def __init__(self) -> None:
        self.publications_in = 0
        self.publications_out = 0
        self.batches_in = 0
        self.batches_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.dropped: dict[str, int] = {}

    def as_dict(self) -> dict[str, Any]:
        """For status."""
        return {name: getattr(self, name) for name in self.__slots__}


class Space:
    """Feeds one core and does what it says."""

    def __init__(
        self,
        me: str,
        settings: SpaceSettings,
        neighbours: tuple[str, ...],
        dials: tuple[str, ...],
        dial: Callable[[str], None],
        note: Callable[[str, Note], None],
    ) -> None:
        delivery = DELIVERIES[settings.delivery]
        self.settings = settings
        self.core = delivery.broker(me, neighbours, dials, settings)
        self.codec = Codec(delivery.messages)
        self.links: dict[int, tuple[Link, int]] = {}
        self.counters = Counters()
        self._dial = dial
        self._note = note
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Let the core begin."""
        self._carry_out(self.core.on_start((), now()))

    def session_up(self, link: Link, channel: int, role: Role) -> None:
        """A peer has opened the space."""
        self.links[link.number] = (link, channel)
        self._carry_out(self.core.on_session_up(Session(link.number, link.peer, role), now()))

    def session_down(self, link: Link) -> None:
        """A peer's link has ended."""
        if self.links.pop(link.number, None) is not None:
            self._carry_out(self.core.on_session_down(link.number, now()))

    def frame(self, link: Link, data: memoryview) -> None:
        """A message has arrived. Raises WireError."""
        message = self.codec.decode(data)
        batch = getattr(message, "batch", None)
        if batch is not None:
            self.counters.publications_in += batch.rows
            self.counters.batches_in += 1
            self.counters.bytes_in += batch.size
        self._carry_out(self.core.on_message(link.number, message, now()))

    def _carry_out(self, effects: Effects) -> None:
        for effect in effects:
            if type(effect) is Send:
                self._send(effect)
            elif type(effect) is Wake:
                delay = (effect.at - now().at) / 1e9
                self._loop.call_later(max(delay, 0), self._wake, effect.what)
            elif type(effect) is HangUp:
                self._hang_up(effect)
            elif type(effect) is Dial:
                self._dial(effect.peer)
            elif type(effect) is Note:
                self._count(effect)
                self._note(self.settings.name, effect)
            else:
                raise AssertionError(f"a broker cannot carry out {effect}")

    def _count(self, note: Note) -> None:
        if note.event is Kind.DROPPED:
            reason = str(note.fields.get("reason", "unknown")).partition(":")[0]  # what follows is for people
            dropped = self.counters.dropped
            dropped[reason] = dropped.get(reason, 0) + int(note.fields.get("count", 1))

    def _send(self, effect: Send) -> None:
        entry = self.links.get(effect.session)
        if entry is None:
            return
        link, channel = entry
        batch = getattr(effect.message, "batch", None)
        if batch is not None:
            self.counters.publications_out += batch.rows
            self.counters.batches_out += 1
            self.counters.bytes_out += batch.size
        link.send(channel, self.codec.encode(effect.message))

    def _hang_up(self, effect: HangUp) -> None:
        entry = self.links.pop(effect.session, None)
        if entry is not None:
            entry[0].end(effect.reason, "WireError")

    def _wake(self, what: str) -> None:
        self._carry_out(self.core.on_wake(what, now()))
