"""The `gapless` command: finds the command that was meant, and turns errors into a sentence and an exit status.

0  good
1  a check failed, a promise was lost, or what was asked for could not be done now
2  wrong use: arguments, a configuration, a filter, a publication that cannot be what it is
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

# Name, the module that adds it, and what it is for. Only the module of the command that is used gets imported.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("gapless.cli.demo", "see it work, see a broker killed, and have it judged"),
    "up": ("gapless.cli.up", "start all brokers of a cluster on this machine"),
    "broker": ("gapless.cli.broker", "run one broker"),
    "publish": ("gapless.cli.publish", "publish from arguments, a file or standard input"),
    "subscribe": ("gapless.cli.subscribe", "print what matches a filter"),
    "status": ("gapless.cli.status", "ask brokers what they know of themselves"),
    "filter": ("gapless.cli.filter", "try a filter on attributes"),
    "sim": ("gapless.cli.sim", "run a scenario in the simulator"),
    "soak": ("gapless.cli.sim", "simulate many worlds with faults"),
    "shrink": ("gapless.cli.shrink", "cut a failing scenario down to the least that fails"),
    "explore": ("gapless.cli.explore", "try every interleaving of small worlds"),
    "check": ("gapless.cli.sim", "judge a history"),
    "bench": ("gapless.cli.bench", "measure rates, latency and CPU on this machine"),
    "audit": ("gapless.cli.audit", "judge journals on Spark"),
}

EXAMPLE = """\
example:
  gapless up --brokers 3
  gapless subscribe 127.0.0.1:7402 quotes "price > 3"
  gapless publish 127.0.0.1:7400 quotes price=4.5

gapless COMMAND --help tells more of each. Exit status: 0 good, 1 a failed check or lost promise, 2 wrong use."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one sentence."""

    def error(self, message: str) -> NoReturn:
        """One sentence, and status 2."""
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help shows what there is\n")


class CommandParser(Parser):
    """Of one command: takes options wherever they stand, and says itself which arguments mean nothing to it."""

    _mixing = False

    def parse_known_args(  # type: ignore[override]  # of its overloads only what subparsers call is needed
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, in any order of options and others."""
        if self._mixing:  # parsing in any order is done by parsing twice in the usual one
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            found, rest = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False
        if rest:
            options = [one for one in rest if one.startswith("-")]  # which take what follows them along
            self.error(f"unrecognized arguments: {' '.join(options or rest)}")
        return found, []


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    asked = next((one for one in arguments if not one.startswith("-")), "")
    if asked and asked not in COMMANDS:
        near = get_close_matches(asked, COMMANDS, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
        print(f"gapless: there is no command {asked!r}; {advice}", file=sys.stderr)
        return 2
    parser = _parser(asked)
    if not arguments:
        parser.print_help(sys.stderr)
        return 2
    try:
        chosen = parser.parse_args(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    return _run(chosen)


def _run(chosen: argparse.Namespace) -> int:
    from gapless.model.errors import ConfigError, FilterError, GaplessError, PublicationError, UnknownSpace, Unsupported

    try:
        status: int = chosen.run(chosen)
        sys.stdout.flush()
        return status
    except (ConfigError, FilterError, PublicationError, UnknownSpace, Unsupported) as error:
        return _say(chosen.command, error, 2)
    except GaplessError as error:
        return _say(chosen.command, error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _forget_output()
        return 0


def _forget_output() -> None:
    """Whoever read our output has seen enough; what is still buffered must not fail once more at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(command: str, error: Exception, status: int) -> int:
    print(f"gapless {command}: {error}", file=sys.stderr)
    return status


def _parser(asked: str) -> Parser:
    """Knows all of the command that is asked for, and of the others what they are for."""
    parser = Parser(
        prog="gapless",
        description="Reliable publish/subscribe: delivered once, in order, with no gaps, while brokers and links fail.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version and end")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=CommandParser)
    if asked:
        import_module(COMMANDS[asked][0]).add_commands(subparsers)
    for name, (_, words) in COMMANDS.items():
        if name not in subparsers.choices:
            subparsers.add_parser(name, help=words, add_help=False)
    return parser


class _Version(argparse.Action):
    """Prints the version; it is looked up only then."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:  # noqa: A002  # the name argparse calls it by
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print, and end."""
        from gapless import __version__

        print(f"gapless {__version__}")
        parser.exit(0)


if __name__ == "__main__":
    sys.exit(main())
