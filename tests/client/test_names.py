"""The names that publishers go by."""

from __future__ import annotations

import re
import time

import pytest
from tests.client.house import SPACE, brokers, cluster, run, servers_of

import gapless


def test_a_clock_that_is_wrong_by_years_keeps_nobody_from_publishing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose clock is far ahead publishes, and publishers opened after it elsewhere take its names over."""

    async def story() -> None:
        config = cluster()
        async with brokers(config), gapless.connect(servers_of(config)) as one:
            with monkeypatch.context() as wrong:
                wrong.setattr(time, "time_ns", lambda: (1 << 63) - 10)
                ahead = await one.publisher(SPACE, name="till-7")
                await (await ahead.send({"n": 1}))
            async with gapless.connect(servers_of(config)) as other:
                await (await (await other.publisher(SPACE, name="till-7")).send({"n": 2}))
                with pytest.raises(gapless.Fenced):
                    await (await ahead.send({"n": 3}))

    run(story())


def test_publishers_come_and_go_under_few_names() -> None:
    """A publisher without a name takes one that is free again, so that a busy client stays below `names_max`."""

    async def story() -> None:
        config = cluster(more="[limits]\nnames_max = 2\n")
        async with brokers(config), gapless.connect(servers_of(config)) as bus:
            for _ in range(5):
                async with bus.publisher(SPACE) as out:
                    await (await out.send({"n": 1}))
            assert re.fullmatch(rf"{bus.name}\.[0-9a-f]{{16}}", out.source.name)
            async with bus.publisher(SPACE) as one, bus.publisher(SPACE) as other, bus.publisher(SPACE) as third:
                await (await one.send({"n": 1}))
                await (await other.send({"n": 1}))
                with pytest.raises(gapless.TooManyNames, match="raise names_max"):
                    await (await third.send({"n": 1}))

    run(story())
