"""Scenarios: what a run consists of, as plain data. A scenario and a seed determine everything that happens."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from gapless.delivery.port import SpaceSettings, Tuning
from gapless.overlay import Tree
from gapless.sim.network import NetworkSettings


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a scenario. Times are milliseconds from the beginning of the run."""


class Topology(Plan, frozen=True, kw_only=True):
    """Which brokers there are and who is linked to whom: a shape and a size, or of each broker its parent, or links.

    With `cells` the other fields are about cells; a cell's first broker stands for it in the tree, and its further ones
    hang on that.
    """

    shape: str = ""  # chain, star or random
    size: int = 0
    parents: dict[str, str] = {}
    links: tuple[tuple[str, str], ...] = ()
    cells: dict[str, tuple[str, ...]] = {}
    starts_ms: dict[str, int] = {}  # brokers that do not start at once

    def tree(self, random: Random) -> Tree:
        """The tree of brokers. Raises TreeError when it is none."""
        if not self.cells:
            return self._nodes(random)
        over = self._nodes(random)
        entries: list[tuple[str, str | None]] = []
        for cell in over.nodes:
            first, *others = self.cells.get(cell, (cell,))
            parent = over.parent(cell)
            entries.append((first, None if parent is None else self.cells.get(parent, (parent,))[0]))
            entries.extend((other, first) for other in others)
        return Tree(entries)

    def _nodes(self, random: Random) -> Tree:
        if self.links:
            return Tree.from_links(self.links, self.links[0][0])
        if self.parents:
            roots = [parent for parent in dict.fromkeys(self.parents.values()) if parent not in self.parents]
            return Tree([*((root, None) for root in roots), *self.parents.items()])
        entries: list[tuple[str, str | None]] = [("b0", None)]
        for number in range(1, self.size):
            above = {"chain": number - 1, "star": 0}.get(self.shape)
            entries.append((f"b{number}", f"b{random.randrange(number) if above is None else above}"))
        return Tree(entries)


class SpacePlan(Plan, frozen=True, kw_only=True):
    """A space."""

    name: str = "main"
    delivery: str = "direct"


class ClientPlan(Plan, frozen=True, kw_only=True):
    """A client process, and the brokers that it may connect to, the first one first."""

    name: str
    servers: tuple[str, ...]
    start_ms: int = 0
    stop_ms: int = 0  # it says goodbye; 0: never


class PublisherPlan(Plan, frozen=True, kw_only=True):
    """What an application publishes. Each attribute takes one of its values, "@now" being the time."""

    client: str
    name: str
    space: str = "main"
    start_ms: int = 0
    batches: int = 10
    rows: int = 1  # in a batch, at most
    every_ms: int = 10
    attributes: dict[str, tuple[Any, ...]] = {}
    absent: float = 0.0  # the share of attributes that are left out
    skips: float = 0.0  # the share of batches after which some seqs are left out
    body_bytes: int = 8
    queue_bytes: int = 1 << 16  # waiting in the library, above which the application waits too
    retry: bool = False  # what ended unknown is offered again


class SubscriberPlan(Plan, frozen=True, kw_only=True):
    """What an application subscribes to, and how it reads."""

    client: str
    name: str
    space: str = "main"
    filter: str = ""
    topic: str = ""
    start_ms: int = 0
    stop_ms: int = 0  # it unsubscribes; 0: never
    pace_ms: float = 0.0  # between one delivery and the next


class FaultPlan(Plan, frozen=True, kw_only=True):
    """Something that goes wrong. `faults` has the kinds, and which of the fields each of them uses."""

    kind: str
    at_ms: int
    for_ms: int = 0
    target: str = ""
    peer: str = ""
    factor: float = 1.0
    by_ms: int = 0
    effects: int = 0
    unplugged: bool = False


class Scenario(Plan, frozen=True, kw_only=True):
    """A whole run."""

    about: str = ""
    topology: Topology
    network: NetworkSettings = NetworkSettings()
    tuning: Tuning = Tuning()
    space: tuple[SpacePlan, ...] = (SpacePlan(),)
    client: tuple[ClientPlan, ...] = ()
    publisher: tuple[PublisherPlan, ...] = ()
    subscriber: tuple[SubscriberPlan, ...] = ()
    fault: tuple[FaultPlan, ...] = ()
    limits: tuple[str, ...] = ()  # reasons for which something may be given up though nothing has failed yet
    calm_ms: int = 0  # faults are over
    settle_ms: int = 2000  # after calm: what begins later meets a world as if nothing had ever gone wrong
    bound_ms: int = 3000  # within which what was promised must come about
    end_ms: int = 10_000

    def settings(self, space: SpacePlan) -> SpaceSettings:
        """What cores are told of a space."""
        return SpaceSettings(name=space.name, delivery=space.delivery, tuning=self.tuning)
