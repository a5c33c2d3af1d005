"""Disks: records that outlive processes, once they are durable."""

from __future__ import annotations

from collections.abc import Callable

from gapless.sim.world import MILLISECOND, World

Outcome = Callable[[str, str], None]  # then, and why it failed ("": it is durable)


class Disk:
    """The disk of one host. Records of a space become durable in the order in which they were handed in."""

    def __init__(self, world: World, name: str, store_ms: float) -> None:
        self.full = False
        self._world = world
        self._random = world.random(f"disk/{name}")
        self._delay = int(store_ms * MILLISECOND)
        self._durable: dict[str, list[bytes]] = {}
        self._doubtful: list[tuple[str, bytes]] = []
        self._due = 0

    def records(self, space: str) -> list[bytes]:
        """What a starting process finds."""
        return list(self._durable.get(space, ()))

    def store(self, space: str, record: bytes, then: str, outcome: Outcome) -> None:
        """Write a record; after a while it is durable, or could not be written."""
        self._due = max(self._due, self._world.now) + int(self._delay * (0.5 + self._random.random()))
        if self.full:
            self._world.at(self._due, outcome, then, "the disk is full")
            return
        self._doubtful.append((space, record))
        self._world.at(self._due, self._flush, self._doubtful, then, outcome)

    def _flush(self, doubtful: list[tuple[str, bytes]], then: str, outcome: Outcome) -> None:
        if doubtful is not self._doubtful:
            return  # the process that asked has died since, and its doubts were settled then
        space, record = doubtful.pop(0)
        self._durable.setdefault(space, []).append(record)
        outcome(then, "")

    def crash(self) -> None:
        """The process dies: what was under way may be durable or not, the older the likelier."""
        for space, record in self._doubtful[: self._random.randint(0, len(self._doubtful))]:
            self._durable.setdefault(space, []).append(record)
        self._doubtful = []

    def lose(self) -> None:
        """A new, empty disk."""
        self._durable.clear()
