"""`gapless up`: all brokers of a cluster on this machine, for trying things out."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.cli.broker import add_journal, add_logging, log_style

if TYPE_CHECKING:
    from gapless.node.config import ClusterConfig
    from gapless.node.fleet import Child

BROKERS = 3
PORT = 7400
SHAPES = ("chain", "star", "tree")
FILE = "cluster.toml"
EXAMPLE = f"""\
examples:
  gapless up --brokers 3
  gapless up --brokers 7 --shape tree --journal ./journals
  gapless up {FILE}

Ctrl-C drains all brokers; a second Ctrl-C ends them at once. A broker that dies is reported and not started again;
the others go on. Exit status: 0 all drained, 1 a broker could not start or died, 2 wrong use."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "up",
        help="start all brokers of a cluster on this machine",
        description="Start every broker of the cluster that CONFIG describes, or of a new one, each as a process.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", metavar="CONFIG", nargs="?", type=Path, help="the cluster's configuration")
    parser.add_argument("--brokers", metavar="N", type=int, help=f"how many, where there is no CONFIG ({BROKERS})")
    parser.add_argument("--shape", choices=SHAPES, help="how they hang together, where there is no CONFIG (chain)")
    parser.add_argument("--port", type=int, help=f"where the first of them listens, where there is no CONFIG ({PORT})")
    parser.add_argument(
        "--write", metavar="FILE", type=Path, help=f"where to write that configuration (default: ./{FILE})"
    )
    add_logging(parser)
    add_journal(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Start them, and stay until they have ended."""
    from gapless.node.config import load_config
    from gapless.node.process import check_assertions

    check_assertions()
    path = _config_file(arguments)
    config = load_config(path)
    return asyncio.run(_Up(arguments, path, config).run())


def _config_file(arguments: argparse.Namespace) -> Path:
    """The file that is named, or a new one."""
    from gapless.model.errors import ConfigError
    from gapless.node.config import default_config, parse_config
    from gapless.node.sockets import cause_of

    if arguments.config is not None:
        if any(one is not None for one in (arguments.brokers, arguments.shape, arguments.port, arguments.write)):
            raise ConfigError(
                f"{arguments.config} says which brokers there are: leave out --brokers, --shape, --port and --write, "
                "or leave out the file"
            )
        given: Path = arguments.config
        return given
    brokers = BROKERS if arguments.brokers is None else arguments.brokers
    port = PORT if arguments.port is None else arguments.port
    text = default_config(brokers, arguments.shape or "chain", port)
    path: Path = arguments.write or Path(FILE)
    _check_ports(parse_config(text, str(path)))
    try:
        if _is_another(path, text):
            raise ConfigError(
                f"{path} is there already and is not what would be written: start it with `gapless up {path}`, "
                "or name another file with --write"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {cause_of(error)}; name another file with --write") from None
    return path


def _check_ports(config: ClusterConfig) -> None:
    """Before a configuration is written down, which would then be in the way of another try."""
    from gapless.model.errors import ConfigError
    from gapless.node.sockets import is_free

    wanted = [where for broker in config.brokers for where in (broker.listen, broker.http) if where]
    taken = [where for where in wanted if not is_free(where.host, where.port)]
    if taken:
        these = ", ".join(map(str, taken))
        raise ConfigError(
            f"something listens on {these} already: stop it, or give the first of other ports with --port"
        )


def _is_another(path: Path, text: str) -> bool:
    """Whether a file has other contents than this text."""
    return path.exists() and path.read_bytes() != text.encode()


def _journal_options(arguments: argparse.Namespace) -> list[str]:
    """What was said of journals, for a broker."""
    folder = [] if arguments.journal is None else ["--journal", str(arguments.journal)]
    return [*folder, *(["--faults"] if arguments.faults else [])]


def _log_options(arguments: argparse.Namespace) -> list[str]:
    """What was said of logs, for a broker that somebody starts by hand."""
    style = [] if arguments.log_format is None else ["--log-format", arguments.log_format]
    return [*style, *([] if arguments.log_level == "info" else ["--log-level", arguments.log_level])]


class _Up:
    def __init__(self, arguments: argparse.Namespace, path: Path, config: ClusterConfig) -> None:
        from gapless.node.fleet import Fleet, broker_command
        from gapless.node.journal import Journal

        self.path = path
        self.config = config
        self.style = log_style(arguments)
        self.width = max(len(broker.id) for broker in config.brokers)
        self.quiet = arguments.log_level in ("warning", "error")
        more = _journal_options(arguments)
        self.again = [*_log_options(arguments), *more]
        self.journal = Journal(arguments.journal, "up", faults=arguments.faults) if arguments.journal else None
        self.fleet = Fleet(
            config, broker_command(path, "--log-level", "info", *more), self.on_log, self.on_end, self.journal
        )

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        if await self.fleet.start():
            self.say(self.welcome())
        elif not self.fleet.draining:
            self.say("Not every broker could start; the others are stopped.")
            self.fleet.drain()
        await self.fleet.wait()
        if self.journal is not None:
            self.journal.close(goodbye=True)
        lost = self.fleet.lost()
        self.say("; ".join(f"{child.me} {child.ending}" for child in lost) if lost else "All brokers have drained.")
        return 1 if lost else 0

    def stop(self) -> None:
        """Ctrl-C."""
        from gapless.model.events import Kind
        from gapless.node.clock import now

        if self.journal is not None and not self.fleet.draining:
            self.journal.write(Kind.END, now())  # what happens while brokers go down is not judged
        self.say("Stopping at once." if self.fleet.draining else "Draining; Ctrl-C again ends all at once.")
        self.fleet.drain()

    def welcome(self) -> str:
        """Where everything is, and what to type next."""
        first, last = self.config.brokers[0], self.config.brokers[-1]
        space, path = self.config.spaces[0].name, shlex.quote(str(self.path))
        lines = [f"Cluster {self.config.name!r} is up; {self.path} describes it."]
        pids = {child.me: child.process.pid for child in self.fleet.children.values()}
        for broker in self.config.brokers:
            hangs = f"hangs on {broker.parent}" if broker.parent else "the root"
            http = f", http://{broker.http}/status" if broker.http else ""
            lines.append(f"  {broker.id:{self.width}}  {broker.listen}  process {pids[broker.id]}, {hangs}{http}")
        lines += [
            "In other shells:",
            f'  gapless subscribe {last.listen} {space} "price > 3"',
            f"  gapless publish {first.listen} {space} price=4.5",
            # Only brokers with an `http` tell their status.
            *([f"  gapless status {path}"] if any(broker.http for broker in self.config.brokers) else []),
            "Ctrl-C drains all brokers.",
        ]
        return "\n".join(lines)

    def on_end(self, child: Child) -> None:
        """A broker is gone."""
        if self.fleet.draining or not child.listening:
            return
        again = shlex.join(["gapless", "broker", str(self.path), "--id", child.me, *self.again])
        self.say(f"{child.me} {child.ending}; the others go on. To bring it back: {again}")

    def on_log(self, me: str, log: Any) -> None:
        """A broker logs."""
        from gapless.node.logs import as_text

        if self.quiet and log.get("level") not in ("warning", "error"):
            return
        if self.style == "json":
            print(json.dumps({**log, "broker": me}), file=sys.stderr, flush=True)
            return
        print(f"{me:{self.width}} | {as_text({name: log[name] for name in log if name != 'broker'})}", file=sys.stderr)

    def say(self, words: str) -> None:
        """To whoever sits before it."""
        print(words, flush=True)
