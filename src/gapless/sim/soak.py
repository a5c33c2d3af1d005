"""Soaks: many seeds, in several processes, and what they show together.

What comes out depends on the seeds alone, not on how many processes there are nor on which of them runs what.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from gapless.model.errors import ConfigError
from gapless.sim.coverage import (
    ENOUGH_RUNS,
    MEDIAN_BROKERS,
    MEDIAN_FAULTS,
    MEDIAN_PUBLICATIONS,
    Coverage,
    median,
)
from gapless.sim.mutants import MUTANTS, Mutant, mutant_named
from gapless.sim.shrink import Shrunk
from gapless.sim.worker import Result, Task

REPEATED = 20  # one run in so many is repeated by a process that hashes differently
LISTED = 20  # seeds with violations that are told in full
CATCHES = 3  # runs in which a mutant must be caught before its hunt is over

Progress = Callable[[int, int], None]  # runs done, runs in all


class Worker:
    """A process that runs seeds."""

    def __init__(self, delivery: str, hash_seed: int, mutant: str = "") -> None:
        """Mutants run without asserts: the history alone must show them."""
        command = [sys.executable, *(["-O"] if mutant else []), "-m", "gapless.sim.worker", delivery]
        self._process = subprocess.Popen(
            [*command, mutant] if mutant else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        )

    def run(self, seed: int) -> Result:
        """The result of a seed."""
        line = self._ask(str(seed).encode())
        if not line:
            return Result(seed=seed, raised=f"the process that ran it ended with status {self._process.wait()}")
        return msgspec.json.decode(line, type=Result)

    def shrink(self, task: Task) -> Shrunk | None:
        """The least that fails as this seed does; None when it does not fail. Raises ConfigError when it cannot."""
        line = self._ask(msgspec.json.encode(task))
        if not line:
            raise ConfigError(f"the process that shrank seed {task.shrink} ended with status {self._process.wait()}")
        return msgspec.json.decode(line, type=Shrunk | None)

    def _ask(self, line: bytes) -> bytes:
        """The answer to a line; empty when the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except BrokenPipeError:
            return b""

    def close(self) -> None:
        """No more seeds."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class _Crew:
    """As many workers as asked for, and the seeds that they share."""

    def __init__(self, delivery: str, seeds: Sequence[int], mutant: str, progress: Progress | None) -> None:
        self.delivery = delivery
        self.mutant = mutant
        self.catches = 0
        self.progress = progress
        self.total = len(seeds)
        self.results: dict[int, Result] = {}
        self.differing: list[int] = []
        self._seeds = iter(seeds)
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, jobs: int) -> None:
        """Until all seeds are done."""
        threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(max(1, jobs))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            self._stopped = True

    def _next(self) -> int | None:
        """The next seed; all before it are done or being run, whenever there is none any more."""
        with self._lock:
            over = self._stopped or (self.mutant and self.catches >= CATCHES)
            return None if over else next(self._seeds, None)

    def _serve(self) -> None:
        worker = Worker(self.delivery, 1, self.mutant)
        other: Worker | None = None
        try:
            while (seed := self._next()) is not None:
                result = worker.run(seed)
                again = result.digest
                if seed % REPEATED == 0 and not self.mutant:
                    other = other or Worker(self.delivery, 2)
                    again = other.run(seed).digest
                with self._lock:
                    self.results[seed] = result
                    self.catches += result.caught
                    if again != result.digest:
                        self.differing.append(seed)
                    if self.progress is not None:
                        self.progress(len(self.results), self.total)
        finally:
            worker.close()
            if other is not None:
                other.close()


@dataclass
class Soaked:
    """What a soak of the shipped cores showed."""

    delivery: str
    results: list[Result]  # by seed
    differing: list[int]  # seeds that gave another digest in another process
    coverage: Coverage = field(init=False)

    def __post_init__(self) -> None:
        self.coverage = Coverage(self.delivery)
        for result in self.results:
            self.coverage.add(result.coverage)

    @property
    def broken(self) -> list[Result]:
        """The runs in which a promise was broken, or that could not be run to the end."""
        return [result for result in self.results if result.violations or result.raised]

    @property
    def digest(self) -> str:
        """Equal for equal soaks."""
        over = blake2b(digest_size=16)
        for result in self.results:
            over.update(f"{result.seed} {result.digest}\n".encode())
        return over.hexdigest()

    @property
    def hops_per_s(self) -> float:
        """Messages handed to cores, by second of CPU."""
        spent = sum(result.cpu_s for result in self.results)
        return sum(result.hops for result in self.results) / spent if spent else 0.0

    def medians(self) -> dict[str, int]:
        """What a middling run was like; faults are those of runs that may have any."""
        return {
            "brokers": median(result.brokers for result in self.results),
            "publications": median(result.publications for result in self.results),
            "faults under load": median(result.faults_under_load for result in self.results if result.faulty),
        }

    def shortcomings(self) -> list[str]:
        """Why the soak does not count, if it does not."""
        found = [f"seed {seed} gave another digest in another process" for seed in sorted(self.differing)]
        if len(self.results) < ENOUGH_RUNS:
            return found
        found += [f"{name} never occurred" for name in self.coverage.missing()]
        least = {"brokers": MEDIAN_BROKERS, "publications": MEDIAN_PUBLICATIONS, "faults under load": MEDIAN_FAULTS}
        for name, middle in self.medians().items():
            if middle < least[name]:
                found.append(f"the median of {name} is {middle}, below {least[name]}")
        return found

    @property
    def ok(self) -> bool:
        """Whether the soak is clean, and counts."""
        return not self.broken and not self.shortcomings()

    def lines(self) -> list[str]:
        """All of it, for people."""
        broken, shortcomings = self.broken, self.shortcomings()
        lines: list[str] = []
        for result in broken[:LISTED]:
            lines += [f"seed {result.seed}: {_said(result)}", *_indented(result.witness)]
        if len(broken) > LISTED:
            lines.append(f"and {len(broken) - LISTED} more seeds")
        lines += ["in how many runs each thing occurred:", *self.coverage.lines()]
        medians = ", ".join(f"{value} {name}" for name, value in self.medians().items())
        repeated = sum(result.seed % REPEATED == 0 for result in self.results)
        lines += [
            f"{len(self.results)} runs of {self.delivery}: {len(self.results) - len(broken)} clean, {len(broken)} not",
            f"medians: {medians}",
            f"{self.hops_per_s:,.0f} message hops per second of CPU, the checker not counted",
            f"{repeated} runs repeated in other processes, {len(self.differing)} with another digest",
            f"digest of all digests: {self.digest}",
            *shortcomings,
        ]
        if len(self.results) < ENOUGH_RUNS:
            lines.append(f"coverage is asked of soaks of {ENOUGH_RUNS} runs or more")
        lines.append("every promise held" if self.ok else "this soak is not clean")
        return lines


@dataclass
class Hunted:
    """What a soak of one mutant showed."""

    mutant: Mutant
    results: list[Result]

    @property
    def caught(self) -> list[Result]:
        """The runs in which the checker saw it; one in which it raised does not count."""
        return [result for result in self.results if result.caught]

    @property
    def raised(self) -> list[Result]:
        """The runs that it did not survive."""
        return [result for result in self.results if result.raised]

    def line(self) -> str:
        """In one line."""
        seeds, name = len(self.results), f"{self.mutant.name:32} {self.mutant.hazard:24}"
        raised = f"; raised in {len(self.raised)}, first {self.raised[0].raised}" if self.raised else ""
        if not self.caught:
            return f"{name} ESCAPED in {seeds} seeds{raised}"
        first = self.caught[0]
        counts = Counter(
            promise for result in self.caught for promise in dict.fromkeys(p for p, _ in result.violations)
        )
        promises = ", ".join(f"{promise} {count}" for promise, count in counts.most_common(3))
        return f"{name} caught in {len(self.caught)} of {seeds} seeds, first {first.seed} ({promises}){raised}"


def soak(delivery: str, seeds: Iterable[int], jobs: int, progress: Progress | None = None) -> Soaked:
    """Run the shipped cores over these seeds."""
    crew = _Crew(delivery, list(seeds), "", progress)
    crew.run(jobs)
    return Soaked(delivery, [crew.results[seed] for seed in sorted(crew.results)], crew.differing)


def hunt(delivery: str, name: str, seeds: Iterable[int], jobs: int, progress: Progress | None = None) -> Hunted:
    """Run a mutant over these seeds until it is caught often enough."""
    mutant = mutant_named(delivery, name)
    crew = _Crew(delivery, list(seeds), name, progress)
    crew.run(jobs)
    results: list[Result] = []
    for seed in sorted(crew.results):
        results.append(crew.results[seed])
        if sum(result.caught for result in results) == CATCHES:
            break  # what several processes ran beyond does not count, or it would depend on how many they are
    return Hunted(mutant, results)


def unhunted(delivery: str, hazards: Iterable[str]) -> list[str]:
    """Hazards for which there is no mutant."""
    hunted = {mutant.hazard for mutant in MUTANTS[delivery]}
    return [hazard for hazard in hazards if hazard not in hunted]


def _said(result: Result) -> str:
    if result.raised:
        return f"raised {result.raised}"
    counts = Counter(promise for promise, _ in result.violations)
    return ", ".join(f"{promise} broken {count} times" for promise, count in counts.items())


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines() if line]
