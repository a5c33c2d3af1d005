"""`gapless bench`: what this version does on this machine, with the machine's limits beside it."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gapless import __version__
from gapless.cli.amounts import amount
from gapless.cli.output import report_console

LEAST_S = 0.1  # in less, nothing may have arrived, and there is no rate of nothing
BROKER_CPU_US_MAX = 0.5  # per publication and hop, from Arrow: what the project promises
EXAMPLE = "example:\n  gapless bench --case 'one broker' --seconds 5"


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "bench",
        help="measure rates, latency and CPU on this machine",
        description="Measure `direct` end to end: brokers, publisher and subscriber as processes of their own, each on "
        "its core. The subscriber checks every seq, one attribute and a checksum of every body. A rate counts only if "
        "nothing was lost and the p99 latency at 80% of it stays under 50 ms.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=amount("seconds", LEAST_S),
        default=30.0,
        help="how long each rate is measured (default: 30)",
    )
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; status 1 when something was lost, changed, or slower than promised."""
    from gapless.cli.benches.limits import measure_limits
    from gapless.cli.benches.match_rates import MATCH_CASES, measure_matching
    from gapless.cli.benches.match_rates import kept as match_kept
    from gapless.cli.benches.rates import CASES, measure

    console = report_console()
    cases = [case for case in CASES if arguments.case in case.name]
    match_cases = [case for case in MATCH_CASES if arguments.case in case.name]
    if not cases and not match_cases:
        names = "; ".join([case.name for case in CASES] + [case.name for case in MATCH_CASES])
        print(f"gapless bench: no case has {arguments.case!r} in its name; there are: {names}", file=sys.stderr)
        return 2
    results: dict[str, Any] = {
        "version": __version__,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    with console.status("measuring what this machine can do"):
        results["limits"] = measure_limits(min(arguments.seconds, 2.0))
    results["cases"] = []
    for case in cases:
        with console.status(f"measuring: {case.name}"):
            results["cases"].append(measure(case, arguments.seconds))
    results["matching"] = []
    for match_case in match_cases:
        with console.status(f"measuring: {match_case.name}"):
            results["matching"].append(measure_matching(match_case, min(arguments.seconds, 4.0)))
    _print(console, results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    good = [*map(_kept, results["cases"]), *map(match_kept, results["matching"])]
    return 0 if all(good) else 1


def _kept(result: dict[str, Any]) -> bool:
    """Whether a case kept what the project promises of it."""
    if not result["counts"] or result["rate"] < result["floor"]:
        return False
    brokers = [cpu for name, cpu in result["cpu_us"].items() if name.startswith("b")]
    return not result["floor"] or max(brokers) <= BROKER_CPU_US_MAX


def _print(console: Console, results: dict[str, Any]) -> None:
    if results["cases"]:
        console.print(_end_to_end(results["cases"]))
    if results["matching"]:
        console.print(_matching(results["matching"]))
    limits = results["limits"]
    console.print(
        f"limits of this machine: loopback {limits['loopback_bytes_s'] / 1e9:.2f} GB/s, "
        f"fdatasync {limits['fdatasync_4k_s']:,}/s at 4 KiB and {limits['fdatasync_64k_s']:,}/s at 64 KiB, "
        f"reference loop {limits['reference_us']:.0f} µs per thousand steps, {limits['cores']} cores"
    )


def _end_to_end(results: list[dict[str, Any]]) -> Table:
    table = Table(title="direct, end to end: not stored, at most once, publisher order")
    for heading in ("case", "publications/s", "promised", "CPU µs per publication, each process", "p50/p99 ms at 80%"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for result in results:
        cpu = "  ".join(f"{name} {value:.2f}" for name, value in result["cpu_us"].items())
        late = result["at_80_percent"]
        lost = "" if not result["lost"] else f" LOST {result['lost']}"
        table.add_row(
            result["case"],
            f"{result['rate']:,.0f}{'' if result['counts'] else ' (does not count)'}{lost}",
            f"{result['floor']:,.0f}" if result["floor"] else "",
            cpu,
            f"{late['p50_ms']:.1f} / {late['p99_ms']:.1f}",
        )
    return table


def _matching(results: list[dict[str, Any]]) -> Table:
    table = Table(title="one core: publications/s against filters; in batches of 256, singly, and where to route them")
    headings = ("case", "in batches", "promised", "singly", "promised", "routed", "parse µs", "add µs", "change µs")
    for heading in (*headings, "bytes", "matches"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for result in results:
        table.add_row(
            result["case"].removeprefix("matching, "),
            *(
                f"{result[name]:,.0f}" if result[name] else ""
                for name in ("rate", "floor", "single_rate", "single_floor", "route_rate")
            ),
            *(f"{result[name]:.1f}" for name in ("parse_us", "add_us", "change_us")),
            f"{result['filter_bytes']:,.0f}",
            f"{result['matches']:.2f}",
        )
    return table
