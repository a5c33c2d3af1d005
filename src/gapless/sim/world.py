"""Time and order: one queue of what is to happen, one seed, and a digest of all that did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any

from gapless.delivery.port import Now
from gapless.model.events import Event, Kind, encode_event

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
NEW_YEAR = 1_767_225_600 * SECOND  # the first of January 2026, when every simulation begins

Action = Callable[..., None]
Teller = Callable[[int, str, str], None]  # time, place, what happened there


class World:
    """What is to happen, in order; what happened, as a history, as counts and as a digest."""

    def __init__(self, seed: int | str, tell: Teller | None = None) -> None:
        """`tell` is called with everything that a reader of a trace wants to know."""
        self.seed = seed
        self.now = 0
        self.tell = tell
        self.history: list[Event] = []
        self.counts: Counter[str] = Counter()
        self.hops = 0
        self._queue: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._order = 0
        self._digest = blake2b(digest_size=16)

    def random(self, purpose: str) -> Random:
        """A stream of random numbers that depends on the seed and the purpose alone."""
        return Random(f"{self.seed}/{purpose}")

    def at(self, when: int, action: Action, *args: Any) -> None:
        """Do it then: things of one moment happen in the order in which they were asked for."""
        self._order += 1
        heappush(self._queue, (when if when > self.now else self.now, self._order, action, args))

    def after(self, delay: int, action: Action, *args: Any) -> None:
        """Do it when so much time has passed."""
        self.at(self.now + delay, action, *args)

    def run(self, until: int) -> None:
        """Let happen what is due up to this moment."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, action, args = heappop(queue)
            action(*args)
        self.now = until

    @property
    def next_at(self) -> int | None:
        """When the next thing is due."""
        return self._queue[0][0] if self._queue else None

    # --- what happened

    def mark(self, place: str, what: str, *contents: bytes | memoryview) -> None:
        """Let the digest cover it."""
        update = self._digest.update
        update(f"{self.now} {place} {what}\n".encode())
        for content in contents:
            update(content)

    def write(self, event: Event) -> None:
        """One more event of the history."""
        self.history.append(event)
        self._digest.update(encode_event(event))

    def journal(self, kind: Kind, **fields: Any) -> None:
        """An event of the world itself, which is in nobody's journal."""
        self.write(Event(event=kind, at=self.now, **fields))
        if self.tell is not None:
            about = " ".join(str(fields[name]) for name in ("reason", "peer") if fields.get(name))
            self.tell(self.now, fields.get("node", "") or "world", f"{kind.value} {about}".rstrip())

    def count(self, what: str) -> None:
        """It occurred in this run."""
        self.counts[what] += 1

    def digest(self) -> str:
        """Equal for equal runs."""
        return self._digest.hexdigest()


class Clock:
    """A host's idea of the time: it drifts, and its wall steps."""

    def __init__(self, world: World, offset: int = 0) -> None:
        """`offset` is how far its monotonic clock is from the world's."""
        self._world = world
        self.rate = 1.0
        self._since = world.now  # the world's time when the rate last changed,
        self._then = world.now + offset  # and ours
        self._wall = NEW_YEAR - offset

    def now(self) -> Now:
        """Monotonic and wall time."""
        at = self._then + int((self._world.now - self._since) * self.rate)
        return Now(at, at + self._wall)

    def due(self, at: int) -> int:
        """When, in the world's time, this clock will show at least this."""
        ahead = at - self.now().at
        return self._world.now + max(0, int(ahead / self.rate) + 1)

    def go(self, rate: float) -> None:
        """From now on pass so much faster than the world."""
        self._then, self._since, self.rate = self.now().at, self._world.now, rate

    def step(self, by: int) -> None:
        """The wall clock is put right, or wrong."""
        self._wall += by
