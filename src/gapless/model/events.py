"""The history of a run: what each process journals, one event a line.

One schema for the simulator, for real brokers and clients, and for the audit; docs/history.md tells it with examples.
A history is a sequence of events. With `clock = "global"` on its `run` line (the simulator; processes of one machine,
merged by `at`) the order of the lines is the order of time. With `clock = "causal"` only events of one `node` are
ordered (by `n`), and what happened before what between processes follows from what was delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from hashlib import blake2b
from typing import Any, BinaryIO

import msgspec

HISTORY_VERSION = 1

# Reasons that a history explains by itself; docs/history.md says what each means. What follows a colon is for people.
MISTAKES = (  # of a refusal: whoever asked can see that it is their own
    "PublicationError",
    "AttributeTypeError",
    "SchemaError",
    "TooLarge",
    "FilterError",
    "UnknownSpace",
    "Unsupported",
    "TooManyNames",
)
FENCED = "Fenced"  # of a refusal: a newer holder of the publisher's name
CLOSED, DRAINING, TAKEN_OVER = "closed", "draining", "fenced"
GOODBYES = (CLOSED, DRAINING, TAKEN_OVER)  # of a disconnection
SLOW_SUBSCRIBER, DISCONNECTED, SESSION_ENDED = "slow-subscriber", "disconnected", "session-ended"
HARMLESS = ("offered-twice", "stale", "unsubscribed")  # of a drop: nobody is owed what went
LIMITS = ("lease", "retention", SLOW_SUBSCRIBER)  # of a gap: a declared limit, not a loss by failures
OVER_BUDGET = "over-budget"  # of a fault: from here on more has failed at one time than the space promises to bear

type_of_attribute = bool | int | float | str


class Kind(StrEnum):
    """What happened. The words are those of GUARANTEES: a history is read with that page beside it."""

    RUN = "run"  # first line: version, and what the run promises to be (delivery, mode, faults)
    PUBLISH = "publish"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    SUBSCRIBE = "subscribe"
    CONFIRMED = "confirmed"
    COVERED = "covered"
    DELIVERED = "delivered"
    ACKNOWLEDGED = "acknowledged"
    UNSUBSCRIBE = "unsubscribe"
    GAP = "gap"
    DROPPED = "dropped"
    DISCONNECTED = "disconnected"
    CRASH = "crash"
    RESTART = "restart"
    LINK_DOWN = "link-down"
    LINK_UP = "link-up"
    FAULT = "fault"
    CALM = "calm"
    END = "end"
    HELD = "held"
    JOIN = "join"
    JOINED = "joined"
    LEAVE = "leave"
    LEFT = "left"


class Event(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """One line of a history. Fields that do not belong to the kind of event are absent.

    run           version delivery [space mode faults bound clock limits sizes attributes parents]    of all, or one
    publish       space source incarnation seq attributes body [size order keys]    one for each publication handed in
    accepted      space source incarnation seq last [pubend tick]    the range seq..last is accepted
    refused       space source incarnation seq last reason    never sent on, never to be delivered
    refused       space subscription reason    a subscribe was refused
    refused       node reason    a join or leave was refused
    unknown       space source incarnation seq last    the publisher gave up waiting, or its process died
    subscribe     space subscription filter [topic total + the cursor presented: source incarnation seq]
    confirmed     space subscription [exceptions starts + where its home goes on: source incarnation seq]
    covered       space subscription exceptions    these exceptions have ended
    delivered     space subscription source incarnation seq body [digest attributes redelivered]    handed over
    acknowledged  space subscription source incarnation seq    all up to here, in delivery order, has been taken over
    unsubscribe   space subscription
    gap           space subscription reason [source incarnation seq last | exceptions]    given up, and announced
    dropped       space reason count [source incarnation seq last subscription]    a core let something go
    disconnected  node peer reason    a host ended a session on its own decision
    crash         node    the process died; its memory is lost
    restart       node
    link-down     node peer    the two ends of the link; so for link-up
    fault         reason [node peer]    any other fault: stall, slow, pause, clock step, …, over-budget
    calm              no faults from here on
    end               the run was watched until here; liveness is judged here
    held          node reason count    at the end: state that has not drained
    join          node [peer]    a broker asks to enter the overlay; `joined` answers. So for leave and left
    """

    event: Kind
    at: int  # nanoseconds: simulator time, or the monotonic clock of the process
    node: str = ""  # whose journal: a broker or client process
    n: int = 0  # position in that journal
    wall: int = 0  # nanoseconds UTC, for reports only
    space: str = ""
    source: str = ""
    incarnation: int = 0
    seq: int = 0
    last: int = 0  # inclusive end of a range; 0 means `seq` alone
    attributes: dict[str, type_of_attribute | None] | None = None
    body: str = ""  # digest of the bytes, see `digest_of`
    size: int = 0  # on `publish`: how many bytes the body has
    digest: str = ""  # on `delivered`: of the attributes, see `digest_of_attributes`
    pubend: str = ""  # stream: where the publication was logged
    tick: int = 0  # stream: of `seq`; the k-th publication after it in the range has `tick + k`
    order: str = ""  # eventual, causal or total (keyed)
    keys: tuple[str, ...] = ()
    subscription: str = ""
    filter: str = ""
    topic: str = ""  # topic pattern of a subscription
    total: bool = False  # the subscription asked for uniform total order
    starts: dict[str, int] | None = None  # stream: the start tick per pubend
    exceptions: tuple[str, ...] = ()  # names of brokers or partitions a confirmation leaves out
    redelivered: bool = False
    reason: str = ""
    count: int = 0
    peer: str = ""
    delivery: str = ""  # on `run`
    mode: str = ""  # on `run`: hard or relaxed
    faults: bool = False  # on `run`: whether the run may contain faults
    bound: int = 0  # on `run`: nanoseconds after calm within which liveness must hold
    version: int = 0  # on `run`
    clock: str = "global"  # on `run`: global or causal, see above
    limits: tuple[str, ...] = ()  # on `run`: reasons by which a declared limit may be reached without any fault
    sizes: dict[str, int] | None = None  # on `run`: beyond which what is asked is refused
    parents: dict[str, str] | None = (
        None  # on `run`: the tree, clients included, if it stays: what lies beyond an exception
    )


def digest_of(body: bytes | bytearray | memoryview) -> str:
    """The digest by which a history names the bytes of a body."""
    return blake2b(body, digest_size=8).hexdigest()


def digest_of_attributes(attributes: Mapping[str, Any]) -> str:
    """The digest by which a history names attributes: of their JSON object, by name, as `publish` tells them."""
    return digest_of(_sorted_encoder.encode(attributes))


_encoder = msgspec.json.Encoder()
_sorted_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(Event)


def encode_event(event: Event) -> bytes:
    """One line, without its newline."""
    return _encoder.encode(event)


def decode_event(line: bytes | str) -> Event:
    """The event on one line; raises `msgspec.ValidationError` when it is none."""
    return _decoder.decode(line)


def write_history(file: BinaryIO, events: Iterable[Event]) -> None:
    """Write a history as NDJSON into an open binary file."""
    for event in events:
        file.write(_encoder.encode(event))
        file.write(b"\n")


def read_history(file: BinaryIO) -> Iterator[Event]:
    """The events of an open NDJSON file, in their order; raises `msgspec.DecodeError` at a line that is none."""
    for line in file:
        if line.strip():
            yield _decoder.decode(line)
