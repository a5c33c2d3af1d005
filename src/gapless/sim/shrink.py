"""Failures that shrink themselves: from a scenario and a seed that break a promise to the least that still breaks it.

Every simplification of `simpler` and `simpler_worlds` is tried in turn and kept while the run fails for the same
reason: the same promise is the first that is broken, or the same exception is raised at the same place. When nothing
more can be left out with the seed that there is, a few other seeds are tried, as what was left out may have changed
what happens first. How long a promise may take is never shortened: else sound cores would fail as well.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from random import Random
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from gapless.model.errors import ConfigError
from gapless.sim.checker.verdict import Verdict, Violation
from gapless.sim.run import Outcome, run
from gapless.sim.scenario import Scenario
from gapless.sim.scenario_file import check_scenario, write_scenario
from gapless.sim.simpler import Simplification, later_begun, plain_settings, plainer, tidied, without
from gapless.sim.simpler_worlds import TIMES, WORLDS, plain_names, plain_shape, plain_topology
from gapless.sim.trace import line_of

RUNS_MAX = 1500
SECONDS_MAX = 60.0
OTHER_SEEDS = (0, 1, 2, 3)
NAMING_SEEDS = range(20)  # every name has a chance of its own, so new names are a new world

LISTS = tuple(without(field) for field in ("fault", "subscriber", "publisher", "client"))
PASSES: tuple[Callable[[Scenario], Simplification], ...] = (
    *LISTS,
    *WORLDS,
    plainer,
    later_begun,
    plain_settings,
    *TIMES,
)
AGAIN = (*LISTS, *WORLDS, plainer, later_begun, plain_settings)  # with other seeds


class Reason(NamedTuple):
    """Why a run is a failure."""

    what: str  # the promise that is broken first, or an exception and where it is raised
    later: bool = False  # whether only what began after the faults shows it

    def like(self, other: Reason) -> bool:
        """Whether a run that fails for this reason still shows the other; what shows it earlier shows it better."""
        return self.what == other.what and self.later <= other.later


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is in a run."""

    faults: int
    brokers: int
    subscriptions: int
    publications: int
    ms: int

    def __str__(self) -> str:
        return ", ".join(f"{getattr(self, name)} {name}" for name in self.__struct_fields__)


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """The least that was found to fail for the same reason."""

    reason: str
    seed: int
    scenario: str  # TOML
    trace: str
    witness: str
    before: Size
    after: Size
    runs: int
    finished: bool  # nothing more can be left out; else runs or time had come to their end


class Sighting(NamedTuple):
    """A run, and why it is a failure, if it is one."""

    reason: Reason | None
    outcome: Outcome | None


def sighting(scenario: Scenario, seed: int) -> Sighting:
    """Run it."""
    try:
        outcome = run(scenario, seed)
    except Exception as error:  # noqa: BLE001  # whatever a core raises is a reason
        return Sighting(Reason(raised_at(error)), None)
    if not outcome.violations:
        return Sighting(None, outcome)
    return Sighting(Reason(outcome.violations[0].promise, outcome.verdict.ok), outcome)


