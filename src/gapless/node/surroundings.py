"""What a process finds around it besides the network: clocks, chance, a journal.

Usually they are the machine's. An event loop that is a world of its own, as that of `gapless.testing` is, brings
others: whatever runs in it asks `here()` and gets those.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gapless.delivery.port import Now

if TYPE_CHECKING:
    from gapless.node.journal import Journal


class Surroundings:
    """Those of the machine. A loop that inherits from this as well brings its own."""

    def now(self) -> Now:
        """The time."""
        return Now(time.monotonic_ns(), time.time_ns())

    def uniform(self, least: float, most: float) -> float:
        """A number between the two."""
        return random.uniform(least, most)

    def token(self, size: int) -> str:
        """So many bytes that nobody else has, in hexadecimal digits."""
        return secrets.token_hex(size)

    def journal(self, node: str) -> Journal | None:
        """Where a process writes its history that was not told a place; None: nowhere."""
        return None


T = TypeVar("T")


class Lender(Protocol):
    """Has a loop in which threads may let something be done."""

    surroundings: Surroundings

    def submit(self, start: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Do this there. The thread that calls is about to wait for it."""
        ...


class _Borrowed(threading.local):
    lender: Lender | None = None


borrowed = _Borrowed()  # whose loop this thread is to use instead of one of its own

_MACHINE = Surroundings()


def here() -> Surroundings:
    """The surroundings of the event loop that runs here or was lent to this thread, or the machine's."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _MACHINE if borrowed.lender is None else borrowed.lender.surroundings
    return loop if isinstance(loop, Surroundings) else _MACHINE
