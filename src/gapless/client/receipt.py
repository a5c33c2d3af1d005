"""Receipts: what became of what was sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator

from gapless.client.deadline import within
from gapless.model.errors import GaplessError, OutcomeUnknown, Unsupported

FAILURES_REMEMBERED = 100


class Failures:
    """What went wrong with a publisher's publications, and no receipt has told yet."""

    __slots__ = ("_untold",)

    def __init__(self) -> None:
        self._untold: deque[GaplessError] = deque(maxlen=FAILURES_REMEMBERED)

    def add(self, error: GaplessError) -> None:
        """Something went wrong."""
        if len(self._untold) < FAILURES_REMEMBERED:
            self._untold.append(error)

    def told(self, error: GaplessError) -> None:
        """A receipt has raised it."""
        if error in self._untold:
            self._untold.remove(error)

    def take(self) -> GaplessError | None:
        """The first of them; from then on none is remembered."""
        first = self._untold[0] if self._untold else None
        self._untold.clear()
        return first


class Lot:
    """Publications that went out together, whose outcome is known together."""

    __slots__ = ("_waiters", "errors", "failures", "open", "source_name", "unsettled")

    def __init__(self, source_name: str, failures: Failures) -> None:
        self.source_name = source_name
        self.failures = failures
        self.open = True  # more may still be added
        self.unsettled = 0
        self.errors: dict[int, GaplessError] = {}
        self._waiters: list[asyncio.Future[None]] = []

    def settle(self, first: int, last: int, count: int, error: GaplessError | None) -> None:
        """The outcome of these `count` seqs is known; those that failed before keep their own reason."""
        self.unsettled -= count
        if error is not None:
            for seq in range(first, last + 1):
                self.errors.setdefault(seq, error)
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

    async def wait(self) -> None:
        """Wait until every outcome is known."""
        if self.settled:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def late(self, deadline: float | None) -> OutcomeUnknown:
        """What is raised when nobody wants to wait any longer."""
        return OutcomeUnknown(
            f"publisher {self.source_name!r} was not told within {deadline:g} s whether it was accepted; it may still "
            "be: await the receipt again to learn it"
        )


class Receipt:
    """Awaiting it means *accepted*; it raises what went wrong otherwise. `seq` is the (last) number it stands for.

    It may be awaited as often as one likes.
    """

    __slots__ = ("_lots", "first", "seq")

    def __init__(self, lots: Lot | tuple[Lot, ...], seq: int, first: int = 0) -> None:
        self._lots = lots
        self.seq = seq
        self.first = first or seq

    def __await__(self) -> Generator[object, None, int]:
        return self.accepted().__await__()

    async def accepted(self, deadline: float | None = None) -> int:
        """Wait until it is accepted and return the seq. After the deadline: OutcomeUnknown, and sending goes on."""
        if not self.settled:
            async with within(deadline, lambda: self._all()[0].late(deadline)):
                for lot in self._pending():
                    await lot.wait()
        for error in self.errors.values():
            self._all()[0].failures.told(error)
            raise error.with_traceback(None)
        return self.seq

    @property
    def settled(self) -> bool:
        """Whether its outcome is known: awaiting it does not wait any more."""
        return not self._pending()

    @property
    def errors(self) -> dict[int, GaplessError]:
        """What went wrong, as far as it is known, by seq: empty when all is well. The others are not harmed."""
        lots = self._all()
        if self.first == self.seq:
            found = [lot.errors[self.seq] for lot in lots if self.seq in lot.errors]
            return {self.seq: found[0]} if found else {}
        wrong = {seq: error for lot in lots for seq, error in lot.errors.items() if self.first <= seq <= self.seq}
        return dict(sorted(wrong.items()))

    def _all(self) -> tuple[Lot, ...]:
        return self._lots if isinstance(self._lots, tuple) else (self._lots,)

    def _pending(self) -> list[Lot]:
        return [lot for lot in self._all() if not lot.settled]

    async def delivered(self, deadline: float | None = None) -> None:
        """Not told by `direct`: raises Unsupported."""
        raise Unsupported("the delivery `direct` does not tell when a publication has been delivered; await acceptance")

    def __repr__(self) -> str:
        what = f"seq={self.seq}" if self.first == self.seq else f"first={self.first}, seq={self.seq}"
        return f"Receipt({what})"
