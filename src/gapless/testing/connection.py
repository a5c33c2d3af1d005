"""Connections in memory: two ends, and a wire in each direction that is in order or ended, as TCP is."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless.node.control import Ping, Pong, encode_control
from gapless.node.frames import CONTROL, frame_header
from gapless.testing.process import process_of

if TYPE_CHECKING:
    from gapless.testing.network import Network

KERNEL_BYTES = 256 << 10  # written and not yet arrived, so much is the operating system's and no longer the process'
_HIGH_BYTES = 64 << 10  # of what is the process', beyond which a protocol is asked to pause

_SIGNS_OF_LIFE = frozenset(
    frame_header(CONTROL, len(said)) + said for said in (encode_control(Ping()), encode_control(Pong()))
)


class Chunk(NamedTuple):
    """Something on its way."""

    at: float  # when it arrives, if what was sent earlier has
    data: bytes | None  # None: the end
    error: Exception | None  # how it ends: None as it should
    stirs: bool  # it is more than a sign of life
    counted: bool  # among what is under way: what nobody will read before the test does something is not


class Wire:
    """One direction of a connection."""

    def __init__(self, network: Network, sender: End, receiver: End) -> None:
        self.sender = sender
        self.receiver = receiver
        self.size = 0  # bytes on their way
        self._network = network
        self._queue: deque[Chunk] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def put(self, data: bytes | None, error: Exception | None = None) -> None:
        """Send bytes, or the end."""
        if self.receiver.over:
            return
        network = self._network
        at = network.loop.time() + network.latency(self.sender.names, self.receiver.names)
        stirs = data not in _SIGNS_OF_LIFE
        process = process_of(self.receiver.context)
        counted = stirs and not self._held() and (process is None or not process.held)
        self._queue.append(Chunk(at, data, error, stirs, counted))
        self.size += len(data or b"")
        if counted:
            network.set_out()
        self.go_on()

    def go_on(self) -> None:
        """Let what is due arrive when it is due, unless nothing gets through or nobody reads."""
        if self._timer is None and self._queue and not self._held():
            loop = self._network.loop
            when = max(self._queue[0].at, loop.time())
            self._timer = loop.call_at(when, self._arrive, context=self.receiver.context)

    def _held(self) -> bool:
        return self.receiver.paused or self._network.is_silent(self.sender.names, self.receiver.names)

    def _arrive(self) -> None:
        self._timer = None
        now = self._network.loop.time()
        while self._queue and self._queue[0].at <= now and not self._held():
            chunk = self._queue.popleft()
            self._gone(chunk)
            if chunk.stirs:
                self._network.stir()
            if chunk.data is None:
                self.receiver.ended(chunk.error)
            else:
                self.receiver.feed(chunk.data)
        self.sender.went_out()
        self.go_on()

    def drop(self, beyond: int = 0) -> None:
        """Lose what is on its way, but for so many bytes."""
        while self._queue and (self.size > beyond or not beyond):
            self._gone(self._queue.pop())

    def _gone(self, chunk: Chunk) -> None:
        self.size -= len(chunk.data or b"")
        if chunk.counted:
            self._network.arrived()


class End(asyncio.Transport):
    """One end of a connection, as the transport of its protocol."""

    def __init__(
        self, network: Network, protocol: asyncio.BaseProtocol, names: tuple[str, ...], context: Context, peer: Any
    ) -> None:
        super().__init__({"peername": peer})
        self.names = names  # by which the network knows who this is
        self.context = context  # in which its protocol is called
        self.paused = False  # its protocol does not want to read
        self.over = False  # its protocol has been told of the end, or lives no more
        self.out: Wire
        self._network = network
        self._protocol = protocol
        self._closing = False
        self._asked_to_pause = False

    def join(self, other: End) -> None:
        """The connection stands."""
        self.out = Wire(self._network, self, other)

    # --- what the network does ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Tell the protocol."""
        if not self.over:
            self._protocol.connection_made(self)

    def feed(self, data: bytes) -> None:
        """Bytes arrive."""
        protocol = self._protocol
        if isinstance(protocol, asyncio.Protocol):
            if not self._closing:
                protocol.data_received(data)
            return
        assert isinstance(protocol, asyncio.BufferedProtocol)
        while data and not self._closing:
            room = memoryview(protocol.get_buffer(len(data))).cast("B")
            count = min(len(room), len(data))
            room[:count] = data[:count]
            data = data[count:]
            protocol.buffer_updated(count)

    def ended(self, error: Exception | None) -> None:
        """The other end sends nothing more."""
        if error is not None:
            self.lose(error)
        elif not self._closing:
            protocol = self._protocol
            assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            if not protocol.eof_received():
                self.close()

    def lose(self, error: Exception | None) -> None:
        """The connection is gone for this end: tell its protocol, once."""
        if self.over:
            return
        self.vanish()
        self._protocol.connection_lost(error)

    def vanish(self) -> None:
        """The connection is gone for this end, and its protocol is told nothing."""
        self.over = self._closing = True
        self._network.forget(self)

    def went_out(self) -> None:
        """Something that was written has arrived."""
        unsent = self.get_write_buffer_size()
        if self._closing and not unsent:
            self._network.loop.call_soon(self.lose, None, context=self.context)
        elif self._asked_to_pause and not unsent:
            self._asked_to_pause = False
            self._network.loop.call_soon(self._protocol.resume_writing, context=self.context)

    # --- what protocols do --------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        if self._closing or not data:
            return
        self.out.put(bytes(data))
        if self.get_write_buffer_size() > _HIGH_BYTES and not self._asked_to_pause:
            self._asked_to_pause = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send all of these together."""
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        """Bytes that the operating system has not taken yet."""
        return 0 if self.over else max(0, self.out.size - KERNEL_BYTES)

    def close(self) -> None:
        """Send what was written, then end."""
        if not self._closing:
            self._closing = True
            self.out.put(None)
            self.went_out()

    def abort(self) -> None:
        """End; what the operating system has not taken yet is lost."""
        if self.over:
            return
        if self.get_write_buffer_size():
            self.out.drop(beyond=KERNEL_BYTES)
            self.out.put(None, ConnectionResetError("the peer has aborted the connection"))
        elif not self._closing:
            self.out.put(None)
        self._closing = True
        self._network.loop.call_soon(self.lose, None, context=self.context)

    def is_closing(self) -> bool:
        """Whether it ends."""
        return self._closing

    def pause_reading(self) -> None:
        """Let nothing arrive."""
        self.paused = True

    def resume_reading(self) -> None:
        """Let arrive what is there."""
        self.paused = False
        self._network.go_on()

    def is_reading(self) -> bool:
        """Whether anything may arrive."""
        return not self.paused and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """From now on this one is told."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who is told."""
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Protocols are asked to pause at a limit of our own."""

    def can_write_eof(self) -> bool:
        """Half of a connection is never closed."""
        return False
