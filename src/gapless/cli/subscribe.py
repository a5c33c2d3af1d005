"""`gapless subscribe`: print what matches a filter."""

from __future__ import annotations

import argparse
import base64
import json
import math
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapless import GapNotice, Publication
    from gapless.sync import Bus, Subscription

EXAMPLE = """\
examples:
  gapless subscribe 127.0.0.1:7402 quotes "loc = 'NY' AND price > 3"
  gapless subscribe cluster.toml quotes --topic "nyse/+/quotes" --json | head
  gapless subscribe 127.0.0.1:7400 quotes --count 100 --for 60

What is missing is told on standard error, where it is missing, and so is a move to another server. Ctrl-C ends it.
Exit status: 0 good, 1 fewer than --count came within --for, or no server could be reached, 2 wrong use, 130 Ctrl-C
before it was subscribed."""
LOOK_S = 0.5  # how often one looks where the subscription stands


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    from gapless.cli.amounts import count, seconds
    from gapless.cli.clients import add_connection

    parser = subparsers.add_parser(
        "subscribe",
        help="print what matches a filter",
        description="Subscribe, say on standard error when that is confirmed, and print whatever matches.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_connection(parser)
    parser.add_argument("filter", metavar="FILTER", nargs="?", default="", help="a JMS selector (default: everything)")
    parser.add_argument("--filter", metavar="TEXT", dest="filter_option", help="the same")
    parser.add_argument("--topic", metavar="PATTERN", default="", help="a topic pattern; + is one level, # the rest")
    parser.add_argument("--count", metavar="N", type=count, help="end after so many")
    parser.add_argument("--for", metavar="S", dest="seconds", type=seconds, help="end after so many seconds")
    parser.add_argument("--json", action="store_true", help="print NDJSON, one object a publication")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Subscribe, and print."""
    from gapless.cli.clients import connected
    from gapless.model.errors import ConfigError

    if arguments.filter and arguments.filter_option is not None:
        raise ConfigError("there are two filters: give one, with or without --filter")
    text = arguments.filter_option if arguments.filter_option is not None else arguments.filter
    standing: Standing | None = None
    try:
        with (
            connected(arguments) as bus,
            bus.subscribe(
                arguments.space,
                text,
                topic=arguments.topic,
                on_gap=_tell_gap,
                deadline=arguments.connect_deadline,
            ) as subscription,
        ):
            beyond = f", but not beyond {', '.join(subscription.exceptions)}" if subscription.exceptions else ""
            standing = Standing(bus)
            print(f"subscribed at {standing.server}{beyond}", file=sys.stderr, flush=True)
            return _print_all(subscription, arguments, standing)
    except KeyboardInterrupt:
        if standing is None:
            raise  # it never got what it was started for
        return 0


class Standing:
    """Says where the subscription stands when that changes: at another server, or at none."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.server = bus.server
        self._told = self.server
        self._missing = 0  # times in a row that there was none

    def look(self) -> None:
        """Look, and say what is new."""
        self.server = self.bus.server
        self._missing = 0 if self.server else self._missing + 1
        # To be between two servers for a moment is nothing to tell.
        if self.server == self._told or self._missing == 1:
            return
        self._told = self.server
        trouble = self.bus.trouble
        if self.server:
            words = f"connected to {self.server} now"
        else:
            words = f"no server can be reached{f' ({trouble})' if trouble else ''}; trying until one can be"
        print(f"gapless subscribe: {words}", file=sys.stderr, flush=True)


def _print_all(subscription: Subscription, arguments: argparse.Namespace, standing: Standing) -> int:
    """Print until enough has come, or time is up."""
    from gapless.model.errors import DeadlineExceeded

    line_of = _json_line if arguments.json else _text_line
    until = None if arguments.seconds is None else time.monotonic() + arguments.seconds
    left: int | None = arguments.count
    while left is None or left > 0:
        standing.look()
        rest = LOOK_S if until is None else min(until - time.monotonic(), LOOK_S)
        if rest <= 0:
            break  # however much there still is: a busy space would never let it end
        try:
            some = subscription.some(rest)
        except DeadlineExceeded:
            if rest < LOOK_S:
                break
            continue
        some = some if left is None else some[:left]
        sys.stdout.write("".join(map(line_of, some)))
        sys.stdout.flush()
        left = None if left is None else left - len(some)
    if left:
        print(
            f"gapless subscribe: {left} of {arguments.count} did not come within {arguments.seconds:g} s",
            file=sys.stderr,
        )
    return 1 if left else 0


def _text_line(publication: Publication) -> str:
    time_of = datetime.fromtimestamp(publication.time / 1e9, UTC).strftime("%H:%M:%S.%f")[:-3]
    attributes = " ".join(f"{name}={_shown(value)}" for name, value in publication.attributes.items())
    body = f"  {_text_of(publication.body)}" if publication.body else ""
    return f"{time_of} {publication.source} {publication.seq}  {attributes}{body}\n"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def _text_of(body: bytes) -> str:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return repr(body)
    return text if text.isprintable() else repr(text)


def _json_line(publication: Publication) -> str:
    attributes: dict[str, Any] = {}
    types: dict[str, str] = {}  # of what JSON cannot show
    for name, value in publication.attributes.items():
        if isinstance(value, datetime):
            types[name], value = "timestamp", value.isoformat()
        elif isinstance(value, float) and not math.isfinite(value):
            types[name], value = "float64", str(value)
        attributes[name] = value
    line: dict[str, Any] = {
        "source": publication.source,
        "seq": publication.seq,
        "time": publication.time,
        "attributes": attributes,
        **({"types": types} if types else {}),
    }
    try:
        line["body"] = publication.body.decode()
    except UnicodeDecodeError:
        line["body_base64"] = base64.b64encode(publication.body).decode()
    return json.dumps(line, ensure_ascii=False) + "\n"


def _tell_gap(notice: GapNotice) -> None:
    count = "an unknown number of" if notice.count < 0 else f"{notice.count:,}"
    print(f"gapless subscribe: {count} publications are missing here: {notice.reason}", file=sys.stderr, flush=True)
