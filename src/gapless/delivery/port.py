"""What a core is: inputs that come in with the time, effects that go out as data.

A core never reads a clock, opens a socket, logs, draws a random number or awaits. Its host calls one `on_…` method at
a time and carries out the effects that come back, in their order. The simulator and the node are such hosts; because
they keep to the same rules, what is tested in the one is what ships in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from gapless.filters import Interest
from gapless.model.batch import Batch, Rows
from gapless.model.events import Kind
from gapless.model.types import AttributeType, Source


class Now(NamedTuple):
    """The time as the host sees it, both in nanoseconds."""

    at: int  # never goes back; only differences mean anything
    wall: int  # UTC; may step in both directions


class Role(StrEnum):
    """What stands at the other end of a session."""

    BROKER = "broker"
    CLIENT = "client"


class Session(NamedTuple):
    """A conversation with one peer: messages arrive in order, or it ends. A peer that returns gets a new one."""

    id: int  # given by the host, rising, never used again
    peer: str
    role: Role


class Message(msgspec.Struct, frozen=True, tag_field="m", array_like=True):
    """What cores say to each other. The families are unions of tagged structs in each delivery's `messages`."""


WINDOW_BYTES = 4 << 20  # the default of `credit_bytes` in configurations and of `window_bytes` here


class Tuning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Constants that change how a delivery behaves but never what it promises. The simulator draws them."""

    window_bytes: int = WINDOW_BYTES  # what a peer may send before its receiver has passed some of it on
    patience_ms: int = 1000  # how long data waits for a subscriber that does not read before it is dropped (direct)
    grace_ms: int = 5000  # how long a broker that starts waits for its neighbours before it confirms without them
    unheard_bytes: int = 1 << 20  # of what is wanted, so much may be under way to a neighbour at a time
    cover_piece: int = 256  # how many interests are looked at in one go for what covers them
    sources_max: int = 1 << 16  # how many sources are remembered for the test of order and repetition


class SpaceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a core must know of its space."""

    name: str
    delivery: str = "direct"
    attributes: dict[str, AttributeType] = {}  # declared types, enforced
    body_bytes_max: int = 8 << 20
    attributes_max: int = 1024  # of one publication
    attribute_bytes_max: int = 16 << 20  # of one string, in UTF-8
    interest_bytes_max: int = 64 << 20  # of all filters and topic patterns of one client
    names_max: int = 4096  # that one client publishes under
    tuning: Tuning = Tuning()


# --- effects --------------------------------------------------------------------------------------------------------


class Send(NamedTuple):
    """Send a message; in order within the session, or the session ends."""

    session: int
    message: Message


class HangUp(NamedTuple):
    """End a session because its peer broke a rule."""

    session: int
    reason: str


class Dial(NamedTuple):
    """Keep trying to have a session with this broker."""

    peer: str


class Wake(NamedTuple):
    """Call `on_wake(what)` at this time. A wake cannot be taken back; a core must bear one that it no longer needs."""

    at: int
    what: str


class Store(NamedTuple):
    """Make a record durable, then call `on_stored(then)` or `on_store_failed`. What promises it goes out after that."""

    record: bytes
    then: str


class Deliver(NamedTuple):
    """Hand a batch to the application: to each subscription its rows (None: all). `on_taken(token)` follows."""

    token: int
    batch: Batch
    matches: tuple[tuple[int, Rows | None], ...]


class Published(NamedTuple):
    """The request to publish seq `first` to `last` of a source."""

    source: Source
    first: int
    last: int


class Subscribed(NamedTuple):
    """The request to subscribe."""

    subscription: int


class Accepted(NamedTuple):
    """No failure within the budget can lose it any more."""


class Refused(NamedTuple):
    """It was never sent on and never will be."""

    code: str  # the name of an error of `gapless.model.errors`
    text: str


class Unknown(NamedTuple):
    """It may have been accepted; nobody can tell any more."""

    text: str


class Confirmed(NamedTuple):
    """The promises hold from now on, except towards the brokers named."""

    exceptions: tuple[str, ...] = ()


class Answer(NamedTuple):
    """Tell the application what became of its request."""

    request: Published | Subscribed
    outcome: Accepted | Refused | Unknown | Confirmed


class Gap(NamedTuple):
    """Tell a subscription, before anything later is delivered, that some are missing; -1: nobody knows how many."""

    subscription: int
    reason: str
    count: int  # type: ignore[assignment]  # nobody counts the elements of a notice as tuples can


class Note(NamedTuple):
    """A journal event; the host adds time, node and space."""

    event: Kind
    fields: dict[str, Any]


Effect = Send | HangUp | Dial | Wake | Store | Deliver | Answer | Gap | Note
Effects = Sequence[Effect]


class Core(Protocol):
    """What every core understands, at a broker and at a leaf."""

    def on_start(self, stored: Sequence[bytes], now: Now) -> Effects:
        """The process has started, with its settings and the records that were durable when it last ended."""
        ...

    def on_session_up(self, session: Session, now: Now) -> Effects:
        """A session is open. It replaces an older one with the same peer, of which a tail may still be read."""
        ...

    def on_session_down(self, session: int, now: Now) -> Effects:
        """A session has ended; what was sent on it may or may not have arrived."""
        ...

    def on_message(self, session: int, message: Message, now: Now) -> Effects:
        """A message has arrived, in order within its session."""
        ...

    def on_wake(self, what: str, now: Now) -> Effects:
        """A `Wake` is due."""
        ...

    def on_stored(self, then: str, now: Now) -> Effects:
        """The record of the `Store` that named `then` is durable."""
        ...

    def on_store_failed(self, then: str, reason: str, now: Now) -> Effects:
        """The record of the `Store` that named `then` could not be made durable."""
        ...

    def newest(self, now: Now) -> int:
        """No publisher known here has a higher incarnation, and none opened now a lower; who opens one goes above."""
        ...

    def held(self) -> dict[str, int]:
        """How much is held of what must drain (GUARANTEES, state-drained). Empty when nothing is."""
        ...


class LeafCore(Core, Protocol):
    """What a core at a leaf understands besides: the requests of the application."""

    def on_publish(self, batch: Batch, now: Now) -> Effects:
        """The application publishes; the library has numbered the rows."""
        ...

    def on_subscribe(self, subscription: int, interest: Interest, now: Now) -> Effects:
        """The application subscribes."""
        ...

    def on_unsubscribe(self, subscription: int, now: Now) -> Effects:
        """The application wants no more of this subscription."""
        ...

    def on_taken(self, token: int, now: Now) -> Effects:
        """Every subscription of a `Deliver` has handed its rows to the application."""
        ...

    def queued(self) -> int:
        """Bytes of publications that wait to be sent: the library holds back publishers by it."""
        ...
