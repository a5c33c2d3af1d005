"""A process in a loop: everything that was begun in its context, which can be held up and can die."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

from gapless.node.journal import Journal

LAST_WORDS_MAX = 100  # how often a coroutine may wait once more when it is told to end

_OWN: ContextVar[Process | None] = ContextVar("gapless.testing.process", default=None)


class Process:
    """Callbacks of its context run only while it lives and is not held up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.held = False
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.remains: list[asyncio.Task[Any]] = []  # of a dead process: what nobody runs any more
        self.journals: list[Journal] = []
        self.context: Context = copy_context()
        self.context.run(_OWN.set, self)
        self._aside: list[tuple[Call, Context]] = []

    def set_aside(self, call: Call) -> None:
        """It is due and the process is held up."""
        self._aside.append((call, copy_context()))

    def hold(self) -> None:
        """Do nothing from now on."""
        self.held = True

    def release(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on, with what was due meanwhile first, in the order in which it was."""
        self.held = False
        aside, self._aside = self._aside, []
        for call, context in aside:
            loop.call_soon(call.again, context=context)

    def die(self) -> None:
        """Do nothing any more, not even what a task does on its way out."""
        if not self.alive:
            return
        self.alive = False
        self._aside.clear()
        self.remains = [task for task in self.tasks if not task.done()]
        self.tasks.clear()
        for task in self.remains:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # what asyncio.gather does to its own as well
        for journal in self.journals:
            journal.close()

    def bury(self) -> None:
        """The test is over: let what remains be collected."""
        remains, self.remains = self.remains, []
        for task in remains:
            coroutine = task.get_coro()
            for _ in range(LAST_WORDS_MAX):
                with suppress(Exception):  # on its way out it finds nothing as it was, or waits for something more
                    coroutine.close()
                    break


class Call:
    """Something to do for a process."""

    __slots__ = ("args", "callback", "handle", "process")

    def __init__(self, process: Process, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.process = process
        self.callback = callback
        self.args = args
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        """It is due."""
        if not self.process.alive:
            return
        if self.process.held:
            self.process.set_aside(self)
        else:
            self.callback(*self.args)

    def again(self) -> None:
        """It was set aside, and may have been cancelled since."""
        if self.handle is None or not self.handle.cancelled():
            self()


def process_of(context: Context | None) -> Process | None:
    """Whose context it is (None: the one here); None when it is the application's."""
    return _OWN.get() if context is None else context.get(_OWN)
