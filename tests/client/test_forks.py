"""Forks while a bus is open: what the child does on its way out is no business of the parent's connection."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from tests.client.house import SPACE, brokers, cluster, run, servers_of

import gapless

LEAVES = """
import asyncio, os, sys
import gapless
from gapless.node.loop import new_event_loop

HOW = sys.argv[2]

async def main(server):
    async with gapless.connect(server, name="teller") as bus, bus.publisher("quotes", "till") as out:
        sub = await bus.subscribe("quotes")
        await (await out.send({"n": 0}))
        receipt = await out.send({"n": 1})  # waits in the library when the fork comes
        child = os.fork()
        if child == 0:
            if HOW == "uses":
                for use in (out.flush(), out.close(), receipt.accepted(), bus.drain()):
                    try:
                        await use
                    except gapless.Closed as error:
                        assert "forked" in str(error)
                    else:
                        raise AssertionError("used in the child")
                await sub.close()
                await bus.close()
                os._exit(7)
            raise RuntimeError("leaving the child")
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            pass
        assert await receipt.accepted(5) == 2
        for seq in range(3, 10):
            assert await (await out.send({"n": seq})).accepted(5) == seq
        assert [(await sub.next(5)).seq for _ in range(9)] == list(range(1, 10)) and not sub.gaps
        if HOW == "uvloop":
            assert await asyncio.to_thread(lambda: 3) == 3

with asyncio.Runner(loop_factory=new_event_loop if HOW == "uvloop" else asyncio.new_event_loop) as runner:
    parent = os.getpid()
    try:
        runner.run(main(sys.argv[1]))
    except RuntimeError:
        if os.getpid() == parent:
            raise
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("how", ["uses", "asyncio", "uvloop"])
def test_a_child_that_unwinds_leaves_the_connection_of_its_parent_alone(how: str) -> None:
    """However a forked child ends, it sends nothing, takes nothing and breaks nothing of its parent's."""

    async def story() -> None:
        config = cluster()
        async with brokers(config), gapless.connect(servers_of(config)) as other, other.subscribe(SPACE) as sub:
            command = [sys.executable, "-c", LEAVES, servers_of(config)[0], how]
            done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=25, check=False)
            assert done.returncode == 0, done.stderr.decode()
            assert [(await sub.next(5)).attributes["n"] for _ in range(9)] == [0, 1, *range(3, 10)]

    run(story(), deadline=40)
