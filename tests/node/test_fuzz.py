"""Whatever bytes arrive: a message, or a WireError; never another exception, and never a batch that hurts later."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.node.stage import CODEC, encoded, msgpack

from gapless.delivery.catalogue import DELIVERIES
from gapless.delivery.direct.messages import (
    Accept,
    Confirm,
    Credit,
    Forward,
    Match,
    Publish,
    Subscribe,
    Unsubscribe,
    Want,
    Wanted,
)
from gapless.delivery.port import HangUp, Message, Now, Role, Send, Session, SpaceSettings
from gapless.filters import Interest
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.errors import WireError
from gapless.model.layout import HEADER_SIZE
from gapless.model.types import Source
from gapless.node.control import Control, Hello, Open, Opened, Ping, Welcome, decode_control, encode_control
from gapless.node.frames import PREAMBLE, FrameReader, frame_header

FRAME_MAX = 200_000
BATCH = batch_of_rows(
    Source("till-7", 1),
    5,
    [
        {"n": 1, "price": 1.5, "loc": "NY", "ok": True, "at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"n": 2, "price": None, "loc": "Zürich", "ok": False, "at": None},
        {"n": "three", "price": 2.5, "loc": None, "ok": None, "at": None},
    ],
    [b"", b"abc", b"\0" * 9],
)
MESSAGES: list[Message] = [
    Credit(7),
    Publish(BATCH),
    Forward(BATCH),
    Match(BATCH, (1, 2), (b"", b"\0\0\0\0")),
    Subscribe(1, "price > 3", "a/+"),
    Unsubscribe(1),
    Confirm(1, ("b1",)),
    Want(1, (("price > 3", ""),), (("", ""),)),
    Wanted(1, ()),
]
CONTROLS: list[Control] = [
    Hello("a", Role.CLIENT, "demo"),
    Welcome("b0", "demo", 1, 2, 3),
    Open(1, "quotes"),
    Opened(1, SpaceSettings(name="quotes")),
    Ping(),
]


def edited(originals: list[bytes]) -> st.SearchStrategy[bytes]:
    """One of these, with some bytes replaced, a part cut out, or something put in."""

    def edit(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
        for at, cut, put in edits:
            place = at % (len(data) + 1)
            data = data[:place] + put + data[place + cut :]
        return data

    edits = st.lists(
        st.one_of(
            st.tuples(st.integers(0, 4000), st.just(1), st.binary(min_size=1, max_size=1)),
            st.tuples(
                st.integers(0, 4000), st.just(8), st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7])
            ),
            st.tuples(st.integers(0, 4000), st.integers(0, 16), st.binary(max_size=16)),
        ),
        min_size=1,
        max_size=3,
    )
    return st.builds(edit, st.sampled_from(originals), edits)


ANYTHING = st.one_of(
    st.binary(max_size=200),
    edited([encoded(message) for message in MESSAGES]),
    st.recursive(st.none() | st.integers(-9, 9) | st.text(max_size=4), lambda inner: st.lists(inner, max_size=4)).map(
        lambda value: len(msgpack(value)).to_bytes(4, "little") + msgpack(value)
    ),
)


@given(ANYTHING)
@example(b"\1\0\0\0" + b"\xc1")
@example(len(b"\x91" * 5000).to_bytes(4, "little") + b"\x91" * 5000)
@example(b"\x0b\0\0\0" + b"\x94\xa9subscribe" + b"\1\xa2\xff\xfe\xa0")
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    """Decoding a message for a space gives one or raises WireError."""
    try:
        message = CODEC.decode(memoryview(data))
    except WireError:
        return
    assert isinstance(message, Message)


@given(st.one_of(st.binary(max_size=200), edited([encode_control(message) for message in CONTROLS])))
@example(b"\x81\xa1c\xa5hello")
@example(b"\x91" * 5000)
@example(b"\x82\xa1c\xa8farewell\xa4code\xa2\xff\xfe")
def test_any_bytes_are_a_control_message_or_a_wire_error(data: bytes) -> None:
    """Decoding what a host says gives a control message or raises WireError."""
    try:
        message = decode_control(memoryview(data))
    except WireError:
        return
    assert isinstance(message, Control)


@given(st.one_of(st.binary(max_size=120), edited([BATCH.encode()])))
def test_any_bytes_are_a_batch_that_can_be_read_or_a_wire_error(data: bytes) -> None:
    """What passes the check of a batch can be read to the last value."""
    try:
        batch = Batch(data)
        batch.validate()
    except WireError:
        return
    assert len(data) >= HEADER_SIZE
    assert len(batch.seqs) == batch.rows == len(batch.bodies.slices())
    for column in batch.columns:
        assert len(column.values) == batch.rows


@given(ANYTHING)
@example(encoded(Subscribe(-1, "", "")))
@example(encoded(Credit(-(1 << 40))))
@example(encoded(Credit(1 << 63)))
def test_no_client_can_break_the_core_of_a_broker_or_its_subscribers(data: bytes) -> None:
    """Whatever a client sends, the core goes on, and what it passes on can be read by another client."""
    try:
        message = CODEC.decode(memoryview(data))
    except WireError:
        return
    broker = DELIVERIES["direct"].broker("b0", (), (), SpaceSettings(name="quotes"))
    leaf = DELIVERIES["direct"].leaf("listener", SpaceSettings(name="quotes"))
    leaf.on_subscribe(1, Interest.parse("", ""), Now(0, 0))
    effects = [*broker.on_start((), Now(0, 0))]
    effects += broker.on_session_up(Session(1, "raw", Role.CLIENT), Now(1, 1))
    effects += broker.on_session_up(Session(2, "listener", Role.CLIENT), Now(1, 1))
    up = leaf.on_session_up(Session(9, "b0", Role.BROKER), Now(1, 1))
    for effect in up:
        assert isinstance(effect, Send)
        effects += broker.on_message(2, effect.message, Now(2, 2))
    effects += broker.on_message(1, message, Now(3, 3))
    effects += broker.on_message(2, Publish(BATCH), Now(4, 4))
    effects += broker.on_wake("1", Now(1 << 60, 5))
    for effect in effects:
        if isinstance(effect, Send):
            again = CODEC.decode(memoryview(encoded(effect.message)))
            if effect.session == 2 and not isinstance(again, Accept):  # that leaf did not publish: this test did
                for told in leaf.on_message(9, again, Now(6, 6)):
                    assert not isinstance(told, HangUp), told
                batch = getattr(again, "batch", None)
                if batch is not None:
                    assert len(list(batch)) == batch.rows
    broker.on_session_down(1, Now(7, 7))


FRAMES = st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=300)), max_size=6)


def frames_of(pieces: list[bytes], frame_max: int = FRAME_MAX) -> list[tuple[int, bytes]]:
    """What a reader finds when bytes arrive in these pieces."""
    reader = FrameReader(frame_max)
    found = []
    for piece in pieces:
        while piece:
            buffer = reader.buffer()
            assert len(buffer)
            count = min(len(piece), len(buffer))
            buffer[:count] = piece[:count]
            piece = piece[count:]
            found += [(channel, bytes(data)) for channel, data in reader.received(count)]
    return found


@given(FRAMES, st.binary(max_size=7), st.data())
def test_frames_are_found_however_they_arrive(
    frames: list[tuple[int, bytes]], rest: bytes, data: st.DataObject
) -> None:
    """Whole, byte by byte or in any pieces, with an incomplete frame behind: the same frames come out."""
    stream = PREAMBLE + b"".join(frame_header(channel, len(body)) + body for channel, body in frames) + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert frames_of([stream]) == frames
    assert frames_of([stream[n : n + 1] for n in range(len(stream))]) == frames
    assert frames_of(pieces) == frames


@pytest.mark.parametrize("step", [1 << 20, 100_000, 65_536, 4_097])
def test_large_frames_between_small_ones_keep_their_order(step: int) -> None:
    """Frames that need a buffer of their own come out whole and in order with the others."""
    frames = [
        (n % 3, bytes([n]) * size) for n, size in enumerate([0, 5, 150_000, 1, 65_536, 65_535, 199_999, 7, 70_000])
    ]
    stream = PREAMBLE + b"".join(frame_header(channel, len(body)) + body for channel, body in frames)
    assert frames_of([stream[at : at + step] for at in range(0, len(stream), step)]) == frames


@given(st.one_of(st.binary(max_size=100), st.binary(max_size=100).map(lambda data: PREAMBLE + data)))
def test_any_bytes_are_frames_or_a_wire_error(data: bytes) -> None:
    """Whatever arrives on a connection is frames, the beginning of one, or a WireError."""
    try:
        frames = frames_of([data[:9], data[9:]])
    except WireError:
        return
    assert sum(len(body) for _, body in frames) <= len(data)


@given(st.lists(ANYTHING, min_size=1, max_size=3))
@example([encoded(Want(1, (), (("price > 3", ""),)))])
@example([encoded(Want(1, (("price > 3", ""), ("price > 3", "")), ())), encoded(Want(2, (), (("price > 3", ""),) * 2))])
def test_no_neighbour_can_break_the_core_of_a_broker(messages: list[bytes]) -> None:
    """What a neighbour sends is carried out, or ends its session; the core goes on for its clients."""
    broker = DELIVERIES["direct"].broker("b0", ("b1",), (), SpaceSettings(name="quotes"))
    broker.on_start((), Now(0, 0))
    broker.on_session_up(Session(1, "b1", Role.BROKER), Now(1, 1))
    broker.on_session_up(Session(2, "listener", Role.CLIENT), Now(1, 1))
    broker.on_wake("grace", Now(1 << 50, 1))
    for asked in (Credit(1 << 20), Subscribe(1, "", ""), Subscribe(2, "loc LIKE 'Z%'", "")):
        broker.on_message(2, asked, Now(2, 2))
    for data in messages:
        try:
            broker.on_message(1, CODEC.decode(memoryview(data)), Now(3, 3))
        except WireError:
            break
    broker.on_session_down(1, Now(4, 4))
    effects = broker.on_message(2, Publish(BATCH), Now(5, 5))
    assert any(isinstance(effect, Send) and isinstance(effect.message, Accept) for effect in effects)
