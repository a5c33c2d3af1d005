"""One broker of an overlay: the process that it is now."""

from __future__ import annotations

import asyncio
import io
from typing import TextIO

from gapless.model.events import Event, Kind
from gapless.node.broker import Broker
from gapless.node.config import ClusterConfig
from gapless.node.logs import Logger
from gapless.testing.history import History
from gapless.testing.loop import VirtualLoop
from gapless.testing.process import Process


class Hosted:
    """Starts the broker, and ends it."""

    def __init__(self, config: ClusterConfig, me: str, loop: VirtualLoop, history: History, log: TextIO | None) -> None:
        self.me = me
        self.process = Process(me)
        self.broker: Broker
        self._config = config
        self._loop = loop
        self._history = history
        self._log = Logger(log if log is not None else io.StringIO(), style="text", broker=me)

    def start(self) -> None:
        """A new process."""
        self.process = Process(self.me)
        self.broker = Broker(self._config, self.me, self._log, self._history.journal(self.me))
        task = self._loop.create_task(self.broker.start(), name=f"broker {self.me}", context=self.process.context)
        task.add_done_callback(self._on_started, context=self.process.context)

    def _on_started(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.troubles.append(error)

    def die(self, unplugged: bool) -> None:
        """The process is gone, and says nothing more."""
        for task in self.process.die():
            self._loop.tasks.pop(task, None)
        if self.broker.journal is not None:
            self.broker.journal.close()
        self._loop.network.die(self.me, unplugged)

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