def raised_at(error: Exception) -> str:
    """The kind of an exception, and where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} ({last.filename.rsplit('/', 1)[-1]}:{last.lineno})"


def shrink(scenario: Scenario, seed: int, runs_max: int = RUNS_MAX, seconds_max: float = SECONDS_MAX) -> Shrunk:
    """Reduce a failure. Raises ConfigError when the scenario does not fail with this seed."""
    found = sighting(scenario, seed)
    if found.reason is None:
        raise ConfigError(nothing_to_shrink(seed))
    search = _Search(scenario, seed, found.reason, runs_max, monotonic() + seconds_max)
    finished = search.run(found.outcome.violations[0] if found.outcome else None)
    return _told(scenario, seed, search, finished)


def nothing_to_shrink(seed: int) -> str:
    """What is said of a scenario that does not fail."""
    return (
        f"every promise holds in this scenario with seed {seed}: there is nothing to shrink; "
        "name a seed that fails, or a mutant"
    )


class _Over(Exception):
    """No more runs."""


class _Search:
    """What is the least so far, and what has been tried."""

    def __init__(self, scenario: Scenario, seed: int, reason: Reason, runs_max: int, deadline: float) -> None:
        self.scenario = scenario
        self.seed = seed
        self.reason = reason
        self.runs = 0
        self._runs_max = runs_max
        self._deadline = deadline
        self._tried: dict[tuple[bytes, int], bool] = {}

    def run(self, violation: Violation | None) -> bool:
        """Until nothing more can be left out; false when runs or time came to their end before."""
        try:
            self.offer(tidied(plain_topology(self.scenario, self.seed)))
            if violation is not None:
                self.offer(_about(self.scenario, violation))
            named = False
            while self._round(PASSES, ()) or self._round(AGAIN, OTHER_SEEDS) or not named:
                named = True
                self.offer(plain_names(self.scenario), tuple(NAMING_SEEDS))
            self.offer(plain_shape(self.scenario))
        except _Over:
            return False
        return True

    def _round(self, passes: tuple[Callable[[Scenario], Simplification], ...], others: tuple[int, ...]) -> bool:
        """Whether any of these has made it simpler."""
        before = self.scenario
        for simplify in passes:
            steps = simplify(self.scenario)
            candidate = next(steps, None)
            while candidate is not None:
                try:
                    candidate = steps.send(self.offer(candidate, others))
                except StopIteration:
                    candidate = None
        return self.scenario != before

    def offer(self, candidate: Scenario, others: tuple[int, ...] = ()) -> bool:
        """Keep it, if it fails for the same reason, with the seed that there is or one of the others."""
        for seed in dict.fromkeys((self.seed, *others)):
            if self._fails(candidate, seed):
                self.scenario, self.seed = candidate, seed
                return True
        return False

    def _fails(self, candidate: Scenario, seed: int) -> bool:
        key = msgspec.msgpack.encode(candidate), seed
        if key not in self._tried:
            try:
                check_scenario(candidate)
            except ConfigError:
                self._tried[key] = False
                return False
            if self.runs >= self._runs_max or monotonic() > self._deadline:
                raise _Over
            self.runs += 1
            reason = sighting(candidate, seed).reason
            self._tried[key] = reason is not None and reason.like(self.reason)
        return self._tried[key]


def _about(scenario: Scenario, violation: Violation) -> Scenario:
    """Only the subscription and the sources that the witness names: mostly that is all it takes."""
    sources = {event.source for event in violation.witness if event.source}
    subscribers = tuple(plan for plan in scenario.subscriber if plan.name == violation.subscription.partition("~")[0])
    publishers = tuple(plan for plan in scenario.publisher if plan.name in sources)
    changes: dict[str, Any] = {
        name: plans for name, plans in (("subscriber", subscribers), ("publisher", publishers)) if plans
    }
    return tidied(msgspec.structs.replace(scenario, **changes))


def _told(scenario: Scenario, seed: int, search: _Search, finished: bool) -> Shrunk:
    lines: list[str] = []
    least = msgspec.structs.replace(search.scenario, about=f"reduced from: {scenario.about or 'a scenario'}")
    before = _outcome(scenario, seed, [])
    after = _outcome(least, search.seed, lines)
    witness = first_violation(after) if after is not None else ""
    return Shrunk(
        reason=search.reason.what,
        seed=search.seed,
        scenario=write_scenario(least),
        trace="\n".join(lines) + "\n",
        witness=witness or search.reason.what,
        before=size_of(scenario, seed, before),
        after=size_of(least, search.seed, after),
        runs=search.runs,
        finished=finished,
    )


def _outcome(scenario: Scenario, seed: int, lines: list[str]) -> Outcome | None:
    """What came of it, and everything that happened in it as lines."""

    def tell(at: int, place: str, what: str) -> None:
        lines.append(f"{at / 1e6:12.3f}  {line_of(place, what)}")

    try:
        return run(scenario, seed, tell)
    except Exception as error:  # noqa: BLE001  # whatever a core raises is what is to be shown
        lines.append(f"raised {raised_at(error)}: {error}")
        return None


def first_violation(outcome: Outcome) -> str:
    """The first broken promise with its witness, as text."""
    return Verdict(outcome.violations[:1], ()).render().partition("\n\nbroken:")[0].strip()


def size_of(scenario: Scenario, seed: int, outcome: Outcome | None) -> Size:
    """How much there is in a run; what was planned, of one that raised."""
    planned = sum(plan.batches * plan.rows for plan in scenario.publisher)
    return Size(
        faults=len(scenario.fault),
        brokers=len(scenario.topology.tree(Random(f"{seed}/topology"))),
        subscriptions=len(scenario.subscriber),
        publications=planned if outcome is None else outcome.publications,
        ms=scenario.end_ms,
    )
