"""A broker in a thread, for tests of what is not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.client.house import brokers, cluster, run, servers_of


@contextmanager
def served(more: str = "", space: str = "") -> Iterator[list[str]]:
    """The servers of a cluster of one broker."""
    config = cluster(more=more, space=space)
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with brokers(config):
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: run(serve(), deadline=60))
    thread.start()
    try:
        assert ready.wait(10)
        yield servers_of(config)
    finally:
        stop.set()
        thread.join()
