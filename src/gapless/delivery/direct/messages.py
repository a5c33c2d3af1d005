"""What the cores of `direct` say to each other."""

from __future__ import annotations

from gapless.delivery.port import Message
from gapless.model.batch import Batch


class Credit(Message, tag="credit", frozen=True):
    """Either way: `size` more bytes of publications may be sent to me."""

    size: int


class Publish(Message, tag="publish", frozen=True):
    """Leaf to broker: publications, numbered by the publisher's library."""

    batch: Batch


class Accept(Message, tag="accept", frozen=True):
    """Broker to leaf: it has these publications of yours."""

    source: str
    incarnation: int
    first: int
    last: int


class Reject(Message, tag="reject", frozen=True):
    """Broker to leaf: it has not sent these on and never will; `code` names the error."""

    source: str
    incarnation: int
    first: int
    last: int
    code: str
    text: str


class Subscribe(Message, tag="subscribe", frozen=True):
    """Leaf to broker: I want what matches."""

    subscription: int
    filter: str
    topic: str


class Unsubscribe(Message, tag="unsubscribe", frozen=True):
    """Leaf to broker: no more of it."""

    subscription: int


class Confirm(Message, tag="confirm", frozen=True):
    """Broker to leaf: every broker in reach knows of your subscription; out of reach are `exceptions`."""

    subscription: int
    exceptions: tuple[str, ...]


class Decline(Message, tag="decline", frozen=True):
    """Broker to leaf: this subscription cannot be had."""

    subscription: int
    code: str
    text: str


class Want(Message, tag="want", frozen=True):
    """Broker to broker: what is wanted behind me, as changes, numbered within the session.

    A large change comes in parts of the same number, and `more` says that this one is not the last.
    """

    number: int
    add: tuple[tuple[str, str], ...]
    remove: tuple[tuple[str, str], ...]
    more: bool = False


class Heard(Message, tag="heard", frozen=True):
    """Broker to broker: I have taken in one more of your Wants, in their order."""


class Wanted(Message, tag="wanted", frozen=True):
    """Broker to broker: whoever is in reach behind me knows of your changes up to `number`."""

    number: int
    exceptions: tuple[str, ...]


class Forward(Message, tag="forward", frozen=True):
    """Broker to broker: publications that somebody behind you wants."""

    batch: Batch


class Match(Message, tag="match", frozen=True):
    """Broker to leaf: publications, and for each of these subscriptions of yours its rows (`delivery.selection`)."""

    batch: Batch
    subscriptions: tuple[int, ...]
    rows: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """What it takes of the credit: who receives what can be more than what is received."""
        return self.batch.size + sum(map(len, self.rows)) + 8 * len(self.rows)


class Missed(Message, tag="missed", frozen=True):
    """Broker to leaf: so many publications of each subscription were dropped here, before the next Match."""

    reason: str
    subscriptions: tuple[int, ...]
    counts: tuple[int, ...]


DirectMessage = (
    Credit
    | Publish
    | Accept
    | Reject
    | Subscribe
    | Unsubscribe
    | Confirm
    | Decline
    | Want
    | Heard
    | Wanted
    | Forward
    | Match
    | Missed
)
