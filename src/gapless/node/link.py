"""A link: one connection with one peer, from the first byte to the last.

In order, or ended: a link never skips a frame. It ends when either side hangs up, when the connection breaks, when the
peer sends what cannot be read, when it is not heard from for too long, or when it does not read what is sent to it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from enum import Enum
from typing import Protocol, cast

from gapless.model.batch import Bytes
from gapless.model.errors import GaplessError, WireError
from gapless.node.control import (
    AnyControl,
    Control,
    Farewell,
    Ping,
    Pong,
    decode_control,
    encode_control,
)
from gapless.node.frames import CONTROL, PREAMBLE, FrameReader, frame_header
from gapless.node.sockets import cause_of

FAREWELL_CHARACTERS_MAX = 500  # of what a peer says when it leaves, so much is kept
GREETING_BYTES_MAX = 64 << 10  # of a frame before both sides know each other
LINGER_S = 1.0  # how long a farewell may take to go out
_WASTE = bytearray(64 << 10)  # where bytes go that nobody reads any more


class State(Enum):
    """The life of a link."""

    CONNECTING = "connecting"  # no connection yet
    GREETING = "greeting"  # connected; hello or welcome not yet seen
    OPEN = "open"
    ENDED = "ended"


class Turn(Enum):
    """What moves a link on."""

    CONNECTED = "the connection stands"
    GREETED = "both sides know each other"
    OVER = "either side hangs up, or cannot be heard or understood"


# Whatever is not in here does not happen: `Link` asserts it.
TRANSITIONS: dict[tuple[State, Turn], State] = {
    (State.CONNECTING, Turn.CONNECTED): State.GREETING,
    (State.GREETING, Turn.GREETED): State.OPEN,
    (State.GREETING, Turn.OVER): State.ENDED,
    (State.OPEN, Turn.OVER): State.ENDED,
}


class Pace:
    """How often to ask whether the peer is there, how long to wait, and how much may lie unsent."""

    __slots__ = ("frame_bytes_max", "handshake_s", "heartbeat_s", "suspect_after_s", "unsent_bytes_max")

    def __init__(
        self,
        heartbeat_ms: int = 1_000,
        suspect_after_ms: int = 5_000,
        handshake_ms: int = 5_000,
        frame_bytes_max: int = 16 << 20,
        unsent_bytes_max: int = 64 << 20,
    ) -> None:
        self.heartbeat_s = heartbeat_ms / 1000
        self.suspect_after_s = suspect_after_ms / 1000
        self.handshake_s = handshake_ms / 1000
        self.frame_bytes_max = frame_bytes_max
        self.unsent_bytes_max = unsent_bytes_max


class LinkOwner(Protocol):
    """Whoever has links: a broker or a client's connection."""

    def link_connected(self, link: Link) -> None:
        """The connection stands; nothing has been said yet."""
        ...

    def link_control(self, link: Link, message: AnyControl) -> None:
        """The peer's host says something."""
        ...

    def link_frame(self, link: Link, channel: int, data: memoryview) -> None:
        """A message for a space has arrived. May raise WireError."""
        ...

    def link_ended(self, link: Link, reason: str) -> None:
        """The link is over; called once, for every link that was connected."""
        ...


