"""What threads want done in the loop of an overlay: while one waits for that, the clock goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from gapless.model.errors import Closed
from gapless.node.surroundings import Surroundings, borrowed

if TYPE_CHECKING:
    from gapless.testing.loop import VirtualLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Lending:
    """Keeps count of threads: those that work hold time up, those that wait here do not."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.at_work = 0
        self.surroundings: Surroundings = loop
        self._loop = loop
        self._waiting: dict[Future[Any], bool] = {}  # and whether it was begun
        self.over = False

    def bound(self, function: Callable[[Unpack[Ts]], T]) -> Callable[[Unpack[Ts]], T]:
        """The function, for a thread that is to find this loop."""

        def working(*arguments: *Ts) -> T:
            borrowed.lender = self
            try:
                return function(*arguments)
            finally:
                borrowed.lender = None

        return working

    def submit(self, start: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Do this in the loop. The thread that calls is about to wait for it."""
        future: Future[T] = Future()
        self._waiting[future] = False

        def begin() -> None:
            self._waiting[future] = True
            self.at_work -= 1
            task = self._loop.create_task(start())
            task.add_done_callback(finish)
            future.add_done_callback(lambda _: self._loop.call_soon_threadsafe(task.cancel))

        def finish(task: asyncio.Task[T]) -> None:
            self.at_work += self._waiting.pop(future, False)
            if task.cancelled() or not future.set_running_or_notify_cancel():
                future.cancel()
            elif (error := task.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(task.result())

        if self.over:
            raise Closed("this overlay is closed")
        self._loop.call_soon_threadsafe(begin)
        return future

    def close(self) -> None:
        """Who still waits has waited in vain."""
        self.over = True
        waiting, self._waiting = self._waiting, {}
        for future, begun in waiting.items():
            self.at_work += begun
            future.cancel()
