"""A broker as a process: started, watched, told to stop, and ended at once when something in it is broken."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from gapless.model.errors import ConfigError
from gapless.node.broker import Broker
from gapless.node.config import ClusterConfig
from gapless.node.http import HttpServer
from gapless.node.journal import Journal
from gapless.node.logs import Logger
from gapless.node.loop import new_event_loop

DRAINED = 0
COULD_NOT_START = 2
BROKEN = 70  # a bug: what the process knows cannot be trusted any more
SIGNALLED = 128  # and the number of the signal: told twice to stop, or stopped before everything had started
FLUSH_S = 0.2
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def check_assertions() -> None:
    """Refuse to run without assertions: they are what keeps a broken broker from going on."""
    if not __debug__:
        raise ConfigError(
            "gapless runs with assertions on, in production too: start Python without -O, and unset PYTHONOPTIMIZE"
        )


def run_broker(
    config: ClusterConfig,
    me: str,
    logger: Logger,
    journal_folder: Path | None = None,
    *,
    faults: bool = False,
    until_input_ends: bool = False,
) -> int:
    """Run one broker until it is told to stop; the exit status. Raises ConfigError when it cannot start."""
    check_assertions()
    config.broker(me)
    journal = None
    if journal_folder is not None:
        journal = Journal(
            journal_folder, me, lambda trouble: logger.error("journal stopped", reason=trouble), faults=faults
        )
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_Process(Broker(config, me, logger, journal), logger).run(until_input_ends))


class _Process:
    def __init__(self, broker: Broker, log: Logger) -> None:
        self.broker = broker
        self.log = log
        self.told = asyncio.Event()

    async def run(self, until_input_ends: bool) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_exception)
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        if until_input_ends:
            _when_input_ends(self._stop)
        server = HttpServer(self.broker)
        try:
            await self.broker.start()
            await server.start()
            flusher = loop.create_task(self._flush_regularly())
            await self.told.wait()
            flusher.cancel()
            await self.broker.drain()
        finally:
            server.close()
        return DRAINED

    async def _flush_regularly(self) -> None:
        journal = self.broker.journal
        while journal is not None:
            await asyncio.sleep(FLUSH_S)
            journal.flush()

    def _stop(self) -> None:
        self.told.set()

    def _on_signal(self, number: int) -> None:
        if self.told.is_set():
            self.log.warning("stopped at once", broker=self.broker.me, signal=signal.Signals(number).name)
            self._leave(SIGNALLED + number)
        self._stop()

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What nobody caught. The world's errors are borne; anything else is a bug, and ends the process here."""
        error = context.get("exception")
        if isinstance(error, OSError):
            self.log.warning("operating system error", message=context.get("message", ""), reason=str(error))
            return
        if error is None:
            self.log.warning("event loop", message=context.get("message", ""))
            return
        self.log.error(
            "broken: this is a bug in Gapless, and the broker ends here",
            broker=self.broker.me,
            reason=f"{type(error).__name__}: {error}",
            traceback="".join(traceback.format_exception(error)),
        )
        self._leave(BROKEN)

    def _leave(self, status: int) -> NoReturn:
        """End without running anything else, so that nothing more is said or done."""
        if self.broker.journal is not None:
            self.broker.journal.close()
        sys.stderr.flush()
        os._exit(status)


def _when_input_ends(then: Callable[[], None]) -> None:
    """Call when whoever holds the other end of our standard input is gone."""
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            then()

    loop.add_reader(descriptor, read)
