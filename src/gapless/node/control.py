"""What hosts say to each other on channel 0: who they are, which spaces they open, that they are alive."""

from __future__ import annotations

import msgspec

from gapless.delivery.port import Role, SpaceSettings
from gapless.model.errors import WireError


class Control(msgspec.Struct, frozen=True, tag_field="c"):
    """A message from host to host."""


class Hello(Control, tag="hello", frozen=True):
    """Who dials: the first frame it sends."""

    node: str
    role: Role
    cluster: str = ""  # a client may leave it open


class Welcome(Control, tag="welcome", frozen=True):
    """Who answers."""

    node: str
    cluster: str
    heartbeat_ms: int
    suspect_after_ms: int
    frame_bytes_max: int
    http: str = ""  # where its health and metrics are, if anywhere


class Farewell(Control, tag="farewell", frozen=True):
    """Why the sender ends the connection: the name of an error and a sentence. Nothing follows."""

    code: str
    text: str


class Open(Control, tag="open", frozen=True):
    """The dialler wants to use this space on this channel."""

    channel: int
    space: str


class Opened(Control, tag="opened", frozen=True):
    """The space is open on this channel."""

    channel: int
    settings: SpaceSettings
    newest: int = 0  # publishers opened from now on have a higher incarnation


class NotOpened(Control, tag="not-opened", frozen=True):
    """The space cannot be opened."""

    channel: int
    code: str
    text: str


class Ping(Control, tag="ping", frozen=True):
    """Are you there?"""


class Pong(Control, tag="pong", frozen=True):
    """I am."""


AnyControl = Hello | Welcome | Farewell | Open | Opened | NotOpened | Ping | Pong

encode_control = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(AnyControl)


def decode_control(data: memoryview) -> AnyControl:
    """The control message in these bytes; raises WireError."""
    try:
        message: AnyControl = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"a control message cannot be read: {error}") from None
    return message
