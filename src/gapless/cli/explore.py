"""`gapless explore`: small worlds, exhaustively."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.cli.mutated import run_mutated
from gapless.model.errors import ConfigError

if TYPE_CHECKING:
    from gapless.sim.explore.search import Explored
    from gapless.sim.explore.world import SmallWorld

EXAMPLE = """\
examples:
  gapless explore direct
  gapless explore direct --world move --mutant order-of-arrival
  gapless explore direct --world scenarios/small/two_publishers.toml

Exit status: 0 every promise held in every interleaving, 1 one was broken or time ran out, 2 wrong use."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "explore",
        help="try every interleaving of small worlds",
        description="Try every interleaving of small worlds: two or three brokers, two or three publications, and one "
        "fault at every place. Every history is judged, and the shortest way to a broken promise is shown.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("delivery", metavar="DELIVERY", help="such as direct")
    parser.add_argument(
        "--world", metavar="NAME", help="only this one: a name that --list shows, or a TOML file (default: all)"
    )
    parser.add_argument("--list", action="store_true", help="show which worlds there are, and what can happen in them")
    parser.add_argument("--mutant", metavar="NAME", help="with this one thing wrong in the cores")
    parser.add_argument("--whole", action="store_true", help="try interleavings that come to the same, too")
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="leave a world unfinished after so long (default: 600)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_explore)


def run_explore(arguments: argparse.Namespace) -> int:
    """Explore, and print what was seen."""
    from gapless.delivery.catalogue import DELIVERIES
    from gapless.sim.explore.search import explore

    if arguments.delivery not in DELIVERIES:
        known = ", ".join(DELIVERIES)
        raise ConfigError(f"there is no delivery {arguments.delivery!r}: there are {known}")
    worlds = _worlds(arguments.world)
    if arguments.list:
        print("\n".join(_listed(worlds)))
        return 0
    if arguments.mutant:
        return run_mutated(arguments, arguments.delivery, "delivery")
    told: dict[str, dict[str, Any]] = {}
    good = True
    for name, world in worlds.items():
        found = explore(arguments.delivery, world, arguments.seconds, _progress(name), not arguments.whole)
        good = good and found.ok
        told[name] = _told(found)
        if not arguments.json:
            print("\n".join(_lines(name, found)), flush=True)
        if found.violation is not None:
            break
    if arguments.json:
        print(json.dumps({"ok": good, "worlds": told}, indent=2))
    elif good:
        print(f"every promise held in every interleaving of {len(worlds)} small worlds")
    return 0 if good else 1


def _worlds(name: str | None) -> dict[str, SmallWorld]:
    from gapless.sim.explore.world import read_world
    from gapless.sim.explore.worlds import WORLDS

    if name is None:
        return WORLDS
    if name in WORLDS:
        return {name: WORLDS[name]}
    if name.endswith(".toml"):
        return {Path(name).stem: read_world(Path(name))}
    raise ConfigError(
        f"there is no small world {name!r}: there are {', '.join(WORLDS)}, or name a file that ends in .toml"
    )


def _listed(worlds: dict[str, SmallWorld]) -> list[str]:
    from gapless.sim.explore.moves import KINDS
    from gapless.sim.explore.world import FAULTS

    lines = []
    for name, world in worlds.items():
        lines.append(f"{name:18} {world.about}")
        for client in world.client:
            steps = "; ".join(client.steps) or "nothing"
            lines.append(f"{'':18}     {client.name} at {', '.join(client.servers)}: {steps}")
        if world.fault:
            lines.append(f"{'':18}     at most one of: {'; '.join(world.fault)}")
    lines += ["", "what happens, in any order:"]
    lines += [f"    {kind:12} {says}" for kind, says in KINDS.items()]
    lines += ["what may go wrong, once, at any moment:"]
    lines += [f"    {kind:12} {says}" for kind, says in FAULTS.items()]
    lines += ["what does not happen:", *(f"    {what}" for what in NOT_COVERED)]
    return lines


NOT_COVERED = (
    "two faults in one run; links that stall, slow down or fail in one direction (they come to messages read late)",
    "clocks that step or drift, disks that fill up or are lost",
    "applications that read slowly: what is delivered is taken over at once",
    "timers that go off while messages are under way, unless hurry is among the faults",
)


def _lines(name: str, found: Explored) -> list[str]:
    kinds = ", ".join(f"{kind} {count}" for kind, count in found.kinds.items())
    lines = [
        f"{name}: {found.world.about}",
        f"    {found.states} states, {found.transitions} transitions ({kinds})",
        f"    {found.histories} histories judged at their ends and {found.prefixes} on their way, "
        f"at most {found.depth} moves long",
        f"    {found.core_states} states of cores, {found.core_steps} steps; {found.seconds:.1f} s",
    ]
    if not found.reduced:
        lines.append("    nothing was left out")
    if not found.complete:
        lines.append("    NOT FINISHED: there was no time for more")
    if found.cut:
        lines.append(f"    {found.cut} ends at which timers were due that may not go off any more (wakes_max)")
    if found.violation is not None:
        lines += ["", found.witness(), "", "the way to it, as short as any that was found:", *found.trace]
    return lines


def _told(found: Explored) -> dict[str, Any]:
    return {
        "ok": found.ok,
        "states": found.states,
        "transitions": found.transitions,
        "histories": found.histories,
        "prefixes": found.prefixes,
        "depth": found.depth,
        "core_states": found.core_states,
        "core_steps": found.core_steps,
        "moves": found.kinds,
        "complete": found.complete,
        "cut": found.cut,
        "reduced": found.reduced,
        "seconds": round(found.seconds, 3),
        "promise": "" if found.violation is None else found.violation.promise,
        "witness": found.witness().splitlines(),
        "trace": list(found.trace),
    }


def _progress(name: str) -> Callable[[int, int], None] | None:
    """A line that is written over, for those who look on."""
    if not sys.stderr.isatty():
        return None

    def show(states: int, waiting: int) -> None:
        print(f"\r{name}: {states} states, {waiting} to go on from   \r", end="", file=sys.stderr, flush=True)

    return show
