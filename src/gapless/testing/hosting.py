"""What runs in an overlay as a process: brokers, and applications that can be killed."""

from __future__ import annotations

import asyncio
import io
from typing import Any, NamedTuple, TextIO

from gapless.model.events import Event, Kind
from gapless.node.broker import Broker
from gapless.node.config import ClusterConfig
from gapless.node.logs import Logger
from gapless.testing.history import History
from gapless.testing.loop import VirtualLoop
from gapless.testing.process import Process


class Application(NamedTuple):
    """A part of the application under test, in a process of its own."""

    process: Process
    task: asyncio.Task[Any]

    @property
    def is_running(self) -> bool:
        """Whether it has neither ended nor died."""
        return self.process.alive and not self.task.done()

    def failure(self) -> BaseException | None:
        """The error it ended with, if nobody has awaited it."""
        if not self.task.done() or self.task.cancelled() or not getattr(self.task, "_log_traceback", False):
            return None
        return self.task.exception()


class Hosted:
    """Starts the broker, time and again."""

    def __init__(self, config: ClusterConfig, me: str, loop: VirtualLoop, history: History, log: TextIO | None) -> None:
        self.me = me
        self.process = Process(me)
        self.broker: Broker
        self._config = config
        self._loop = loop
        self._history = history
        self._log = Logger(log if log is not None else io.StringIO(), style="text", broker=me)

    def start(self) -> Process:
        """A new process."""
        self.process = Process(self.me)
        journal = self.process.context.run(self._history.journal, self.me)
        self.broker = Broker(self._config, self.me, self._log, journal)
        task = self._loop.create_task(self.broker.start(), name=f"broker {self.me}", context=self.process.context)
        task.add_done_callback(self._on_started, context=self.process.context)
        return self.process

    def _on_started(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.troubles.append(error)

    def has_all_its_neighbours(self) -> bool:
        """Whether it has a link with each."""
        return set(self.broker.latest) >= set(self.broker.neighbours)

    def held(self) -> list[Event]:
        """What the cores of this process hold that should have drained."""
        at, wall = self._loop.now()
        return [
            Event(event=Kind.HELD, at=at, wall=wall, node=self.me, space=name, reason=reason, count=count)
            for name, space in self.broker.spaces.items()
            for reason, count in space.core.held().items()
        ]
