"""All brokers of a cluster as child processes on this machine: started, watched, drained. Nobody is started twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gapless.model.events import Kind
from gapless.node.clock import now
from gapless.node.config import ClusterConfig
from gapless.node.journal import Journal
from gapless.node.logs import timestamp
from gapless.node.process import DRAINED

LINE_BYTES_MAX = 1 << 20
Log = Mapping[str, Any]


class Child:
    """One broker."""

    def __init__(self, me: str, process: asyncio.subprocess.Process) -> None:
        self.me = me
        self.process = process
        self.listening = False
        self.status: int | None = None

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.status is None:
            return "runs"
        if self.status >= 0:
            return f"ended with status {self.status}"
        return f"was killed by {signal.Signals(-self.status).name}"


class Fleet:
    """Starts every broker of a cluster and tells what they log, when all are up, and when one ends."""

    def __init__(
        self,
        config: ClusterConfig,
        command: Sequence[str],
        on_log: Callable[[str, Log], None],
        on_end: Callable[[Child], None],
        journal: Journal | None = None,
    ) -> None:
        """`command` is what starts a broker, without its id."""
        self.config = config
        self.children: dict[str, Child] = {}
        self.draining = False
        self._command = command
        self._on_log = on_log
        self._on_end = on_end
        self._journal = journal
        self._linked: dict[str, str] = {}  # brokers that have a link with their parent
        self._changed = asyncio.Event()
        self._watchers: list[asyncio.Task[None]] = []

    async def start(self) -> bool:
        """Start all; true when every one listens and has found its parent, false when one ended before that."""
        for broker in self.config.brokers:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                "--id",
                broker.id,
                stdin=asyncio.subprocess.PIPE,  # its end tells them that this process is gone
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_BYTES_MAX,
                start_new_session=True,  # Ctrl-C is for this process, which drains them
            )
            child = self.children[broker.id] = Child(broker.id, process)
            self._watchers.append(asyncio.create_task(self._watch(child), name=f"watch {broker.id}"))
        while not self._all_up() and not self._one_down() and not self.draining:
            self._changed.clear()
            await self._changed.wait()
        return self._all_up()

    async def wait(self) -> None:
        """Until all have ended."""
        await asyncio.gather(*self._watchers)

    def drain(self) -> None:
        """Tell all to stop; told twice they stop at once."""
        self.draining = True
        self._changed.set()
        for child in self.children.values():
            if child.status is None:
                with contextlib.suppress(ProcessLookupError):
                    child.process.send_signal(signal.SIGTERM)

    def lost(self) -> list[Child]:
        """Those that ended in another way than by draining."""
        return [child for child in self.children.values() if child.status not in (None, DRAINED)]

    def _all_up(self) -> bool:
        return all(
            child.listening and child.status is None and (self._linked.get(me) or self.config.broker(me).parent is None)
            for me, child in self.children.items()
        )

    def _one_down(self) -> bool:
        return any(child.status is not None for child in self.children.values())

    async def _watch(self, child: Child) -> None:
        assert child.process.stderr is not None
        async for line in child.process.stderr:
            self._heard(child, line.decode(errors="replace").rstrip("\n"))
        child.status = await child.process.wait()
        if child.status != DRAINED and self._journal is not None:
            self._journal.write(Kind.FAULT, now(), reason=f"process: {child.ending}", peer=child.me)
            self._journal.flush()
        self._on_end(child)
        self._changed.set()

    def _heard(self, child: Child, line: str) -> None:
        try:
            log = json.loads(line)
            if not isinstance(log, dict) or "event" not in log:
                raise ValueError
        except ValueError:  # Python itself, where it cannot even begin or is at its end
            log = {"time": timestamp(), "level": "error", "event": "output", "text": line}
        if log.get("event") == "listening":
            child.listening = True
        if log.get("event") == "link open" and log.get("peer") == self.config.broker(child.me).parent:
            self._linked[child.me] = log["peer"]
        self._on_log(child.me, log)
        self._changed.set()


def broker_command(config: Path, *more: str) -> list[str]:
    """What starts a broker of this configuration as a child that ends with its parent."""
    return [sys.executable, "-m", "gapless", "broker", str(config), "--log-format", "json", "--until-input-ends", *more]
