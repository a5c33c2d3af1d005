"""The history of a test, kept in memory, and its verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gapless.delivery.port import Now, SpaceSettings
from gapless.model.events import HISTORY_VERSION, Event, Kind
from gapless.model.types import Source
from gapless.node.clock import now
from gapless.node.config import ClusterConfig
from gapless.node.journal import GOODBYE, Journal
from gapless.sim.checker import Verdict, check
from gapless.testing.network import Network
from gapless.testing.process import process_of

# A consumer that is too slow for `direct` reaches a limit that is declared: it needs no other cause, and it is told.
LIMITS = ("slow-subscriber",)
NS = 1_000_000_000


class BrokenPromise(AssertionError):
    """The history breaks a promise of its space; `verdict` says which, and the events that show it."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__("\n" + verdict.render())
        self.verdict = verdict


class History:
    """All that has happened, in order."""

    def __init__(self, config: ClusterConfig, bound_s: float, clock: Callable[[], Now]) -> None:
        self.events: list[Event] = []
        self.faults = False  # whether any was made
        self._config = config
        self._clock = clock
        self._bound_ns = int(bound_s * NS)
        self._latest: dict[str, Event] = {}  # of each node
        self._calm: tuple[int, Event] | None = None  # and before which event it was said

    def journal(self, node: str) -> Journal:
        """Where a process of this name writes."""
        journal = _Journal(node, self._latest.get(node), self._append)
        process = process_of(None)
        if process is not None:
            process.journals.append(journal)
        return journal

    def _append(self, event: Event) -> None:
        self._latest[event.node] = event
        if event.event is not Kind.RUN:  # the run says itself what it promises, once for all
            self.events.append(event)

    def fault(self, kind: Kind, **fields: Any) -> None:
        """Something goes wrong that the test has asked for."""
        self.faults = True
        self._calm = None
        self.note(kind, **fields)

    def calm(self) -> None:
        """Nothing is wrong any more that the test has asked for."""
        if self.faults and self._calm is None:
            at, wall = self._clock()
            self._calm = len(self.events), Event(event=Kind.CALM, at=at, wall=wall)

    @property
    def calm_since(self) -> float | None:
        """Since when, in seconds, if it was said since the last fault."""
        return None if self._calm is None else self._calm[1].at / NS

    def note(self, kind: Kind, **fields: Any) -> None:
        """Something happens that is no process' own."""
        at, wall = self._clock()
        self.events.append(Event(event=kind, at=at, wall=wall, **fields))

    def whole(self, closing: list[Event]) -> list[Event]:
        """The history as a checker takes it: what the run promises, what happened, and how it stands at the end."""
        at, wall = self._clock()
        # Who closes before it was answered, or does not read, is to the promises as one that has failed.
        failed = any(event.event is Kind.UNKNOWN or _too_slow(event) for event in self.events)
        runs = [
            Event(
                event=Kind.RUN,
                at=0,
                space=space.name,
                delivery=space.delivery,
                faults=self.faults or failed,
                bound=self._bound_ns,
                limits=LIMITS,
                version=HISTORY_VERSION,
            )
            for space in self._config.spaces
        ]
        events = list(self.events)
        if self._calm is not None:
            events.insert(*self._calm)
        return [*runs, *events, *closing, Event(event=Kind.END, at=at, wall=wall)]

    def unread(self, network: Network) -> list[Event]:
        """Of each subscription that the application does not read: nothing more is owed to it."""
        delivered = {event.subscription: event for event in self.events if event.event is Kind.DELIVERED}
        at, wall = self._clock()
        ended = []
        for space, subscription, node in network.subscriptions():
            latest = delivered.get(subscription.name)
            told = None if latest is None else (Source(latest.source, latest.incarnation), latest.seq)
            if subscription.newest not in (None, told):
                name = subscription.name
                ended.append(Event(event=Kind.UNSUBSCRIBE, at=at, wall=wall, node=node, space=space, subscription=name))
        return ended

    def check(self, closing: list[Event]) -> Verdict:
        """The verdict on what has happened so far. Raises BrokenPromise."""
        verdict = check(self.whole(closing))
        if not verdict.ok:
            raise BrokenPromise(verdict)
        return verdict


def _too_slow(event: Event) -> bool:
    return event.event is Kind.GAP and event.reason in LIMITS


class _Journal(Journal):
    """The journal of a process, which writes into the common history."""

    def __init__(self, node: str, latest: Event | None, append: Callable[[Event], None]) -> None:
        self._latest = latest
        self._into: Callable[[Event], None] | None = append
        super().__init__(Path("memory"), node)
        self.n = max(self.n, latest.n if latest is not None else 0)

    def _open(self) -> Event | None:
        """A process that crashed has had that written down, and its restart, by whoever crashed it."""
        latest = self._latest
        gone = latest is not None and latest.event is Kind.DISCONNECTED and latest.reason == GOODBYE
        return latest if gone else None

    def space(self, settings: SpaceSettings) -> None:
        """What each space promises is said for the whole run."""

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self, goodbye: bool = False) -> None:
        """The process ends."""
        if goodbye and self._into is not None:
            self.disconnected("", GOODBYE, now())
        self._into = None

    def _append(self, event: Event) -> None:
        if self._into is not None:
            self._into(event)
