"""Dials the neighbours that are ours to dial, and again whenever their link is gone."""

from __future__ import annotations

import asyncio
from typing import Protocol

from gapless.node.config import ClusterConfig
from gapless.node.link import Link, Pace
from gapless.node.logs import Logger
from gapless.node.sockets import cause_of
from gapless.node.surroundings import here


class NewLink(Protocol):
    """Makes the end of a connection."""

    def __call__(self, *, dialled: bool) -> Link:
        """A link that is not connected yet."""
        ...


class Dialler:
    """Has a link with each of its peers whenever it can be had, and says once when it cannot."""

    def __init__(self, config: ClusterConfig, pace: Pace, new_link: NewLink, log: Logger) -> None:
        self._config = config
        self._pace = pace
        self._new_link = new_link
        self._log = log
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._expected: dict[int, str] = {}  # whom each link was meant to reach

    def dial(self, peer: str) -> None:
        """Keep a link with this peer from now on."""
        if peer not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._keep(peer), name=f"dial {peer}")
            task.add_done_callback(_complain)
            self._tasks[peer] = task

    def stop(self) -> None:
        """Dial no more. Links that there are stay."""
        for task in self._tasks.values():
            task.cancel()

    def expected(self, link: Link) -> str:
        """Whom this link was meant to reach."""
        return self._expected.get(link.number, "")

    async def _keep(self, peer: str) -> None:
        tuning = self._config.tuning
        address = self._config.broker(peer).listen
        wait = tuning.redial_min_ms
        told = ""
        while True:
            try:
                link = await self._connect(peer, address.host, address.port)
                await link.ended.wait()
                del self._expected[link.number]
                trouble = "" if link.peer else link.reason  # without a name it was over before they had greeted
            except OSError as error:
                trouble = cause_of(error)
            if not trouble:
                wait = tuning.redial_min_ms
            else:
                if trouble != told:
                    self._log.warning("cannot reach broker", peer=peer, address=str(address), reason=trouble)
                wait = min(wait * 2, tuning.redial_max_ms)
            told = trouble
            await asyncio.sleep(wait / 1000 * here().uniform(0.5, 1.0))

    async def _connect(self, peer: str, host: str, port: int) -> Link:
        loop = asyncio.get_running_loop()
        link = self._new_link(dialled=True)
        self._expected[link.number] = peer
        try:
            async with asyncio.timeout(self._pace.handshake_s):
                await loop.create_connection(lambda: link, host, port)
        except BaseException:
            del self._expected[link.number]
            raise
        return link


def _complain(task: asyncio.Task[None]) -> None:
    """A dialler never ends by itself; if it does that is a bug, and whoever runs the loop has to know."""
    if not task.cancelled() and task.exception() is not None:
        task.get_loop().call_exception_handler(
            {"message": f"task {task.get_name()} failed", "exception": task.exception(), "task": task}
        )
