"""Small worlds: a few brokers and clients, what the applications do, and the faults of which at most one occurs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gapless.delivery.port import Role, SpaceSettings, Tuning
from gapless.filters import Interest
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.errors import ConfigError, FilterError
from gapless.model.types import Attributes, Source
from gapless.overlay import Tree, TreeError
from gapless.sim.explore.cores import Place

SPACE = "main"
VERBS = {"publish": "publish SOURCE ATTRIBUTE=VALUE ... [; ...]", "subscribe": "subscribe NAME [FILTER]"} | {
    "unsubscribe": "unsubscribe NAME",
    "again": "again SOURCE",  # offers again what has ended unknown, as soon as something has
    "await": "await NAME",  # goes on when the subscription is confirmed
}
FAULTS: dict[str, str] = {
    "crash": "HOST dies, between any two steps or effects of a step, and comes back at any time",
    "reset": "a session between HOST and PEER breaks; each side learns of it at any time, after any part of what came",
    "link": "the link between HOST and PEER breaks, and is there again at any time",
    "suspicion": "HOST gives up PEER, which is well",
    "move": "CLIENT goes over to its next server, and leaves the old one at any time",
    "hurry": "a timer goes off although there are messages under way",
}
PARTIES = {"crash": 1, "reset": 2, "link": 2, "suspicion": 2, "move": 1, "hurry": 0}


class Client(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A client, and what its application does: first, in any order with all else, and when all is over."""

    name: str
    servers: tuple[str, ...]
    first: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


class SmallWorld(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A world that is small enough to be explored to its end."""

    about: str
    brokers: tuple[str, ...]  # in the order of the tree: "b0", or "b1 b0" for b1 below b0
    client: tuple[Client, ...]
    fault: tuple[str, ...] = ()  # of which at most one occurs
    cold: bool = False  # whether starting and connecting are explored as well
    tuning: Tuning = Tuning()
    wakes_max: int = 8  # timers that go off before time is said to have come to its end

    @property
    def tree(self) -> Tree:
        """The tree of brokers. Raises TreeError when it is none."""
        return Tree([(name, parent or None) for name, _, parent in (line.partition(" ") for line in self.brokers)])

    @property
    def names(self) -> tuple[str, ...]:
        """All hosts, brokers first."""
        return (*(line.partition(" ")[0] for line in self.brokers), *(client.name for client in self.client))

    def places(self) -> list[Place]:
        """Where cores stand."""
        tree = self.tree
        places = []
        for name in self.names[: len(self.brokers)]:
            parent = tree.parent(name)
            places.append(Place(name, Role.BROKER, tree.neighbours(name), () if parent is None else (parent,)))
        return places + [Place(client.name, Role.CLIENT) for client in self.client]

    def settings(self, delivery: str) -> SpaceSettings:
        """What cores are told of the space."""
        return SpaceSettings(name=SPACE, delivery=delivery, tuning=self.tuning)


def read_world(path: Path) -> SmallWorld:
    """The small world in a file. Raises ConfigError, which says all that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    try:
        world = msgspec.toml.decode(text, type=SmallWorld)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: {error}") from None
    check_world(world, str(path))
    return world


def check_world(world: SmallWorld, name: str = "the world") -> None:
    """Raise ConfigError with everything that is wrong."""
    flaws = list(_flaws(world))
    if flaws:
        raise ConfigError(f"{name}: " + "; ".join(flaws))


def _flaws(world: SmallWorld) -> Iterator[str]:
    try:
        brokers = world.tree.nodes
    except TreeError as error:
        yield f"brokers: {error}"
        return
    names = world.names
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{name!r} is there {names.count(name)} times: names are used once"
    for client in world.client:
        if not client.servers:
            yield f"client {client.name!r} has no servers: name at least one broker"
        for server in client.servers:
            if server not in brokers:
                yield f"client {client.name!r}: there is no broker {server!r}: there are {', '.join(brokers)}"
        for step in (*client.first, *client.steps, *client.later):
            yield from _step_flaws(step, client.name)
    for fault in world.fault:
        kind, *parties = fault.split()
        if kind not in FAULTS:
            yield f"there is no fault {kind!r}: there are {', '.join(FAULTS)}"
        elif len(parties) != PARTIES[kind] or any(party not in names for party in parties):
            yield f"fault {fault!r}: it names {PARTIES[kind]} of {', '.join(names)}"
        elif kind == "move" and parties[0] in brokers:
            yield f"fault {fault!r}: only clients move"


def _step_flaws(step: str, client: str) -> Iterator[str]:
    verb, *words = step.split()
    if verb not in VERBS or not words or (verb == "publish" and len(words) < 2):
        yield f"client {client!r}: {step!r} is no step: steps are {'; '.join(VERBS.values())}"
    elif verb == "subscribe":
        try:
            interest_of(step)
        except FilterError as error:
            yield f"client {client!r}: {step!r}: {error}"


# --- steps


def interest_of(step: str) -> Interest:
    """What a `subscribe` asks for. Raises FilterError."""
    return Interest.parse(" ".join(step.split()[2:]))


def rows_of(step: str) -> list[Attributes]:
    """The publications of a `publish`, which are parted by semicolons."""
    rows: list[Attributes] = []
    for row in step.split(maxsplit=2)[2].split(";"):
        pairs = [word.partition("=") for word in row.split()]
        rows.append({name: _value(value) for name, _, value in pairs})
    return rows


def batch_of(step: str, source: Source, seq: int) -> Batch:
    """What a `publish` hands in."""
    rows = rows_of(step)
    return batch_of_rows(source, seq, rows, [str(seq + place).encode() for place in range(len(rows))])


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
