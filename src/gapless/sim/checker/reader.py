"""Reads a history into views: one pass over the events, one handler for each kind."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence

from gapless.model.events import DISCONNECTED, DRAINING, HISTORY_VERSION, OVER_BUDGET, Event, Kind
from gapless.sim.checker.clock import VectorClock, in_causal_order
from gapless.sim.checker.promises import HistoryError
from gapless.sim.checker.view import (
    Act,
    Excuse,
    Handover,
    Mark,
    Publication,
    Refusal,
    Subscription,
    View,
    World,
    reason_of,
)

_ORDERED = ("causal", "total")


def read(events: Iterable[Event]) -> list[View]:
    """The views of a history, one for each space, in the order in which the spaces appear."""
    history = list(events)
    runs = _runs(history)
    clocks = {run.clock for run in runs.values()} or {"global"}
    if clocks - {"global", "causal"}:
        raise HistoryError(f"unknown clock {', '.join(sorted(clocks))!r} on a run event: it is global or causal")
    causal = "causal" in clocks
    if causal:
        history = in_causal_order(history)
    reader = _Reader(runs, causal)
    reader.read(history)
    return list(reader.views.values())


def _runs(history: Sequence[Event]) -> dict[str, Event]:
    """The run event of each space; several journals may bring one each."""
    runs: dict[str, Event] = {}
    for event in history:
        if event.event is not Kind.RUN:
            continue
        if event.version != HISTORY_VERSION:
            raise HistoryError(
                f"this history is of version {event.version}, and version {HISTORY_VERSION} is what is read here: "
                "judge it with the release that wrote it"
            )
        known = runs.setdefault(event.space, event)
        for what in ("delivery", "mode", "faults", "bound", "clock", "limits"):
            if getattr(known, what) != getattr(event, what):
                raise HistoryError(
                    f"two run events of space {event.space!r} disagree on {what}: "
                    f"{getattr(known, what)!r} and {getattr(event, what)!r}"
                )
    return runs


class _Reader:
    """The state of the pass."""

    def __init__(self, runs: dict[str, Event], causal: bool) -> None:
        self.runs = runs
        self.clock = VectorClock() if causal else None
        parents = next((run.parents for run in runs.values() if run.parents), None)
        self.world = World(clock="causal" if causal else "global", parents=parents)
        self.views: dict[str, View] = {space: self._new_view(space) for space in runs if space}
        self.current: dict[tuple[str, str], Subscription] = {}
        self.processes: dict[str, int] = {}
        self.started = 0
        self.handlers: dict[Kind, Callable[[int, Event], None]] = {
            Kind.RUN: self.on_run,
            Kind.PUBLISH: self.on_publish,
            Kind.ACCEPTED: self.on_accepted,
            Kind.REFUSED: self.on_refused,
            Kind.UNKNOWN: self.on_unknown,
            Kind.SUBSCRIBE: self.on_subscribe,
            Kind.CONFIRMED: self.on_confirmed,
            Kind.COVERED: self.on_covered,
            Kind.DELIVERED: self.on_delivered,
            Kind.ACKNOWLEDGED: self.on_acknowledged,
            Kind.UNSUBSCRIBE: self.on_unsubscribe,
            Kind.GAP: self.on_gap,
            Kind.DROPPED: self.on_dropped,
            Kind.DISCONNECTED: self.on_disconnected,
            Kind.CRASH: self.on_crash,
            Kind.LINK_DOWN: self.on_fault,
            Kind.FAULT: self.on_fault,
            Kind.CALM: self.on_calm,
            Kind.END: self.on_end,
            Kind.HELD: self.on_held,
            Kind.JOIN: self.on_request,
            Kind.LEAVE: self.on_request,
            Kind.JOINED: self.on_answer,
            Kind.LEFT: self.on_answer,
        }

    def read(self, history: Sequence[Event]) -> None:
        handlers = self.handlers
        for when, event in enumerate(history):
            if self.clock:
                self.clock.tick(event.node)
            handler = handlers.get(event.event)
            if handler:
                handler(when, event)
        if not self.views and "" in self.runs:
            self.view("")  # nothing happened in any space, and yet joins or queues may be judged
        for view in self.views.values():
            for lane in view.lanes.values():
                lane.sort(key=lambda publication: publication.rank)

    # --- what the handlers share --------------------------------------------------------------------------------------

    def _new_view(self, space: str) -> View:
        run = self.runs.get(space) or self.runs.get("")
        if run is None:
            return View(space, "", "", True, 0, (), self.world)
        view = View(space, run.delivery, run.mode, run.faults, run.bound, run.limits, self.world)
        view.sizes, view.declared = run.sizes or {}, run.attributes or {}
        view.is_declared = space in self.runs
        return view

    def view(self, space: str) -> View:
        found = self.views.get(space)
        if found is None:
            found = self.views[space] = self._new_view(space)
        return found

    def mark(self, when: int, event: Event) -> Mark:
        count = self.clock.knowledge(event.node)[event.node] if self.clock else 0
        return Mark(when, event.node, count, event)

    def subscription(self, event: Event) -> Subscription:
        key = event.space, event.subscription
        found = self.current.get(key)
        if found is None:
            found = self.current[key] = Subscription(event.subscription)
            self.view(event.space).subscriptions.append(found)
        return found

    def process(self, node: str) -> int:
        """The number of the process that is this node now; never given to another."""
        if node not in self.processes:
            self.started += 1
            self.processes[node] = self.started
        return self.processes[node]

    def on_run(self, when: int, event: Event) -> None:
        if event.node and not event.space:
            self.world.started[event.node] += 1

    # --- publishers ---------------------------------------------------------------------------------------------------

    def on_publish(self, when: int, event: Event) -> None:
        view = self.view(event.space)
        identity = event.source, event.incarnation, event.seq
        if identity in view.publications:
            return
        lane = f"{event.source}#{event.incarnation}" if view.delivery == "direct" else event.source
        publication = Publication(
            identity=identity,
            event=event,
            when=when,
            number=len(view.publications),
            lane=lane,
            rank=(event.incarnation, event.seq),
            process=self.process(event.node),
            knows=self.clock.knowledge(event.node) if self.clock else None,
        )
        view.publications[identity] = publication
        view.lanes.setdefault(lane, []).append(publication)
        view.names.setdefault(event.node, {})[event.source] = None
        self.world.applications[event.node] = None
        insort(view.seqs.setdefault((event.source, event.incarnation), []), event.seq)
        if event.incarnation >= view.holders.get(event.source, 0):
            view.holders[event.source] = event.incarnation
        if event.order in _ORDERED:
            view.acts.append(Act(event.node, publication, published=True))

    def on_accepted(self, when: int, event: Event) -> None:
        view = self.view(event.space)
        for place, publication in enumerate(view.named(event)):
            if publication.refused:
                view.contradictions.append((publication, publication.refused, event))
            publication.accepted = publication.accepted or event
            if event.pubend:
                publication.pubend, publication.tick = event.pubend, event.tick + place

    def on_refused(self, when: int, event: Event) -> None:
        if event.source:
            view = self.view(event.space)
            names = len(view.names.get(event.node, ()))
            newest = view.holders.get(event.source, 0)
            view.refusals.append(Refusal(self.mark(when, event), newest=newest, names=names))
            for publication in view.named(event):
                if publication.accepted:
                    view.contradictions.append((publication, publication.accepted, event))
                publication.refused = publication.refused or event
        elif event.subscription:
            subscription = self.subscription(event)
            asked = subscription.asked
            beside = self._beside(event.space, asked) if asked else ()
            self.view(event.space).refusals.append(Refusal(self.mark(when, event), asked=asked, beside=beside))
            subscription.refused = event
            if reason_of(event):
                subscription.pending = None
        elif reason_of(event):
            self.world.asking.pop(event.node, None)

    def _beside(self, space: str, asked: Event) -> tuple[Event, ...]:
        """This subscribe and those of the same process that had neither been refused nor ended before it."""
        return tuple(
            other.asked
            for (of, _), other in self.current.items()
            if of == space and other.asked and other.asked.node == asked.node and other.refused is None
            if other.ended is None or other.ended.event.n > asked.n
        )

    def on_unknown(self, when: int, event: Event) -> None:
        for publication in self.view(event.space).named(event):
            publication.unknown = event

    # --- subscribers --------------------------------------------------------------------------------------------------

    def on_subscribe(self, when: int, event: Event) -> None:
        self.world.applications[event.node] = None
        found = self.current.get((event.space, event.subscription))
        if found and found.ended:
            del self.current[event.space, event.subscription]
            found = None
        if found and found.asked and (found.dead or found.node != event.node):
            self._return(found, event)
        subscription = self.subscription(event)
        if subscription.asked is None:
            subscription.asked = event
            subscription.filter, subscription.topic, subscription.total = event.filter, event.topic, event.total
        subscription.node = event.node
        subscription.pending = event

    def _return(self, subscription: Subscription, event: Event) -> None:
        """Another process goes on with it: D(s) is cut back to the cursor presented, or to what was acknowledged."""
        life = subscription.lives[-1]
        kept = subscription.acknowledged
        if event.event is Kind.SUBSCRIBE and event.source:
            place = life.places.get((event.source, event.incarnation, event.seq))
            kept = kept if place is None else place + 1
        subscription.lives.append(life.cut(kept))
        subscription.acknowledged = kept
        subscription.dead = None
        subscription.since = event.at

    def on_confirmed(self, when: int, event: Event) -> None:
        subscription = self.subscription(event)
        if subscription.dead:
            self._return(subscription, event)
        self._go_back(subscription, event)
        mark = self.mark(when, event)
        if subscription.confirmed is None:
            subscription.confirmed = mark
            subscription.starts = event.starts
        subscription.pending = None
        subscription.since = event.at
        for excuse in subscription.excuses:
            if excuse.whole and excuse.covered is None:
                excuse.covered = mark
        self._cover(subscription, [name for name in subscription.open if name not in event.exceptions], mark)
        if event.exceptions:
            self.view(event.space).confirmations.append((subscription, mark))
            self._excuse(subscription, event.exceptions, mark, told=False)

    def _go_back(self, subscription: Subscription, event: Event) -> None:
        """The home says where it goes on: earlier than what was acknowledged, if it had not learned of that."""
        life = subscription.lives[-1]
        if not event.source or len(subscription.lives) == 1 or len(life.handed) > life.kept:
            return
        before = subscription.lives[-2]
        place = before.places.get((event.source, event.incarnation, event.seq))
        if place is not None and place + 1 < life.kept:
            subscription.lives[-1] = before.cut(place + 1)
            subscription.acknowledged = place + 1

    def _excuse(self, subscription: Subscription, names: Iterable[str], mark: Mark, told: bool) -> None:
        for name in names:
            excuse = Excuse(mark, told, self.world.over_budget is not None, partition=name)
            subscription.excuses.append(excuse)
            subscription.open.setdefault(name, []).append(excuse)

    def _cover(self, subscription: Subscription, names: Iterable[str], mark: Mark) -> None:
        for name in names:
            for excuse in subscription.open.pop(name, ()):
                excuse.covered = mark

    def on_covered(self, when: int, event: Event) -> None:
        self._cover(self.subscription(event), event.exceptions, self.mark(when, event))

    def on_gap(self, when: int, event: Event) -> None:
        subscription = self.subscription(event)
        mark = self.mark(when, event)
        self.view(event.space).gaps.append((subscription, mark))
        if event.source:
            over_budget = self.world.over_budget is not None
            subscription.excuses.append(Excuse(mark, told=True, over_budget=over_budget))
        elif not event.exceptions and self.view(event.space).delivery == "direct":
            # What a slow subscriber missed lies before the notice; who was disconnected misses all until it is back.
            until = None if reason_of(event) == DISCONNECTED else mark
            subscription.excuses.append(Excuse(mark, told=True, over_budget=False, covered=until, whole=True))
        self._excuse(subscription, event.exceptions, mark, told=True)

    def on_delivered(self, when: int, event: Event) -> None:
        view = self.view(event.space)
        subscription = self.current.get((event.space, event.subscription)) or self.subscription(event)
        if subscription.dead:
            self._return(subscription, event)
        identity = event.source, event.incarnation, event.seq
        publication = view.publications.get(identity)
        life = subscription.lives[-1]
        place = life.places.get(identity)
        if place is not None:
            subscription.repeats.append((life.handed[place].event, event))
        elif len(subscription.lives) > 1 and not event.redelivered:
            before = subscription.lives[-2]
            if identity in before.places:
                subscription.unmarked.append((before.handed[before.places[identity]].event, event))
        life.append(Handover(when, event, publication))
        view.deliveries += 1
        if publication is None:
            return
        if publication.handed is None:
            publication.handed = event
        if self.clock and publication.knows is not None:
            self.clock.learn(event.node, publication.knows, publication.event.node)
        if publication.event.order in _ORDERED:
            view.acts.append(Act(event.node, publication, published=False))

    def on_acknowledged(self, when: int, event: Event) -> None:
        subscription = self.subscription(event)
        place = subscription.lives[-1].places.get((event.source, event.incarnation, event.seq))
        if place is not None:
            subscription.acknowledged = max(subscription.acknowledged, place + 1)

    def on_unsubscribe(self, when: int, event: Event) -> None:
        subscription = self.subscription(event)
        subscription.ended = self.mark(when, event)

    # --- the world ----------------------------------------------------------------------------------------------------

    def on_dropped(self, when: int, event: Event) -> None:
        self.view(event.space).drops.append(self.mark(when, event))

    def on_disconnected(self, when: int, event: Event) -> None:
        mark = self.mark(when, event)
        self.world.disconnected.append(mark)
        if reason_of(event) == DRAINING and not event.peer:
            self.world.draining.setdefault(event.node, mark)

    def on_fault(self, when: int, event: Event) -> None:
        if event.event is Kind.LINK_DOWN and self.world.end is not None:
            return  # the run is over: processes that stop take their links with them
        mark = self.mark(when, event)
        self.world.first_fault = self.world.first_fault or mark
        self.world.last_fault = mark
        if reason_of(event) == OVER_BUDGET:
            self.world.over_budget = self.world.over_budget or mark

    def on_crash(self, when: int, event: Event) -> None:
        self.on_fault(when, event)
        mark = self.mark(when, event)
        self.world.crashes.setdefault(event.node, []).append(mark)
        self.world.asking.pop(event.node, None)
        self.processes.pop(event.node, None)
        for view in self.views.values():
            kept: list[Publication] = []
            for subscription in view.subscriptions:
                if subscription.node != event.node or subscription.over:
                    continue
                subscription.dead = mark
                handed = subscription.lives[-1].handed[: subscription.acknowledged]
                kept += [each.publication for each in handed if each.publication]
            if view.acts:
                view.acts.append(Act(event.node, None, published=False, kept=tuple(kept)))

    def on_calm(self, when: int, event: Event) -> None:
        self.world.calm = self.mark(when, event)

    def on_end(self, when: int, event: Event) -> None:
        self.world.end = self.mark(when, event)

    def on_held(self, when: int, event: Event) -> None:
        self.world.held.append(event)

    def on_request(self, when: int, event: Event) -> None:
        self.world.asking[event.node] = event

    def on_answer(self, when: int, event: Event) -> None:
        self.world.asking.pop(event.node, None)
