"""`gapless sim`, `gapless soak` and `gapless check`: simulated worlds, and judging what happened in any."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.cli.amounts import count
from gapless.cli.mutated import run_mutated
from gapless.cli.shrink import add_folder, shrink_found
from gapless.cli.worlds import RANDOM, scenario_named
from gapless.model.errors import ConfigError
from gapless.node.sockets import cause_of

if TYPE_CHECKING:
    from gapless.sim.checker.verdict import Violation
    from gapless.sim.run import Outcome

SIM_EXAMPLE = """\
examples:
  gapless sim scenarios/killed_middle.toml --seed 1
  gapless sim random:direct --seed 42 --trace
  gapless sim random:direct --seed 42 --write seed42.toml

Exit status: 0 every promise held, 1 one was broken, 2 wrong use."""

SOAK_EXAMPLE = """\
examples:
  gapless soak direct --seeds 0:2000 --jobs 2
  gapless soak direct --seeds 0:120 --mutants
  gapless soak direct --seeds 0:40 --mutant order-of-arrival --failures found

The first failures are shrunk, and written down with their traces.
Exit status: 0 clean with everything covered (or every mutant caught), 1 not, 2 wrong use."""

CHECK_EXAMPLE = """\
examples:
  gapless check history.ndjson
  gapless check journals/ --promise no-duplicate --promise publisher-order

Exit status: 0 every promise held, 1 one was broken, 2 wrong use."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the commands."""
    _add_sim(subparsers)
    _add_soak(subparsers)
    _add_check(subparsers)


def _add(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    words: str,
    description: str,
    epilog: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        name,
        help=words,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)
    return parser


# --- sim


