"""`gapless publish`: publications from arguments, a file or standard input."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless.cli.portions import Declared, Portion
    from gapless.sync import Bus, Publisher, Receipt

COMPLAINTS_SHOWN = 20
PACE_S = 0.05  # with --rate, what falls into so much time goes together
PROGRESS_S = 1.0
EXAMPLE = """\
examples:
  gapless publish 127.0.0.1:7400 quotes loc=NY price=4.5 --body hello
  gapless publish cluster.toml quotes --from quotes.csv --rate 1000
  tail -f quotes.ndjson | gapless publish 127.0.0.1:7400,127.0.0.1:7401 quotes --from -

A line of NDJSON is an object: its members are the attributes, "body" is the body. Values are typed as the space
declares them, else by their looks: 7 is an integer, 7.0 a float, true a bool, '7' in quotes a string. A column of CSV
has one type for all rows, so the file is read to its end first; where that is not text, a cell that is empty, NA,
NULL or nan means that the attribute is absent. A row that cannot be published is named, and the others are published.
Exit status: 0 all were accepted, 1 some were not, 2 wrong use."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    from gapless.cli.amounts import amount, seconds
    from gapless.cli.clients import add_connection

    parser = subparsers.add_parser(
        "publish",
        help="publish from arguments, a file or standard input",
        description="Publish one publication from arguments, or many from a file or standard input, and tell how many "
        "were accepted.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_connection(parser)
    parser.add_argument("attributes", metavar="NAME=VALUE", nargs="*", help="an attribute of the one publication")
    parser.add_argument("--attr", metavar="NAME=VALUE", action="append", default=[], help="the same; may come often")
    parser.add_argument("--body", metavar="TEXT", help="its body")
    parser.add_argument(
        "--from", metavar="FILE", dest="file", help="an NDJSON, CSV or Parquet file; - is standard input"
    )
    parser.add_argument("--format", choices=("ndjson", "csv", "parquet"), help="of FILE (default: by its name)")
    parser.add_argument("--body-column", metavar="NAME", default="body", help="where FILE has bodies (default: body)")
    parser.add_argument("--name", help="publish under this name, as its newest holder")
    parser.add_argument(
        "--rate", metavar="R", type=amount("publications a second"), help="publish at most so many a second"
    )
    parser.add_argument(
        "--deadline",
        metavar="S",
        type=seconds,
        default=30.0,
        help="how long to wait for the last outcome (default: 30)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Publish, and tell what became of it."""
    from gapless.cli.clients import connected
    from gapless.cli.portions import format_of
    from gapless.model.errors import ConfigError

    one = bool(arguments.attributes or arguments.attr or arguments.body is not None)
    if one == (arguments.file is not None):
        what = "both one publication and a file" if one else "nothing to publish"
        raise ConfigError(f"there is {what}: give NAME=VALUE and --body, or --from FILE")
    kind = "" if one else format_of(arguments.file, arguments.format)
    with connected(arguments) as bus:
        sending = Sending(arguments, bus, kind)
        try:
            sending.send()
            sending.settle(arguments.deadline)
        except BaseException:
            if sending.sent and not one:
                sending.tell()
            raise
        sending.tell()
    return 0 if sending.all_well else 1


class Sending:
    """Sends portions, and counts what becomes of them."""

    def __init__(self, arguments: argparse.Namespace, bus: Bus, kind: str) -> None:
        self.arguments = arguments
        self.kind = kind
        self.publisher: Publisher = bus.publisher(arguments.space, arguments.name, deadline=arguments.connect_deadline)
        self.sent = self.accepted = self.refused = self.unknown = self.bad = 0
        self.pending: deque[tuple[Receipt, Portion]] = deque()
        self.started = self.shown = time.monotonic()

    @property
    def all_well(self) -> bool:
        """Whether everything there was has been accepted."""
        return self.accepted == self.sent and not self.bad

    def send(self) -> None:
        """Hand everything in, at the rate that is wanted."""
        from gapless.model.errors import PublicationError

        rate: float | None = self.arguments.rate
        size = max(1, int(rate * PACE_S)) if rate else 1 << 30
        try:
            for portion in self._portions(self.publisher.declared):
                for part in portion.parts(size):
                    if rate:
                        time.sleep(max(self.started + self.sent / rate - time.monotonic(), 0))
                    self.pending.append((self.publisher.send_many(part.rows, part.bodies), part))
                    self.sent += len(part.names)
                    self._count_settled()
                    self._show_progress()
        except PublicationError as error:
            if not self.sent:
                raise
            self._complain("", error)  # the rest of the file cannot be read; what came before it counts

    def _portions(self, declared: Declared) -> Iterator[Portion]:
        from gapless.cli.portions import Portion, attributes_of, portions_of
        from gapless.model.errors import PublicationError

        arguments = self.arguments
        if arguments.file is not None:
            column = arguments.body_column
            return portions_of(arguments.file, self.kind, column, declared, self._complain, self._say)
        try:
            row = attributes_of([*arguments.attributes, *arguments.attr], declared)
        except PublicationError as error:
            self._complain("", error)
            return iter(())
        return iter([Portion([row], [(arguments.body or "").encode()], [""])])

    def settle(self, deadline: float) -> None:
        """Wait for what is not known yet."""
        from gapless.model.errors import GaplessError

        until = time.monotonic() + deadline
        for receipt, _ in self.pending:
            try:
                receipt.accepted(max(until - time.monotonic(), 0))
            except GaplessError:
                continue  # counted below, each row by itself
        self._count_settled()

    def _count_settled(self) -> None:
        while self.pending and self.pending[0][0].settled:
            self._count(*self.pending.popleft())

    def _count(self, receipt: Receipt, portion: Portion) -> None:
        from gapless.model.errors import OutcomeUnknown

        self.accepted += len(portion.names) - len(receipt.errors)
        for seq, error in receipt.errors.items():
            if isinstance(error, OutcomeUnknown):
                self.unknown += 1
            else:
                self.refused += 1
            self._show(portion.names[seq - receipt.first], error)

    def _complain(self, name: str, error: Exception) -> None:
        """A row that is not even one."""
        self.bad += 1
        self._show(name, error)

    def _show(self, name: str, error: Exception) -> None:
        if self.refused + self.unknown + self.bad <= COMPLAINTS_SHOWN:
            self._say(f"{name}: {error}" if name else str(error))

    def _say(self, words: str) -> None:
        print(f"gapless publish: {words}", file=sys.stderr)

    def _show_progress(self) -> None:
        now = time.monotonic()
        if now - self.shown >= PROGRESS_S and sys.stderr.isatty():
            self.shown = now
            print(f"\r{self.sent:,} handed in, {self.accepted:,} accepted", end="", file=sys.stderr, flush=True)

    def tell(self) -> None:
        """The result."""
        self._count_settled()
        self.unknown += sum(len(portion.names) for _, portion in self.pending)
        self.pending.clear()
        took = time.monotonic() - self.started
        if self.shown > self.started:
            print(file=sys.stderr)
        failed = self.refused + self.unknown + self.bad
        if failed > COMPLAINTS_SHOWN:
            print(f"gapless publish: and {failed - COMPLAINTS_SHOWN:,} more like these", file=sys.stderr)
        if self.arguments.json:
            counts = {"accepted": self.accepted, "refused": self.refused + self.bad, "unknown": self.unknown}
            print(json.dumps({"source": self.publisher.name, **counts, "seconds": round(took, 3)}))
            return
        rest = [f"{self.refused + self.bad:,} refused"] if self.refused + self.bad else []
        rest += [f"{self.unknown:,} with an unknown outcome"] if self.unknown else []
        noun = "publication" if self.accepted == 1 else "publications"
        print(", ".join([f"accepted {self.accepted:,} {noun} of {self.publisher.name}", *rest]))
