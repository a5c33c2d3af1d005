"""The network: paths between hosts, and the wires that sessions run over.

A wire has two lines, one in each direction. What is put into a line comes out in order, or the line ends. Nobody is
told of trouble by anything but messages, the end of a line, and silence.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from random import Random
from typing import Protocol

import msgspec

from gapless.delivery.port import Message, Role
from gapless.sim.world import MILLISECOND, World


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the network behaves when nothing is wrong, and how soon hosts believe that something is."""

    latency_ms: float = 2.0  # of a path, half to twice as much
    jitter: float = 0.5  # of a message, up to so much of the latency more
    detect_ms: int = 400  # silence after which a host gives its peer up
    retry_ms: int = 100  # pause before the next attempt to reach a peer
    timeout_ms: int = 300  # an attempt to reach a peer that is not answered
    store_ms: float = 3.0  # until a record is durable
    codec: bool = False  # every message is encoded and decoded


class Signal(Enum):
    """What a line carries beside messages."""

    KNOCK = "knock"  # a host wants a session
    OPEN = "open"  # the other has agreed
    END = "end"  # nothing more will come


Item = Signal | tuple[str, Message]  # a message with its space


class Party(Protocol):
    """What the network knows of a host."""

    name: str
    role: Role
    alive: bool
    paused: bool

    def take(self, end: End, item: Item) -> None:
        """Something has come out of a line."""
        ...

    def suspect(self, end: End, reason: str) -> None:
        """Nothing has come for long: give the peer up."""
        ...


class Path:
    """The way from one host to another, whatever runs over it."""

    __slots__ = ("blocked", "cut", "jitter", "latency", "lines", "random", "slow", "trouble")

    def __init__(self, latency: int, jitter: float, random: Random, trouble: Random) -> None:
        self.latency = latency
        self.jitter = jitter
        self.random = random
        self.trouble = trouble  # chance of its own, so that what goes wrong elsewhere changes nothing here
        self.slow = 1.0
        self.blocked = 0  # how many faults hold everything back
        self.cut = 0  # how many faults lose everything
        self.lines: list[Line] = []

    def delay(self) -> int:
        """How long a message takes now."""
        return int(self.latency * self.slow * (1.0 + self.jitter * self.random.random()))


class Line:
    """One direction of a wire."""

    __slots__ = ("due", "ended", "hush", "into", "path", "queue", "source", "world")

    def __init__(self, world: World, path: Path, source: End, into: End) -> None:
        self.world = world
        self.path = path
        self.source = source
        self.into = into
        self.queue: deque[tuple[int, Item]] = deque()  # when it may arrive, and what
        self.due = 0
        self.hush = 0  # until when not even a sign of life arrives
        self.ended = False

    def put(self, item: Item) -> None:
        """Send; what is put into a line that has ended, or over a link that is down, is lost."""
        path = self.path
        if self.ended or (path.cut and item is not Signal.END):
            return
        world = self.world
        due = world.now + path.delay()
        if due < self.due:
            due = self.due
        self.due = due
        self.queue.append((due, item))
        if not path.blocked:
            world.at(due, self.arrive)

    def end(self) -> None:
        """Nothing more will be sent; the other side learns of it behind all that was."""
        if not self.ended:
            self.put(Signal.END)
            self.ended = True

    def tear(self, keep: int, delay: int) -> None:
        """Of what is under way only so much arrives, late, and then the end."""
        while len(self.queue) > keep:
            self.queue.pop()
        if not self.queue or self.queue[-1][1] is not Signal.END:
            self.queue.append((self.due, Signal.END))
        self.ended = True
        self.resume(delay)

    def arrive(self) -> None:
        """The first that is under way arrives, if it is due and nothing holds it back."""
        if not self.queue or self.path.blocked or self.queue[0][0] > self.world.now:
            return
        self.into.party.take(self.into, self.queue.popleft()[1])

    def resume(self, delay: int) -> None:
        """What was held back arrives after so much time, or when it is due."""
        soonest = self.world.now + delay
        self.queue = deque((due if due > soonest else soonest, item) for due, item in self.queue)
        if self.queue and not self.path.blocked:
            self.due = self.queue[-1][0]
            for due, _ in self.queue:
                self.world.at(due, self.arrive)

    def hasten(self, latest: int) -> None:
        """What is under way arrives by then, in its order."""
        self.queue = deque((min(due, latest), item) for due, item in self.queue)
        self.due = min(self.due, latest)
        self.hush = min(self.hush, latest)
        self.resume(0)

    @property
    def carries(self) -> bool:
        """Whether publications are under way in it."""
        return any(isinstance(item, tuple) and hasattr(item[1], "batch") for _, item in self.queue)

    @property
    def dumb(self) -> bool:
        """Whether nobody speaks at its other end, nor has said goodbye."""
        party = self.source.party
        return party.paused or not self.source.open or not party.alive


