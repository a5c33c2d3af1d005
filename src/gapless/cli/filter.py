"""`gapless filter`: try a filter on attributes."""

from __future__ import annotations

import argparse
from typing import Any

EXAMPLE = """\
examples:
  gapless filter "price > 3 AND loc = 'NY'" --on '{"price": 4.5, "loc": "NY"}'
  gapless filter "NOT (a = 1 OR b IS NULL)" --explain

Prints true, false or unknown; a subscription gets what is true. Exit status: 0 it was evaluated, 2 the filter does not
parse or the attributes are none."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "filter",
        help="try a filter on attributes",
        description="Parse a filter, and evaluate it on the attributes in a JSON object.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("filter", metavar="TEXT", help="a JMS selector")
    parser.add_argument("--on", metavar="JSON", help="the attributes, as an object")
    parser.add_argument("--explain", action="store_true", help="print the normal form and the attributes it names, too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, and print."""
    from gapless.filters import parse
    from gapless.model.errors import ConfigError

    parsed = parse(arguments.filter)
    if arguments.on is None and not arguments.explain:
        raise ConfigError("there is nothing to evaluate it on: give --on with a JSON object, or --explain")
    value = None if arguments.on is None else parsed.evaluate(_attributes_in(arguments.on))
    if arguments.explain:
        print(f"normal form: {parsed.canonical}")
        print(f"attributes:  {', '.join(parsed.identifiers) or 'none'}")
    if arguments.on is not None:
        print({True: "true", False: "false", None: "unknown"}[value])
    return 0


def _attributes_in(text: str) -> dict[str, Any]:
    import msgspec

    from gapless.model.columns import check_attributes
    from gapless.model.errors import ConfigError

    try:
        attributes = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ConfigError(f"--on is not JSON: {error}") from None
    if not isinstance(attributes, dict):
        raise ConfigError("--on is not a JSON object: write for example '{\"price\": 4.5}'")
    check_attributes(attributes)
    return attributes
