"""A process in a loop: everything that was begun in its context, which can be held up and can die."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

_OWN: ContextVar[Process | None] = ContextVar("gapless.testing.process", default=None)


class Process:
    """Callbacks of its context run only while it lives and is not held up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.held = False
        self.tasks: dict[asyncio.Task[Any], None] = {}
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

    def die(self) -> list[asyncio.Task[Any]]:
        """Do nothing any more, not even what a task does when it is cancelled. The tasks that were given up."""
        self.alive = False
        self._aside.clear()
        tasks = [task for task in self.tasks if not task.done()]
        self.tasks.clear()
        for task in tasks:
            give_up(task)
        return tasks


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


def give_up(task: asyncio.Task[Any]) -> None:
    """End a task without its loop: nobody will be told, and nobody is warned of it."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # what asyncio.gather does to its own as well
    coroutine = task.get_coro()
    if coroutine is not None:
        with suppress(RuntimeError):  # it would wait for something on its way out
            coroutine.close()
