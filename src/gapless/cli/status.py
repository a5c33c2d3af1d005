"""`gapless status`: what brokers know of themselves."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from gapless.cli.amounts import seconds

TABLE_WIDTH = 400  # where there is no terminal: no broker has so many neighbours that it would not do
EXAMPLE = """\
examples:
  gapless status cluster.toml
  gapless status 127.0.0.1:7400,127.0.0.1:7401 --json

Exit status: 0 every broker answered and is ready, 1 one did not, 2 wrong use."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "status",
        help="ask brokers what they know of themselves",
        description="Ask each broker of a configuration, or at these servers, for its status over HTTP. A server is "
        "named by the address at which it listens, or by that of its health and metrics.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("servers", metavar="SERVERS|CONFIG", help="HOST:PORT[,HOST:PORT...], or a configuration file")
    parser.add_argument("--json", action="store_true", help="print one JSON object: for each server, what it answered")
    parser.add_argument("--deadline", metavar="S", type=seconds, default=3.0, help="how long to wait (default: 3)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, and print."""
    from gapless.node.asking import ask_all

    answers = asyncio.run(ask_all(_addresses(arguments.servers), arguments.deadline))
    if arguments.json:
        print(json.dumps(answers, indent=2))
    else:
        _print(answers)
    return 0 if all(answer.get("ready") for answer in answers.values()) else 1


def _addresses(servers: str) -> dict[str, tuple[str, int]]:
    """Whom to ask, by the name it is shown under."""
    from gapless.client.address import parse_servers, shown
    from gapless.model.errors import ConfigError
    from gapless.node.config import load_config

    looks_like_file = servers.endswith(".toml") or Path(servers).is_file()
    if not looks_like_file:
        return {shown(address): address for address in parse_servers(servers)}
    brokers = load_config(servers).brokers
    asked = {broker.id: (broker.http.host, broker.http.port) for broker in brokers if broker.http}
    if not asked:
        raise ConfigError(f'no broker of {servers} has an `http`: add for example http = "127.0.0.1:8400"')
    return asked


def _print(answers: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    from gapless.cli.output import report_console

    console = report_console(TABLE_WIDTH)
    table = Table()
    for heading in ("broker", "state", "neighbours", "clients", "space", "in", "out", "dropped", "held"):
        # Where a terminal is too narrow, words go on in the next line: half a name helps nobody.
        table.add_column(heading, justify="right" if heading in ("clients", "in", "out") else "left", overflow="fold")
    for answer in answers.values():
        if "error" in answer:
            continue
        state = f"up {answer['uptime_s']:.0f} s" if answer["ready"] else answer["reason"]
        neighbours = ", ".join(f"{peer} {'' if state == 'up' else 'DOWN'}".strip() for peer, state in _items(answer))
        head = [answer["broker"], state, neighbours or "none", str(answer["clients"])]
        for name, space in answer["spaces"].items():
            counts = [f"{space['publications_in']:,}", f"{space['publications_out']:,}"]
            table.add_row(*head, name, *counts, _listed(space["dropped"]), _listed(space["held"]))
            head = [""] * len(head)
    if table.row_count:
        console.print(table)
    for server, answer in answers.items():
        if "error" in answer:
            print(f"{server} is unreachable: {answer['error']}")


def _items(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return list(answer["neighbours"].items())


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items()) or "none"
