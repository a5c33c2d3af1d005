"""Frames: how messages lie on a connection. Pure; `link` feeds it bytes.

Both ends first send a preamble of eight bytes, `GAPLESS` and the version of the protocol. Then come frames:

    u32 length of what follows the header | u16 channel | u16 zero | bytes

Channel 0 is the conversation of the hosts (`control`); the others are spaces, as opened there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gapless.model.errors import FrameTooLarge, VersionMismatch, WireError

PROTOCOL_VERSION = 1
MAGIC = b"GAPLESS"
PREAMBLE = MAGIC + bytes([PROTOCOL_VERSION])
HEADER = struct.Struct("<IHH")
CONTROL = 0
BUFFER_SIZE = 512 << 10
OWN_BUFFER_SIZE = 64 << 10  # a frame of this size or more that is not complete gets a buffer of its own,
FIRST_OWN_SIZE = 256 << 10  # which is no larger than this before so much of the frame is there


def check_preamble(data: bytes) -> None:
    """Raise unless the peer speaks this protocol in this version."""
    if data[: len(MAGIC)] != MAGIC:
        raise WireError(f"the peer does not speak the Gapless protocol: it began with {data!r}")
    if data[len(MAGIC)] != PROTOCOL_VERSION:
        raise VersionMismatch(
            f"the peer speaks version {data[len(MAGIC)]} of the protocol, this program version {PROTOCOL_VERSION}: "
            "bring both to the same version"
        )


def frame_header(channel: int, length: int) -> bytes:
    """The header of a frame."""
    return HEADER.pack(length, channel, 0)


class FrameReader:
    """Finds frames in what arrives. `buffer()` says where to put the next bytes, `received(n)` that they are there."""

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.greeted = False
        self._view = memoryview(bytearray(BUFFER_SIZE))
        self._start = 0
        self._end = 0
        self._own: memoryview | None = None  # a large frame under way
        self._own_channel = 0
        self._own_length = 0  # of the whole frame
        self._filled = 0

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        if self._own is not None:
            return self._own[self._filled :]
        return self._view[self._end :]

    def received(self, count: int) -> Iterator[tuple[int, memoryview]]:
        """The frames that are complete now: channel, and bytes that stay what they are. Raises WireError."""
        if self._own is not None:
            self._filled += count
            if self._filled == self._own_length:
                frame, self._own = self._own, None
                yield self._own_channel, frame
            elif self._filled == len(self._own):
                self._resize_own(2 * self._filled)
            return
        self._end += count
        if not self.greeted and not self._greet():
            return
        while self._end - self._start >= HEADER.size:
            length, channel, zero = HEADER.unpack_from(self._view, self._start)
            if zero:
                raise WireError("a frame header is malformed")
            if length > self.frame_bytes_max:
                raise FrameTooLarge(f"a frame of {length} bytes is over the limit of {self.frame_bytes_max}")
            begin = self._start + HEADER.size
            here = self._end - begin
            if here < length:
                if length >= OWN_BUFFER_SIZE:
                    self._give_own_buffer(channel, length, begin, here)
                break
            self._start = begin + length
            yield channel, memoryview(bytes(self._view[begin : begin + length]))
        self._compact()

    def _greet(self) -> bool:
        if self._end < len(PREAMBLE):
            start = bytes(self._view[: self._end])
            if not MAGIC.startswith(start[: len(MAGIC)]):
                check_preamble(start)
            return False
        check_preamble(bytes(self._view[: len(PREAMBLE)]))
        self._start = len(PREAMBLE)
        self.greeted = True
        return True

    def _give_own_buffer(self, channel: int, length: int, begin: int, here: int) -> None:
        self._own = self._view[begin : self._end]
        self._own_channel, self._own_length, self._filled = channel, length, here
        self._resize_own(max(FIRST_OWN_SIZE, 2 * here))
        self._start = self._end = 0

    def _resize_own(self, size: int) -> None:
        """Memory is taken for what has come, not for what was announced."""
        assert self._own is not None
        own = memoryview(bytearray(min(size, self._own_length)))
        own[: self._filled] = self._own[: self._filled]
        self._own = own

    def _compact(self) -> None:
        rest = self._end - self._start
        if self._start and rest:
            self._view[:rest] = bytes(self._view[self._start : self._end])
        self._start, self._end = 0, rest
