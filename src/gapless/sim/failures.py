"""Failures as files: what a soak has found, shrunk by a process of its own, and written down for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from gapless.model.errors import ConfigError
from gapless.sim.run import run
from gapless.sim.scenario import Scenario
from gapless.sim.scenario_file import scenario_of, write_scenario
from gapless.sim.shrink import RUNS_MAX, SECONDS_MAX, Shrunk, nothing_to_shrink
from gapless.sim.soak import Worker
from gapless.sim.worker import Task

FAILURES_MAX = 3  # of a soak, that are shrunk
TOGETHER_S = 120.0  # that shrinking may add to a soak


class Files(NamedTuple):
    """Where a failure has been written."""

    scenario: Path
    trace: Path
    command: str  # that runs it again


def shrink_seeds(delivery: str, seeds: Iterable[int], mutant: str = "") -> Iterator[tuple[int, Shrunk]]:
    """Shrink the failures of these seeds, as far as time allows."""
    worker = Worker(delivery, 1, mutant)
    deadline = monotonic() + TOGETHER_S
    try:
        for seed in seeds:
            left = min(SECONDS_MAX, deadline - monotonic())
            task = Task(shrink=seed, runs_max=RUNS_MAX, seconds_max=left)
            shrunk = worker.shrink(task) if left > 0 else None
            if shrunk is not None:
                yield seed, shrunk
    finally:
        worker.close()


def shrink_one(scenario: Scenario, seed: int, mutant: str = "", seconds_max: float = SECONDS_MAX) -> Shrunk:
    """Shrink this one. Raises ConfigError when it does not fail."""
    worker = Worker(scenario.space[0].delivery, 1, mutant)
    text = write_scenario(scenario)
    try:
        shrunk = worker.shrink(Task(shrink=seed, scenario=text, runs_max=RUNS_MAX, seconds_max=seconds_max))
    finally:
        worker.close()
    if shrunk is None:
        raise ConfigError(nothing_to_shrink(seed))
    return shrunk


def save(folder: Path, name: str, shrunk: Shrunk, mutant: str = "") -> Files:
    """Write the scenario and the trace. Raises ConfigError when that cannot be done."""
    scenario, trace = folder / f"{name}.toml", folder / f"{name}.txt"
    command = f"gapless sim {scenario} --seed {shrunk.seed}" + (f" --mutant {mutant}" if mutant else "")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scenario.write_text(_head(shrunk, command, mutant) + shrunk.scenario, encoding="utf-8")
        trace.write_text(shrunk.trace, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written to: {error.strerror}") from None
    return Files(scenario, trace, command)


def _head(shrunk: Shrunk, command: str, mutant: str) -> str:
    lines = [
        f"{shrunk.reason} is {'raised' if '(' in shrunk.reason else 'broken'} with seed {shrunk.seed}. Run it:",
        f"    {command} --trace",
        f"It has {shrunk.after};",
        f"before it had {shrunk.before}.",
    ]
    if mutant:
        sound = run(scenario_of(shrunk.scenario), shrunk.seed).ok
        lines.append(f"The shipped cores {'keep every promise' if sound else 'break a promise, too,'} in it.")
    if not shrunk.finished:
        lines.append(f"There was time for {shrunk.runs} runs only: it may be cut down further.")
    return "".join(f"# {line}\n" for line in [*lines, "What shows it:", *shrunk.witness.splitlines()]) + "\n"


def lines_of(seed: int, shrunk: Shrunk, files: Files) -> list[str]:
    """What was found, for people: sizes before and after, and where the files are."""
    cut = "shrunk" if shrunk.finished else "shrunk as far as time allowed"
    sizes = ", ".join(
        f"{name} {getattr(shrunk.before, name)} to {getattr(shrunk.after, name)}"
        for name in shrunk.before.__struct_fields__
    )
    return [
        f"seed {seed}, {shrunk.reason}: {cut} in {shrunk.runs} runs: {sizes}",
        f"    {files.scenario}, {files.trace}",
        f"    {files.command}",
    ]
