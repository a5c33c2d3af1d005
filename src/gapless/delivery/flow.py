"""Credits: a peer sends publications only into room that their receiver has granted.

The receiver grants anew what it has passed on or given up, so a full queue is felt hop by hop back to the publisher.
In a tree data never turns back over the edge it came by, so who waits for whom has no cycle and full brokers cannot
deadlock. Everything that is not publications goes without credit; only a word that says something of the publications
before it (`Outbox.follow`) waits behind them.

A message may be sent while any room is left, so room falls below zero by at most one message.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from gapless.delivery.port import Message


class Inbox:
    """What a peer may still send us."""

    __slots__ = ("room", "unpaid", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.room = window
        self.unpaid = 0  # passed on, and not yet granted anew

    def receive(self, size: int) -> bool:
        """Count a message in; false when the peer had no room left for it."""
        allowed = self.room > 0
        self.room -= size
        return allowed

    def passed(self, size: int) -> None:
        """A message has left us."""
        self.unpaid += size

    def grant(self) -> int:
        """What to grant now: nothing until it is worth a message."""
        if self.unpaid * 4 < self.window and self.room > 0:
            return 0
        size, self.unpaid = self.unpaid, 0
        self.room += size
        return size


class Hold:
    """A message that came by an inbox and is still somewhere here; when it is nowhere any more, its room is free."""

    __slots__ = ("inbox", "places", "session", "size")

    def __init__(self, session: int, inbox: Inbox, size: int) -> None:
        self.session = session
        self.inbox = inbox
        self.size = size
        self.places = 1

    def release(self) -> bool:
        """It has left one place; true when that was the last."""
        self.places -= 1
        if self.places == 0:
            self.inbox.passed(self.size)
            return True
        return False


class Waiting(NamedTuple):
    """A message that waits for room."""

    message: Message
    size: int
    rows: int
    hold: Hold | None
    since: int


class Outbox:
    """What waits for one peer, in order."""

    __slots__ = ("room", "size", "waiting")

    def __init__(self) -> None:
        self.room = 0
        self.waiting: deque[Waiting] = deque()
        self.size = 0  # bytes waiting

    def offer(self, item: Waiting) -> bool:
        """True when it may be sent at once; else it waits, and its hold has one more place."""
        if self.room > 0 and not self.waiting:
            self.room -= item.size
            return True
        if item.hold is not None:
            item.hold.places += 1
        self.waiting.append(item)
        self.size += item.size
        return False

    def follow(self, message: Message) -> bool:
        """True when it may be sent at once; else it waits its turn, as it must not overtake. It needs no room."""
        if not self.waiting:
            return True
        self.waiting.append(Waiting(message, 0, 0, None, 0))
        return False

    def next(self) -> Waiting | None:
        """The first that waits, if there is room for it."""
        if not self.waiting or (self.room <= 0 and self.waiting[0].size):
            return None
        item = self.waiting.popleft()
        self.size -= item.size
        self.room -= item.size
        return item

    def clear(self) -> list[Waiting]:
        """Give up what waits."""
        given_up = list(self.waiting)
        self.waiting.clear()
        self.size = 0
        return given_up
