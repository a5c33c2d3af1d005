"""Plays the stories in the test kit: the same client and brokers, in time of their own."""

from __future__ import annotations

from itertools import pairwise

from tests.conformance.live import SPACE, LiveStage, Told

import gapless
from gapless.testing import Overlay


def play_in_the_kit(commands: list[str]) -> Told:
    """Do all commands; what was told in the end. That no promise is broken is judged as well."""
    chains = [
        chain.split("-") for command in commands if command.startswith("brokers ") for chain in command.split()[1:]
    ]
    parents: dict[str, str | None] = {chains[0][0]: None}
    parents.update({child: parent for chain in chains for parent, child in pairwise(chain)})
    with Overlay(parents, SPACE) as overlay:
        return overlay.run(KitStage(overlay).play(commands))


class KitStage(LiveStage):
    """Where others wait for sockets, it lets the overlay settle."""

    def __init__(self, overlay: Overlay) -> None:
        super().__init__([])
        self.overlay = overlay

    async def _on_settle(self, words: list[str]) -> None:
        for name, servers in self._clients:
            if name not in self._buses:
                bus = gapless.connect([self.overlay.server(one) for one in servers], name=name)
                self._buses[name] = await self._stack.enter_async_context(bus)
        await self.overlay.settle()

    async def _on_crash(self, words: list[str]) -> None:
        self.overlay.kill(words[0])

    async def _on_restart(self, words: list[str]) -> None:
        self.overlay.restart(words[0])
