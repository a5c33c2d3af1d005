"""A process that runs seeds for a soak: lines with seeds come in, lines with results go out.

A line with a `Task` instead of a seed asks for a failure to be shrunk, and `null` says that nothing fails.

python [-O] -m gapless.sim.worker DELIVERY [MUTANT]
"""

from __future__ import annotations

import signal
import sys
import traceback
from typing import TYPE_CHECKING

import msgspec

from gapless.model.errors import ConfigError
from gapless.sim.mutants import become, mutant_named

if TYPE_CHECKING:
    from gapless.sim.shrink import Shrunk


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """To shrink the failure of a seed, in the scenario that is drawn from it or in this one."""

    shrink: int
    scenario: str = ""
    runs_max: int
    seconds_max: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one seed."""

    seed: int
    digest: str = ""
    violations: tuple[tuple[str, str], ...] = ()  # promise, and what is wrong
    witness: str = ""  # of the first
    raised: str = ""
    coverage: dict[str, int] = {}
    hops: int = 0
    cpu_s: float = 0.0
    publications: int = 0
    faults_under_load: int = 0
    faulty: bool = False
    brokers: int = 0

    @property
    def caught(self) -> bool:
        """Whether the checker saw a promise broken; a run that raised is no proof."""
        return bool(self.violations) and not self.raised


def result_of(delivery: str, seed: int) -> Result:
    """Run one seed."""
    # Imported here, because a mutant must be in place before the cores are.
    from gapless.sim.checker.verdict import Verdict
    from gapless.sim.draw import random_scenario
    from gapless.sim.run import run

    try:
        outcome = run(random_scenario(delivery, seed), seed)
    except Exception as error:  # noqa: BLE001  # whatever a core or a mutant raises is a result
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno}"
        return Result(seed=seed, raised=f"{type(error).__name__}: {error} ({where})")
    violations = outcome.violations
    first = Verdict(violations[:1], ()).render().partition("\n\nbroken:")[0].strip() if violations else ""
    return Result(
        seed=seed,
        digest=outcome.digest,
        violations=tuple((violation.promise, violation.message) for violation in violations),
        witness=first,
        coverage=outcome.coverage,
        hops=outcome.hops,
        cpu_s=outcome.cpu_s,
        publications=outcome.publications,
        faults_under_load=outcome.faults_under_load,
        faulty=bool(outcome.faults),
        brokers=outcome.brokers,
    )


def shrunk_of(delivery: str, task: Task) -> Shrunk | None:
    """The least that fails as this seed does."""
    from gapless.sim.draw import random_scenario
    from gapless.sim.scenario_file import scenario_of
    from gapless.sim.shrink import shrink

    scenario = scenario_of(task.scenario) if task.scenario else random_scenario(delivery, task.shrink)
    try:
        return shrink(scenario, task.shrink, task.runs_max, task.seconds_max)
    except ConfigError:
        return None


def main(arguments: list[str]) -> None:
    """Answer seed after seed until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is told to all processes, and one of them answers
    delivery = arguments[0]
    if len(arguments) > 1:
        become(mutant_named(delivery, arguments[1]))
    for line in sys.stdin:
        asked = msgspec.json.decode(line, type=int | Task)
        told = shrunk_of(delivery, asked) if isinstance(asked, Task) else result_of(delivery, asked)
        answer = msgspec.json.encode(told).decode()
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
