"""`gapless shrink`: a failing scenario cut down to what a person can read; and the same for what a soak has found."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.cli.worlds import RANDOM, scenario_named

if TYPE_CHECKING:
    from gapless.sim.failures import Files
    from gapless.sim.shrink import Shrunk

EXAMPLE = """\
examples:
  gapless shrink random:direct --seed 42
  gapless shrink random:direct --seed 5 --mutant order-of-arrival
  gapless shrink broken.toml --seed 3 --failures found

Exit status: 0 it was shrunk, 2 wrong use, such as a scenario that does not fail."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "shrink",
        help="cut a failing scenario down to the least that fails",
        description="Cut a failing scenario down to the least that still fails for the same reason, and write it down "
        "with its trace. The result depends on scenario and seed alone, unless time runs out.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "scenario", metavar="SCENARIO", help=f"a TOML file, or {RANDOM}DELIVERY for one drawn from the seed"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed with which it fails (default: 0)")
    parser.add_argument("--mutant", metavar="NAME", help="with this one thing wrong in the cores")
    add_folder(parser)
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after so long (default: 60)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_shrink)


def add_folder(parser: argparse.ArgumentParser) -> None:
    """The option that says where failures are written."""
    parser.add_argument(
        "--failures", metavar="DIR", type=Path, default=Path("failures"), help="where to write (default: ./failures)"
    )


def run_shrink(arguments: argparse.Namespace) -> int:
    """Shrink, write, print."""
    from gapless.sim.failures import lines_of, save, shrink_one
    from gapless.sim.mutants import mutant_named

    scenario = scenario_named(arguments.scenario, arguments.seed)
    delivery, mutant = scenario.space[0].delivery, arguments.mutant or ""
    if mutant:
        mutant_named(delivery, mutant)
    shrunk = shrink_one(scenario, arguments.seed, mutant, arguments.seconds)
    named = arguments.scenario.removeprefix(RANDOM)
    name = "-".join(part for part in (Path(named).stem, mutant, str(arguments.seed)) if part)
    files = save(arguments.failures, name, shrunk, mutant)
    if arguments.json:
        print(json.dumps(told(shrunk, files), indent=2))
    else:
        print("\n".join([*lines_of(arguments.seed, shrunk, files), "", shrunk.witness]))
    return 0


def told(shrunk: Shrunk, files: Files) -> dict[str, Any]:
    """What was found, for scripts."""
    from msgspec import to_builtins

    return {
        "reason": shrunk.reason,
        "seed": shrunk.seed,
        "scenario": str(files.scenario),
        "trace": str(files.trace),
        "before": to_builtins(shrunk.before),
        "after": to_builtins(shrunk.after),
        "runs": shrunk.runs,
        "finished": shrunk.finished,
    }


def shrink_found(
    delivery: str, seeds: Iterable[int], folder: Path, mutant: str, show: Callable[[str], None]
) -> dict[int, dict[str, Any]]:
    """Shrink the first failures of a soak and write them; what was found, by seed."""
    from gapless.sim.failures import FAILURES_MAX, lines_of, save, shrink_seeds

    found: dict[int, dict[str, Any]] = {}
    for seed, shrunk in shrink_seeds(delivery, list(seeds)[:FAILURES_MAX], mutant):
        name = "-".join(part for part in (delivery, mutant, str(seed)) if part)
        files = save(folder, name, shrunk, mutant)
        found[seed] = told(shrunk, files)
        show("\n".join(lines_of(seed, shrunk, files)))
    return found
