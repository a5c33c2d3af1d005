"""`gapless broker`: one broker of a cluster, in this process."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

LEVELS = ("debug", "info", "warning", "error")
STYLES = ("json", "text")
EXAMPLE = """\
examples:
  gapless broker cluster.toml --id b0
  gapless broker cluster.toml --id b0 --journal ./journals --log-level warning

SIGTERM or Ctrl-C drains: nobody new is let in, what is queued goes out, then it ends. A second one ends it at once.
Exit status: 0 drained, 2 could not start, 70 ended by a bug in Gapless (the log has it), 130 or 143 ended at once."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "broker",
        help="run one broker",
        description="Run one broker of the cluster that CONFIG describes, until it is told to stop.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", metavar="CONFIG", type=Path, help="the cluster's configuration, a TOML file")
    parser.add_argument("--id", required=True, help="which of its brokers this is")
    add_logging(parser)
    add_journal(parser)
    parser.add_argument(
        "--until-input-ends",
        action="store_true",
        help="drain when standard input ends, too: when the program that started this one is gone",
    )
    parser.set_defaults(run=run)


def add_logging(parser: argparse.ArgumentParser) -> None:
    """Where a command starts brokers."""
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="the least that is logged (default: info)")
    parser.add_argument(
        "--log-format",
        choices=STYLES,
        help="one JSON object a line, or text (default: text on a terminal, else json); logs go to standard error",
    )


def add_journal(parser: argparse.ArgumentParser) -> None:
    """Where a command starts brokers."""
    parser.add_argument(
        "--journal", metavar="DIR", type=Path, help="write the history of each process into this folder"
    )
    parser.add_argument(
        "--faults",
        action="store_true",
        help="say in the journal that failures belong to this run, so that what they cost is not held against it",
    )


def log_style(arguments: argparse.Namespace) -> str:
    """The style of logs that is asked for, or fits where they go."""
    chosen: str | None = arguments.log_format
    return chosen or ("text" if sys.stderr.isatty() else "json")


def run(arguments: argparse.Namespace) -> int:
    """Run the broker until it is told to stop."""
    from gapless.model.errors import ConfigError
    from gapless.node.config import load_config
    from gapless.node.logs import Logger
    from gapless.node.process import COULD_NOT_START, run_broker

    log = Logger(level=arguments.log_level, style=log_style(arguments))
    try:
        return run_broker(
            load_config(arguments.config),
            arguments.id,
            log,
            arguments.journal,
            faults=arguments.faults,
            until_input_ends=arguments.until_input_ends,
        )
    except ConfigError as error:
        if log.style == "text":
            raise  # a sentence of its own, as from every command
        log.error("cannot start", broker=arguments.id, reason=str(error))
        return COULD_NOT_START