def _add_sim(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(
        subparsers,
        "sim",
        "run a scenario in the simulator",
        "Run a scenario in the simulator, and judge what happened. A scenario and a seed determine everything.",
        SIM_EXAMPLE,
        run_sim,
    )
    parser.add_argument(
        "scenario", metavar="SCENARIO", help=f"a TOML file, or {RANDOM}DELIVERY for one drawn from the seed"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed (default: 0)")
    parser.add_argument("--mutant", metavar="NAME", help="run cores with this one thing wrong instead")
    parser.add_argument("--trace", action="store_true", help="print everything that happens, with its time")
    parser.add_argument("--history", metavar="FILE", type=Path, help="write the history, which `gapless check` reads")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the scenario as TOML")


def run_sim(arguments: argparse.Namespace) -> int:
    """Run, judge, print."""
    from gapless.model.events import write_history
    from gapless.sim.run import run
    from gapless.sim.scenario_file import write_scenario
    from gapless.sim.trace import line_of

    def tell(at: int, place: str, what: str) -> None:
        print(f"{at / 1e6:12.3f}  {line_of(place, what)}")

    scenario = scenario_named(arguments.scenario, arguments.seed)
    if arguments.mutant:
        return run_mutated(arguments, scenario.space[0].delivery, "scenario")
    if arguments.write:
        _save(arguments.write, lambda file: file.write(write_scenario(scenario).encode()))
    outcome = run(scenario, arguments.seed, tell if arguments.trace else None)
    if arguments.history:
        _save(arguments.history, lambda file: write_history(file, outcome.history))
    if arguments.json:
        print(json.dumps(_told(outcome, arguments.seed), indent=2))
    else:
        print(outcome.verdict.render())
        if outcome.later is not None:
            print("and of what began after the faults, judged as a run without any:")
            print(outcome.later.render())
        print(f"{outcome.hops} message hops in {outcome.cpu_s:.2f} s of CPU, digest {outcome.digest}")
    return 0 if outcome.ok else 1


def _save(path: Path, write: Callable[[Any], object]) -> None:
    try:
        with path.open("wb") as file:
            write(file)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {cause_of(error)}; name another file") from None


def _told(outcome: Outcome, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "ok": outcome.ok,
        "violations": [_violation(violation) for violation in outcome.violations],
        "digest": outcome.digest,
        "publications": outcome.publications,
        "brokers": outcome.brokers,
        "faults": outcome.faults,
        "faults_under_load": outcome.faults_under_load,
        "hops": outcome.hops,
        "cpu_s": round(outcome.cpu_s, 6),
        "coverage": dict(sorted(outcome.coverage.items())),
    }


def _violation(violation: Violation) -> dict[str, Any]:
    from gapless.sim.checker.verdict import describe

    return {
        "promise": violation.promise,
        "space": violation.space,
        "subscription": violation.subscription,
        "message": violation.message,
        "witness": [" ".join(describe(event).split()) for event in violation.witness],
    }


# --- soak


def _add_soak(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(
        subparsers,
        "soak",
        "simulate many worlds with faults",
        "Run random scenarios of a delivery over many seeds and judge each. What comes out does not depend on --jobs.",
        SOAK_EXAMPLE,
        run_soak,
    )
    parser.add_argument("delivery", metavar="DELIVERY", help="such as direct")
    parser.add_argument(
        "--seeds", metavar="A:B", type=_seeds, default=range(200), help="from A to below B (default: 0:200)"
    )
    parser.add_argument("--jobs", metavar="N", type=count, default=1, help="processes (default: 1)")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--mutant", metavar="NAME", action="append", help="run cores with this one thing wrong instead")
    chosen.add_argument("--mutants", action="store_true", help="run all mutants instead, one after the other")
    parser.add_argument("--no-shrink", action="store_true", help="do not shrink what fails")
    add_folder(parser)


def _seeds(text: str) -> range:
    first, colon, end = text.partition(":")
    try:
        seeds = range(int(first), int(end) if colon else int(first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no range of seeds: write A:B, such as 0:200") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} has no seeds in it: the second number is above the first")
    return seeds


def run_soak(arguments: argparse.Namespace) -> int:
    """Soak, and print what it showed."""
    from gapless.sim.hazards import HAZARDS
    from gapless.sim.mutants import MUTANTS
    from gapless.sim.soak import soak

    if arguments.delivery not in HAZARDS:
        known = ", ".join(HAZARDS)
        raise ConfigError(f"there are no random scenarios for delivery {arguments.delivery!r}: there are for {known}")
    if arguments.mutants or arguments.mutant:
        return _hunt(arguments, arguments.mutant or [mutant.name for mutant in MUTANTS[arguments.delivery]])
    soaked = soak(arguments.delivery, arguments.seeds, arguments.jobs, _progress())
    if not arguments.json:
        print("\n".join(soaked.lines()), flush=True)
    broken = [] if arguments.no_shrink else [result.seed for result in soaked.broken]
    shrunk = shrink_found(arguments.delivery, broken, arguments.failures, "", _said(arguments))
    if arguments.json:
        told = {
            "ok": soaked.ok,
            "runs": len(soaked.results),
            "broken": {result.seed: result.raised or result.witness for result in soaked.broken},
            "shortcomings": soaked.shortcomings(),
            "medians": soaked.medians(),
            "hops_per_cpu_s": round(soaked.hops_per_s),
            "coverage": dict(sorted(soaked.coverage.seen.items())),
            "digest": soaked.digest,
            "shrunk": shrunk,
        }
        print(json.dumps(told, indent=2))
    return 0 if soaked.ok else 1


def _hunt(arguments: argparse.Namespace, names: list[str]) -> int:
    from gapless.sim.mutants import mutant_named
    from gapless.sim.soak import hunt

    for name in names:
        mutant_named(arguments.delivery, name)
    told: dict[str, Any] = {}
    escaped = 0
    for name in names:
        hunted = hunt(arguments.delivery, name, arguments.seeds, arguments.jobs, _progress())
        escaped += not hunted.caught
        told[name] = {
            "hazard": hunted.mutant.hazard,
            "caught": [result.seed for result in hunted.caught],
            "raised": [result.seed for result in hunted.raised],
        }
        if not arguments.json:
            print(hunted.line(), flush=True)
        if arguments.mutant and not arguments.no_shrink:
            first = [result.seed for result in hunted.caught][:1]
            shrunk = shrink_found(arguments.delivery, first, arguments.failures, name, _said(arguments))
            told[name]["shrunk"] = shrunk
    if arguments.json:
        print(json.dumps(told, indent=2))
    else:
        print(f"{len(names) - escaped} of {len(names)} mutants caught")
    return 1 if escaped else 0


def _said(arguments: argparse.Namespace) -> Callable[[str], None]:
    """Prints for people, or nothing."""
    return (lambda text: None) if arguments.json else lambda text: print(text, flush=True)


def _progress() -> Callable[[int, int], None] | None:
    """A line that is written over, for those who look on."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        print(f"\r{done} of {total} runs", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show


# --- check


def _add_check(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(
        subparsers,
        "check",
        "judge a history",
        "Judge a history, of the simulator or of real processes, by every promise that its delivery makes.",
        CHECK_EXAMPLE,
        run_check,
    )
    parser.add_argument(
        "history", metavar="HISTORY", type=Path, nargs="+", help="files of events, or folders of journals"
    )
    parser.add_argument("--promise", metavar="NAME", action="append", help="judge this promise only (may be repeated)")


def run_check(arguments: argparse.Namespace) -> int:
    """Judge, and print the verdict."""
    from gapless.cli.histories import read_history
    from gapless.sim.checker import check
    from gapless.sim.checker.promises import HistoryError

    try:
        verdict = check(read_history(arguments.history), arguments.promise)
    except HistoryError as error:
        raise ConfigError(str(error)) from None
    if arguments.json:
        told = {"ok": verdict.ok, "violations": [_violation(violation) for violation in verdict.violations]}
        print(json.dumps(told, indent=2))
    else:
        print(verdict.render(), end="")
    return 0 if verdict.ok else 1
