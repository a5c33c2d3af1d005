"""What commands that connect to a cluster share: where it is, and what they write down."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.cli.amounts import seconds

if TYPE_CHECKING:
    from gapless import sync


def add_connection(parser: argparse.ArgumentParser) -> None:
    """The arguments by which a command finds its cluster."""
    parser.add_argument("servers", metavar="SERVERS", help="HOST:PORT[,HOST:PORT...], or a configuration file")
    parser.add_argument("space", metavar="SPACE", help="the space, as the configuration names it")
    parser.add_argument(
        "--connect-deadline",
        metavar="S",
        type=seconds,
        default=10.0,
        help="how long to look for a server (default: 10)",
    )
    parser.add_argument(
        "--journal", metavar="DIR", type=Path, help="write the history of this process into this folder"
    )


def servers_of(text: str) -> list[str]:
    """The servers that an argument names, as a list or by a configuration file."""
    from gapless.client.address import parse_servers, shown
    from gapless.model.errors import ConfigError
    from gapless.node.config import load_config

    if text.endswith(".toml") or Path(text).is_file():
        return [str(broker.listen) for broker in load_config(text).brokers]
    try:
        return [shown(address) for address in parse_servers(text)]
    except ConfigError as error:
        raise ConfigError(f"{error}; the name of a configuration file will do as well") from None


def connected(arguments: argparse.Namespace) -> sync.Bus:
    """A connection as these arguments want it."""
    from gapless import sync

    return sync.connect(servers_of(arguments.servers), journal=arguments.journal, deadline=arguments.connect_deadline)
