"""Deadlines: seconds from now, one for everything that a call does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gapless.model.errors import GaplessError


class Deadline:
    """So many seconds from now; None: no end."""

    __slots__ = ("_until", "seconds")

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._until = None if seconds is None else asyncio.get_running_loop().time() + seconds

    def left(self) -> float | None:
        """Seconds that are left."""
        return None if self._until is None else max(self._until - asyncio.get_running_loop().time(), 0.0)

    def __str__(self) -> str:
        return "any time" if self.seconds is None else f"{self.seconds:g} s"


@asynccontextmanager
async def within(deadline: float | None, late: Callable[[], GaplessError]) -> AsyncIterator[None]:
    """Do what is inside within so many seconds, or raise what `late` makes."""
    try:
        async with asyncio.timeout(deadline) as scope:
            yield
    except TimeoutError:
        if not scope.expired():
            raise
        raise late() from None