class End:
    """One end of a wire."""

    __slots__ = ("open", "out", "party", "peer", "role", "session", "spaces", "superseded")

    def __init__(self, party: Party, peer: Party) -> None:
        self.party = party
        self.peer = peer.name
        self.role = peer.role
        self.session = 0  # the number by which the host knows it, once it is open
        self.open = False
        self.superseded = False  # by a newer session with the same peer
        self.spaces: tuple[str, ...] = ()  # that both have
        self.out: Line

    def close(self) -> None:
        """This side ends it."""
        self.open = False
        self.out.end()


class Network:
    """All paths and wires."""

    def __init__(self, world: World, settings: NetworkSettings) -> None:
        self.world = world
        self.settings = settings
        self.paths: dict[tuple[str, str], Path] = {}
        self.detect = settings.detect_ms * MILLISECOND

    def path(self, start: str, end: str) -> Path:
        """The way from one host to another."""
        path = self.paths.get((start, end))
        if path is None:
            random = self.world.random(f"path/{start}/{end}")
            latency = int(self.settings.latency_ms * MILLISECOND * 2 ** random.uniform(-1, 1))
            trouble = self.world.random(f"trouble/{start}/{end}")
            path = self.paths[start, end] = Path(latency, self.settings.jitter, random, trouble)
        return path

    def dial(self, caller: Party, called: Party) -> End:
        """Knock at another host; the end is the caller's, and opens when the other agrees."""
        here, there = End(caller, called), End(called, caller)
        towards, back = self.path(caller.name, called.name), self.path(called.name, caller.name)
        here.out, there.out = Line(self.world, towards, here, there), Line(self.world, back, there, here)
        for path in (towards, back):
            path.lines = [line for line in path.lines if not line.ended or line.queue]
        towards.lines.append(here.out)
        back.lines.append(there.out)
        here.out.put(Signal.KNOCK)
        return here

    # --- trouble

    def block(self, start: str, end: str) -> None:
        """From now on everything is accepted and nothing arrives."""
        path = self.path(start, end)
        path.blocked += 1
        self.listen(path)

    def unblock(self, start: str, end: str) -> None:
        """What was held back goes on."""
        path = self.path(start, end)
        path.blocked -= 1
        if not path.blocked:
            for line in path.lines:
                line.resume(path.delay())

    def cut(self, start: str, end: str) -> None:
        """The link fails: what is under way is lost but for a part of it."""
        path = self.path(start, end)
        path.cut += 1
        for line in path.lines:
            if not line.ended:
                line.tear(path.trouble.randint(0, len(line.queue)), path.trouble.randint(0, self.detect))

    def mend(self, start: str, end: str) -> None:
        """The link is there again."""
        self.path(start, end).cut -= 1

    def slow(self, start: str, end: str, factor: float) -> None:
        """From now on messages take so much longer; or shorter again, and what is under way comes within reason."""
        path = self.path(start, end)
        path.slow *= factor
        if factor < 1:
            for line in path.lines:
                line.hasten(self.world.now + self.detect)
            return
        for line in path.lines:
            line.due = line.hush = max(line.due, self.world.now + path.delay())  # whatever else its host says by it
        self.listen(path)

    def reset(self, end: End, delays: tuple[int, int]) -> None:
        """A wire breaks although nothing is wrong: the two ends learn of it at different times."""
        for line, delay in zip((end.out, end.out.into.out), delays, strict=True):
            line.tear(line.path.trouble.randint(0, len(line.queue)), delay)

    # --- silence

    def listen(self, path: Path) -> None:
        """Whoever hears nothing by this path for too long will give up."""
        for line in path.lines:
            self.listen_at(line)

    def listen_at(self, line: Line) -> None:
        """The host at the end of a line looks, after a while, whether it still hears nothing."""
        self.world.after(self.detect + line.path.trouble.randint(0, self.detect // 4), self._look, line)

    def _look(self, line: Line) -> None:
        end = line.into
        path = line.path
        silent = path.blocked or path.cut or line.hush > self.world.now or line.dumb
        if end.open and silent:
            if end.party.paused:
                self.listen_at(line)
            else:
                end.party.suspect(end, "silent")

    def carrying(self) -> bool:
        """Whether publications are under way anywhere."""
        return any(line.carries for path in self.paths.values() for line in path.lines)
