"""Going everywhere: every state of a small world once, the nearest first, and every history judged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from gapless.model.events import HISTORY_VERSION, Event, Kind
from gapless.sim.aftermath import aftermath
from gapless.sim.checker import check
from gapless.sim.checker.verdict import Verdict, Violation
from gapless.sim.explore.cores import Cores
from gapless.sim.explore.history import Histories
from gapless.sim.explore.moment import Moment, Tell
from gapless.sim.explore.moves import Move, Moves
from gapless.sim.explore.reduction import Reduction, without_order
from gapless.sim.explore.state import Host, State
from gapless.sim.explore.world import SPACE, SmallWorld
from gapless.sim.trace import line_of
from gapless.sim.world import SECOND

TELLING = (
    Kind.DELIVERED,
    Kind.GAP,
    Kind.DROPPED,
    Kind.DISCONNECTED,
    Kind.CONFIRMED,
    Kind.REFUSED,
)  # may break a promise
QUIET_MAX = 5000  # moves within which a world that is left alone comes to rest
BEFORE, THEN, AT_REST = "> before", "> then", "> when nothing more happens by itself"  # parts of a trace

Progress = Callable[[int, int], None]  # states seen, states to go on from


@dataclass
class Explored:
    """What has been seen."""

    world: SmallWorld
    delivery: str
    states: int = 0
    transitions: int = 0
    ends: int = 0  # states in which nothing more happens by itself
    histories: int = 0  # that were judged at their end
    prefixes: int = 0  # that were judged on their way
    depth: int = 0
    reduced: bool = False
    core_states: int = 0
    core_steps: int = 0
    cut: int = 0  # states in which timers were due and none might go off any more
    kinds: dict[str, int] = field(default_factory=dict)  # of moves, how often
    complete: bool = True
    seconds: float = 0.0
    violation: Violation | None = None
    trace: tuple[str, ...] = ()  # the shortest way to it

    @property
    def ok(self) -> bool:
        """Whether every promise held everywhere, and everywhere has been visited."""
        return self.violation is None and self.complete

    def witness(self) -> str:
        """The broken promise and the events that show it."""
        if self.violation is None:
            return ""
        return Verdict((self.violation,), ()).render().partition("\n\nbroken:")[0].strip()


class _Came(NamedTuple):
    """How a state was reached first."""

    before: int
    move: Move | None
    events: tuple[Event, ...]
    depth: int


def explore(
    delivery: str,
    world: SmallWorld,
    seconds_max: float = 600.0,
    progress: Progress | None = None,
    reduced: bool = True,
) -> Explored:
    """Visit every state of a small world, or as many as time allows, or up to the first broken promise.

    When it is `reduced`, of interleavings that come to the same (see `reduction`) one is tried.
    """
    began = monotonic()
    search = _Search(delivery, world, reduced)
    try:
        search.run(began + seconds_max, progress)
    except _HungUp:
        search = _Search(delivery, world, False)
        search.run(began + seconds_max, progress)
    found = search.found
    found.seconds = monotonic() - began
    found.core_states, found.core_steps = len(search.cores), search.cores.steps
    return found


class _Made(NamedTuple):
    """A move that has been made, and what came of it."""

    move: Move
    after: State
    events: list[Event]


class _HungUp(Exception):
    """A core has hung up, and what the reduction stands on does not hold."""


class _Search:
    """What has been visited, and from where to go on."""

    def __init__(self, delivery: str, world: SmallWorld, reduced: bool) -> None:
        self.world = world
        self.moves = Moves(world)
        self.cores = Cores(delivery, world.settings(delivery), world.places())
        self.histories = Histories(world.names)
        self.found = Explored(world, delivery, reduced=reduced)
        self._reduction = Reduction(self.moves) if reduced else None
        self._seen: dict[State, int] = {}
        self._came: list[_Came] = []
        self._waiting: deque[tuple[int, State]] = deque()
        self._judged: dict[tuple[tuple[int, ...], bool], bool] = {}
        self._ended: dict[tuple[object, ...], bool] = {}
        self.opening: list[str] = []  # what happened before, for people

    def run(self, until: float, progress: Progress | None) -> None:
        """Visit all."""
        found = self.found
        state, events = self._beginning()
        self._visit(state, _Came(-1, None, tuple(events), 0))
        while self._waiting and found.violation is None:
            number, state = self._waiting.popleft()
            if number % 256 == 0:
                if progress is not None:
                    progress(found.states, len(self._waiting))
                if monotonic() > until:
                    found.complete = False
                    return
            self._go_on(number, state)

    def _go_on(self, number: int, state: State) -> None:
        """Everything that can happen in a state."""
        own = list(self.moves.own(state))
        if not own:
            self.found.ends += 1
            self._judge_end(number, state)
        depth = self._came[number].depth + 1
        for move, after, events in self._chosen(state, own) or self._everything(state, own):
            self.found.transitions += 1
            kind = move.kind if move.fuse < 0 else "fault"
            self.found.kinds[kind] = self.found.kinds.get(kind, 0) + 1
            after = after._replace(happened=self.histories.extended(state.happened, events))
            if after not in self._seen:
                self._visit(after, _Came(number, move, tuple(events), depth))
                if self.found.violation is not None:
                    return

    def _everything(self, state: State, own: list[Move]) -> Iterator[_Made]:
        """All moves, and the faults."""
        yield from self._after(state, own)
        yield from self._after(state, self.moves.faults_of(state, own))

    def _chosen(self, state: State, own: list[Move]) -> list[_Made]:
        """The moves of one host, when they are enough; else none."""
        if self._reduction is None:
            return []
        for name in self._reduction.hosts(state, own):
            made = list(self._after(state, [move for move in own if move.host == name]))
            if all(without_order(one.events) for one in made):
                return made
        return []

    def _after(self, state: State, moves: Iterable[Move]) -> Iterator[_Made]:
        """What comes of these moves."""
        for move in moves:
            fuse = move.fuse
            while True:
                moment = Moment(state, self.moves, self.cores)
                if not moment.make(move._replace(fuse=fuse)):
                    break  # it was to die later than there was anything to do
                if moment.hung_up and self._reduction is not None:
                    raise _HungUp
                yield _Made(move._replace(fuse=fuse), moment.done(), moment.events)
                if fuse < 0:
                    break
                fuse += 1

    def _visit(self, state: State, came: _Came) -> None:
        number = self._seen[state] = len(self._came)
        self._came.append(came)
        self._waiting.append((number, state))
        self.found.states += 1
        self.found.depth = max(self.found.depth, came.depth)
        if any(event.event in TELLING for event in came.events):
            self._judge(number, state)

    # --- judging

    def _judge(self, number: int, state: State) -> None:
        """What has happened so far: whatever must hold at every moment."""
        key = state.happened, state.fault >= 0
        if key in self._judged:
            return
        self.found.prefixes += 1
        verdict = check([self._run_event(state), *self._history(number)])
        self._judged[key] = verdict.ok
        if not verdict.ok:
            self._tell(number, verdict.violations[0], [])

    def _judge_end(self, number: int, state: State) -> None:
        """What has happened when all is over, with what comes later, and what is held then."""
        key = state.happened, state.fault, tuple(host.core for host in state.hosts), state.hosts
        if key in self._ended:
            return
        self._ended[key] = True
        self.found.histories += 1
        if state.wakes >= self.world.wakes_max and any(host.timers for host in state.hosts):
            self.found.cut += 1
        lines: list[str] = []
        rest, calm = self._rest(state, lambda place, what: lines.append(line_of(place, what)))
        history = [self._run_event(state), *self._history(number), *rest]
        violations = check(history).violations
        if state.fault >= 0 and not violations:
            violations = check(aftermath(history, calm)).violations
        if violations:
            self._tell(number, violations[0], lines)

    def _rest(self, state: State, tell: Tell) -> tuple[list[Event], int]:
        """What follows when nothing more happens by itself: later steps, one after the other, and the end."""
        events: list[Event] = []
        calm = Moment(state, self.moves, self.cores, tell)
        calm.pass_time()
        if state.fault >= 0:
            calm.world_event(Kind.CALM)
        events += calm.events
        settled = calm.clock
        state = calm.done()
        for client in self.world.client:
            for step in client.later:
                state = self._quietly(state, client.name, step, events, tell)
        last = Moment(state, self.moves, self.cores)
        for name, host in zip(self.moves.names, state.hosts, strict=True):
            if host.alive:
                last.journal(name).held(SPACE, self.cores.held(host.core), last.now())
        last.clock += SECOND + self._bound
        last.world_event(Kind.END)
        return events + last.events, settled

    def _tell(self, number: int, violation: Violation, rest: list[str]) -> None:
        """Found: tell the way to it, which is as short as any."""
        self.found.violation = violation
        lines: list[str] = [BEFORE]
        state, _ = self._beginning(lambda place, what: lines.append(line_of(place, what)))
        lines.append(THEN)
        for came in self._way(number):
            if came.move is not None:
                moment = Moment(state, self.moves, self.cores, lambda place, what: lines.append(line_of(place, what)))
                moment.make(came.move)
                state = moment.done()
        self.found.trace = (*lines, *([AT_REST] if rest else []), *rest)

    def _way(self, number: int) -> list[_Came]:
        way: list[_Came] = []
        while number >= 0:
            way.append(self._came[number])
            number = way[-1].before
        return way[::-1]

    def _history(self, number: int) -> list[Event]:
        return [event for came in self._way(number) for event in came.events]

    @property
    def _bound(self) -> int:
        return 3 * SECOND

    def _run_event(self, state: State) -> Event:
        faults = state.fault >= 0
        parents = {child: parent for parent, child in self.world.tree.links}
        parents.update((client.name, client.servers[0]) for client in self.world.client)
        return Event(
            event=Kind.RUN,
            at=0,
            space=SPACE,
            version=HISTORY_VERSION,
            delivery=self.found.delivery,
            faults=faults,
            bound=self._bound,
            parents=None if faults else parents,
        )

    # --- what is not explored

    def _beginning(self, tell: Tell | None = None) -> tuple[State, list[Event]]:
        """The state from which all ways go out, and what has happened by then."""
        names = self.world.names
        state = State(tuple(Host() for _ in names), (), happened=self.histories.empty)
        events: list[Event] = []
        if not self.world.cold:
            state = self._at_rest(state, events, tell)
            for client in self.world.client:
                for step in client.first:
                    state = self._quietly(state, client.name, step, events, tell)
            state = state._replace(wakes=0)
        return state._replace(happened=self.histories.extended(state.happened, events)), events

    def _quietly(self, state: State, name: str, step: str, events: list[Event], tell: Tell | None) -> State:
        """An application takes a step, and the world comes to rest."""
        moment = Moment(state, self.moves, self.cores, tell)
        if moment.host(name).alive:
            moment.take_step(name, step)
            moment.settle_taken()
        events += moment.events
        return self._at_rest(moment.done(), events, tell)

    def _at_rest(self, state: State, events: list[Event], tell: Tell | None) -> State:
        """What happens by itself, in some order, until nothing does; applications take no step."""
        for _ in range(QUIET_MAX):
            state = state._replace(wakes=0)
            move = next(self.moves.own(state, idle=True), None)
            if move is None:
                return state
            moment = Moment(state, self.moves, self.cores, tell)
            moment.make(move)
            events += moment.events
            state = moment.done()
        raise AssertionError(f"this world does not come to rest within {QUIET_MAX} moves")