class Link(asyncio.BufferedProtocol):
    """One connection. Its owner decides; this only keeps it alive and in order."""

    def __init__(self, owner: LinkOwner, pace: Pace, number: int, dialled: bool) -> None:
        self.owner = owner
        self.pace = pace
        self.number = number
        self.dialled = dialled
        self.state = State.CONNECTING
        self.peer = ""  # the peer's node, once known
        self.address = ""
        self.farewell: Farewell | None = None  # what the peer said when it left
        self.code = ""  # the name of the error for which this side ended the link, if it was this side
        self.reason = ""
        self.sent_bytes = 0
        self.received_bytes = 0
        self.unsent_bytes_max = pace.unsent_bytes_max
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(min(GREETING_BYTES_MAX, pace.frame_bytes_max))
        self._transport: asyncio.Transport | None = None
        self._heard = self._loop.time()
        self._due = 0.0  # when the peer is to be looked after again
        self._timer: asyncio.TimerHandle | None = None
        self._nowhere: socket.socket | None = (
            None  # in a forked process, the other end of what stands for the connection
        )

    # --- the connection ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, and begin to watch."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own kind is not a subclass
        transport = self._transport
        self.address = _shown(transport.get_extra_info("peername"))
        self._move(Turn.CONNECTED)
        self._heard = self._loop.time()
        transport.set_write_buffer_limits(high=1 << 30)
        transport.write(PREAMBLE)
        self._timer = self._loop.call_later(self.pace.handshake_s, self._watch_greeting)
        self.owner.link_connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._reader.buffer() if self.state is not State.ENDED else memoryview(_WASTE)

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived: hand on what is complete."""
        if self.state is State.ENDED:
            return
        self.received_bytes += nbytes
        self._heard = self._loop.time()
        try:
            for channel, data in self._reader.received(nbytes):
                if channel == CONTROL:
                    self._on_control(decode_control(data))
                else:
                    self.owner.link_frame(self, channel, data)
                if self.ended.is_set():
                    return
        except WireError as error:
            self.end(str(error), type(error).__name__)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._transport = None
        why = cause_of(exc) if isinstance(exc, OSError) else str(exc)
        self._finish(f"the connection broke: {why}" if exc else "the peer closed the connection")

    # --- what the owner does ----------------------------------------------------------------------------------------

    def open(self, peer: str, pace: Pace | None = None) -> None:
        """The greeting is over; a pace that was agreed on in it holds from now on."""
        self.peer = peer
        if pace is not None:
            self.pace = pace
        self.unsent_bytes_max = self.pace.unsent_bytes_max
        self._reader.frame_bytes_max = self.pace.frame_bytes_max
        self._move(Turn.GREETED)
        self._watch_again(self.pace.heartbeat_s)

    def widen(self, credit_bytes: int) -> None:
        """A space has been opened on it: its publications may wait here too, as many as the credit lets through."""
        self.unsent_bytes_max += credit_bytes + self.pace.frame_bytes_max

    def say(self, message: Control) -> None:
        """Say something to the peer's host."""
        self.send(CONTROL, [encode_control(message)])

    def send(self, channel: int, pieces: Sequence[Bytes]) -> None:
        """Send one frame. On a link that has ended it goes nowhere, as it would on one about to end."""
        transport = self._transport
        if transport is None or self.state is State.ENDED:
            return
        length = sum(map(len, pieces))
        self.sent_bytes += length
        first = frame_header(channel, length) + bytes(pieces[0])
        if len(pieces) == 1:
            transport.write(first)
        else:
            transport.writelines([first, *pieces[1:]])
        unsent = transport.get_write_buffer_size()
        if unsent > self.unsent_bytes_max and not self.code:
            self.end(f"the peer does not read: {unsent} bytes wait to be sent", "Overloaded")

    def end(self, reason: str, code: str = "Closed") -> None:
        """End the link, telling the peer why."""
        if self.state is State.ENDED or self.code:
            return
        self.code = code
        transport = self._transport
        if transport is not None:
            self.say(Farewell(code, reason))
            if code == "Overloaded":
                transport.abort()
            else:
                transport.close()
                self._loop.call_later(LINGER_S, transport.abort)
        self._finish(reason)

    def disown(self) -> None:
        """This is the copy of the link in a forked process: the connection is the parent's.

        In place of its socket the child gets one that leads nowhere, so that whatever a loop does on its way out it
        neither sends nor takes anything of the parent's, nor has the kernel forget what the parent waits for.
        """
        transport, self._transport = self._transport, None
        self.state = State.ENDED
        if self._timer is not None:
            self._timer.cancel()
        connection = transport.get_extra_info("socket") if transport is not None else None
        if connection is not None and connection.fileno() >= 0:
            self._nowhere, other = socket.socketpair()
            with other:
                other.setblocking(False)  # a loop may still believe that there is something to read
                os.dup2(other.fileno(), connection.fileno(), inheritable=False)

    def unsent(self) -> int:
        """Bytes that the connection has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    # --- watching ---------------------------------------------------------------------------------------------------

    def _on_control(self, message: AnyControl) -> None:
        if isinstance(message, Ping):
            self.say(Pong())
        elif isinstance(message, Farewell):
            self.farewell = Farewell(message.code[:FAREWELL_CHARACTERS_MAX], message.text[:FAREWELL_CHARACTERS_MAX])
            if self._transport is not None:
                self._transport.close()
            self._finish(self.farewell.text)
        elif not isinstance(message, Pong):
            try:
                self.owner.link_control(self, message)
            except GaplessError as error:
                self.end(str(error), type(error).__name__)

    def _watch_greeting(self) -> None:
        if self.state is State.GREETING:
            self.end(f"the peer did not introduce itself within {self.pace.handshake_s:g} s", "Unreachable")

    def _watch(self) -> None:
        """The failure detector: ask when it is quiet, end the link when it stays quiet."""
        if self.state is not State.OPEN:
            return
        now = self._loop.time()
        late = now - self._due
        if late > self.pace.heartbeat_s:
            self._heard = min(
                now, self._heard + late
            )  # it was we who did not listen: this process was stopped, or too busy
        quiet = now - self._heard
        if quiet >= self.pace.suspect_after_s:
            self.end(f"the peer was not heard from for {quiet:.1f} s", "Unreachable")
            return
        if quiet >= self.pace.heartbeat_s * 0.9:
            self.say(Ping())
        self._watch_again(min(self.pace.heartbeat_s, self.pace.suspect_after_s - quiet))

    def _watch_again(self, after_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.state is State.OPEN:
            after_s = max(after_s, 0.001)
            self._due = self._loop.time() + after_s
            self._timer = self._loop.call_later(after_s, self._watch)

    def _finish(self, reason: str) -> None:
        if self.state is State.ENDED:
            return
        self._move(Turn.OVER)
        self.reason = reason
        self.ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._loop.call_soon(self.owner.link_ended, self, reason)

    def _move(self, turn: Turn) -> None:
        after = TRANSITIONS.get((self.state, turn))
        assert after is not None, f"a link that is {self.state.value} cannot go on when {turn.value}"
        self.state = after


def _shown(address: object) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        host, port = address[:2]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    return str(address)
