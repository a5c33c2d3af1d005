"""Receipts: what became of what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from gapless.model.errors import GaplessError, OutcomeUnknown, Unsupported


class Lot:
    """Publications that went out together, whose outcome is known together."""

    __slots__ = ("_waiters", "errors", "open", "source_name", "unsettled")

    def __init__(self, source_name: str) -> None:
        self.source_name = source_name
        self.open = True  # more may still be added
        self.unsettled = 0
        self.errors: dict[int, GaplessError] = {}
        self._waiters: list[asyncio.Future[None]] = []

    def settle(self, first: int, last: int, count: int, error: GaplessError | None) -> None:
        """The outcome of these seqs is known."""
        self.unsettled -= count
        if error is not None:
            for seq in range(first, last + 1):
                self.errors[seq] = error
        self.wake()

    def wake(self) -> None:
        """Let those go on who wait, if everything is known."""
        if self.settled:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    @property
    def settled(self) -> bool:
        """Whether every outcome is known."""
        return not self.open and self.unsettled == 0

    async def wait(self, deadline: float | None) -> None:
        """Wait until every outcome is known; OutcomeUnknown when the deadline passes first."""
        if self.settled:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(deadline):
                await waiter
        except TimeoutError:
            raise OutcomeUnknown(
                f"publisher {self.source_name!r} was not told within {deadline:g} s whether it was accepted; "
                "it may still be"
            ) from None


class Receipt:
    """Awaiting it means *accepted*; it raises what went wrong otherwise. `seq` is the (last) number it stands for."""

    __slots__ = ("_first", "_lots", "seq")

    def __init__(self, lots: Lot | tuple[Lot, ...], seq: int, first: int = 0) -> None:
        self._lots = lots
        self.seq = seq
        self._first = first or seq

    def __await__(self) -> Generator[object, None, int]:
        return self.accepted().__await__()

    async def accepted(self, deadline: float | None = None) -> int:
        """Wait until it is accepted and return the seq. After `deadline` seconds: OutcomeUnknown, and sending goes on."""
        lots = self._lots if isinstance(self._lots, tuple) else (self._lots,)
        for lot in lots:
            await lot.wait(deadline)
            for seq, error in lot.errors.items():
                if self._first <= seq <= self.seq:
                    raise error
        return self.seq

    async def delivered(self, deadline: float | None = None) -> None:
        """Not told by `direct`: raises Unsupported."""
        raise Unsupported("the delivery `direct` does not tell when a publication has been delivered; await acceptance")

    def __repr__(self) -> str:
        return f"Receipt(seq={self.seq})"
