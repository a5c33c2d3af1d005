"""Hazards: the situations a delivery must be proof against, seen while they occur."""

from __future__ import annotations

from collections.abc import Callable

from gapless.delivery.port import Core, Effects, Message
from gapless.sim.host import Host, Watcher
from gapless.sim.network import End
from gapless.sim.world import World


class DirectWatcher:
    """Sees the hazards of `direct`."""

    def __init__(self, world: World) -> None:
        self.world = world

    def on_message(self, host: Host, core: Core, end: End, message: Message, effects: Effects) -> None:
        """A core has been given a message."""

    def on_session(self, host: Host, core: Core, end: End, up: bool, effects: Effects) -> None:
        """A core has been told of a session."""


WATCHERS: dict[str, Callable[[World], Watcher]] = {"direct": DirectWatcher}
