"""What `make bench-peers` prints: a line for each contender, its promises, the verdicts, the machine's limits."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from bench.peers.compare import Middle
from bench.peers.measure import FIXED_RATE, PUNCTUAL


def show(console: Console, results: dict[str, Any]) -> None:
    """Everything, for a terminal."""
    lines = results["contenders"]
    if lines:
        console.print(_rates(lines))
        console.print(_latencies(lines))
    for line in lines:
        console.print(f"{line['name']} ({line['versions']}): {line['promises']}")
        for objection in line["objections"]:
            console.print(f"  * its rate does not count: {objection}")
        fixed = line.get("at_fixed_rate")
        if fixed and fixed["rate"].median < FIXED_RATE * PUNCTUAL:
            console.print(f"  its latency is that of {fixed['rate'].median:,.0f}/s: more were not reached")
    console.print()
    for sentence in [*results["verdicts"], *results["absent"], *results["failures"]]:
        console.print(sentence)
    if results["unrest"]:
        console.print(results["unrest"])
    limits = results["limits"]
    console.print(
        f"limits of this machine: loopback {limits['loopback_bytes_s'] / 1e9:.2f} GB/s, "
        f"fdatasync {limits['fdatasync_4k_s']:,}/s at 4 KiB and {limits['fdatasync_64k_s']:,}/s at 64 KiB, "
        f"reference loop {limits['reference_us']:.0f} µs per thousand steps, {limits['cores']} cores"
    )


def _rates(lines: list[dict[str, Any]]) -> Table:
    table = Table(title="one publisher, one broker, one subscriber: as fast as it goes with nothing lost")
    table.add_column("")
    for heading in (
        "publications/s (spread)",
        "CPU µs each: server",
        "publisher",
        "subscriber",
        "all",
        "full core",
    ):
        table.add_column(heading, justify="right")
    for line in lines:
        cpu = [line["cpu_us"][name] for name in ("server", "publisher", "subscriber")]
        table.add_row(
            line["name"],
            spread(line["rate"], ",.0f") + ("*" if line["objections"] else ""),
            *(f"{used.median:.2f}" for used in cpu),
            f"{sum(used.median for used in cpu):.2f}",
            line["full"],
        )
    return table


def _latencies(lines: list[dict[str, Any]]) -> Table:
    table = Table(title="latency in ms, medians of the rounds (spread)")
    table.add_column("")
    for heading in ("p50 at 2,000/s", "p99", "p99.9", "p50 at 80%", "p99"):
        table.add_column(heading, justify="right")
    for line in lines:
        fixed = line.get("at_fixed_rate")
        slow = [spread(fixed[name], ".2f") for name in ("p50", "p99", "p99.9")] if fixed else ["", "", ""]
        late = line["at_80_percent"]
        table.add_row(line["name"], *slow, *(spread(late[name], ".1f") for name in ("p50", "p99")))
    return table


def spread(value: Middle, form: str) -> str:
    """A median with its spread."""
    return f"{value.median:{form}} ({value.low:{form}}–{value.high:{form}})"
