"""How much memory frames take before they are there."""

from __future__ import annotations

import pytest

from gapless.model.errors import FrameTooLarge
from gapless.node.frames import FIRST_OWN_SIZE, PREAMBLE, FrameReader, frame_header


def feed(reader: FrameReader, data: bytes) -> list[tuple[int, bytes]]:
    """The frames that are complete when these bytes have come, as fast as the reader takes them."""
    found = []
    while data:
        room = reader.buffer()
        part, data = data[: len(room)], data[len(room) :]
        room[: len(part)] = part
        found += [(channel, bytes(frame)) for channel, frame in reader.received(len(part))]
    return found


@pytest.mark.parametrize("length", [FIRST_OWN_SIZE - 1, FIRST_OWN_SIZE, FIRST_OWN_SIZE + 1, 3_000_001])
@pytest.mark.parametrize("step", [1000, 70_000, 1 << 30])
def test_a_large_frame_comes_whole(length: int, step: int) -> None:
    """A frame larger than any buffer arrives as it was sent, however it is cut, and so does what follows it."""
    reader = FrameReader(1 << 23)
    body = bytes(range(251)) * (length // 251 + 1)
    data = PREAMBLE + frame_header(3, length) + body[:length] + frame_header(4, 2) + b"ok"
    found: list[tuple[int, bytes]] = []
    for start in range(0, len(data), step):
        found += feed(reader, data[start : start + step])
    assert found == [(3, body[:length]), (4, b"ok")]


def test_an_announced_frame_takes_no_memory_before_it_comes() -> None:
    """Whoever announces megabytes and sends a few bytes is given a buffer for those."""
    reader = FrameReader(1 << 23)
    assert feed(reader, PREAMBLE + frame_header(1, 8_000_000) + b"x" * 100) == []
    assert len(reader.buffer()) <= FIRST_OWN_SIZE


def test_a_raised_limit_holds_for_the_next_frame() -> None:
    """The limit may be changed between two frames that arrive together."""
    reader = FrameReader(10)
    room = reader.buffer()
    data = PREAMBLE + frame_header(0, 3) + b"abc" + frame_header(1, 20) + b"y" * 20
    room[: len(data)] = data
    frames = reader.received(len(data))
    assert next(frames)[0] == 0
    reader.frame_bytes_max = 20
    assert next(frames)[0] == 1
    with pytest.raises(FrameTooLarge):
        feed(reader, frame_header(1, 21))
