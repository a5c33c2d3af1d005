"""`gapless demo`: see it work, see a broker killed, see what that does, and have it judged."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gapless.cli.amounts import seconds
from gapless.cli.demonstration.stage import Stage, note
from gapless.cli.demonstration.verdict import judge, spark_is_here
from gapless.cli.demonstration.view import View
from gapless.cli.output import report_console
from gapless.model.errors import ConfigError
from gapless.model.events import Kind
from gapless.node.journal import Journal
from gapless.node.sockets import cause_of

EXAMPLE = """\
example:
  gapless demo --folder ./gapless-demo

Exit status: 0 every promise was kept, 1 one was broken, 2 wrong use."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "demo",
        help="watch an overlay work and survive a kill",
        description="Three brokers on loopback, publishers and subscribers with filters. In the first act nothing "
        "fails. In the second the broker in the middle is killed and brought back. At the end the journals of all "
        "processes are judged. Takes about a minute and leaves a folder to look at.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--folder", type=Path, help="where to leave configuration, logs and journals (default: a new one)"
    )
    parser.add_argument(
        "--no-spark", action="store_true", help="judge with the checker in this process instead of Spark"
    )
    parser.add_argument(
        "--seconds", metavar="S", type=seconds, default=4.0, help="how long each scene lasts (default: 4)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play, judge, and say what to look at; status 1 when a promise was broken."""
    console = report_console()
    folder = _folder(arguments.folder)
    use_spark = not arguments.no_spark and spark_is_here()
    started = time.monotonic()
    asyncio.run(_first_act(console, folder / "act-1", arguments.seconds))
    asyncio.run(_second_act(console, folder / "act-2", arguments.seconds))
    judge_name = "audit on Spark" if use_spark else "checker in this process"
    console.print(Text.assemble("\n", ("Verdict", "bold"), f", by the {judge_name}"))
    if not arguments.no_spark and not use_spark:
        console.print("  (with Spark installed, pip install 'gapless[spark]', the audit runs there)")
    good = True
    for title, judgement in zip(
        ("act 1, nothing failed", "act 2, a broker was killed"),
        judge([folder / "act-1" / "journals", folder / "act-2" / "journals"], use_spark),
        strict=True,
    ):
        console.print(f"\n{title}", style="bold")
        console.print(judgement.text)
        good = good and judgement.ok
    console.print(f"\n{time.monotonic() - started:.0f} s. Configuration, logs and journals are in {folder}")
    return 0 if good else 1


def _folder(named: Path | None) -> Path:
    """A folder with nothing in it. Raises ConfigError."""
    try:
        folder = named or Path(tempfile.mkdtemp(prefix="gapless-demo-"))
        folder.mkdir(parents=True, exist_ok=True)
        empty = not any(folder.iterdir())
    except OSError as error:
        raise ConfigError(
            f"{named or 'a new folder'} cannot be had: {cause_of(error)}; name a folder that is new or empty"
        ) from None
    if not empty:
        raise ConfigError(f"{folder} is not empty; name a folder that is new or empty")
    return folder


async def _first_act(console: Console, folder: Path, seconds: float) -> None:
    console.print("Act 1: nothing fails", style="bold")
    stage = Stage(folder, faults=False)
    await _raise(stage)
    try:
        async with stage.clients() as journal:
            with View(console, stage) as view:
                view.say("publishers at b0 and b2 publish; everybody gets what matches, at every broker")
                stage.publishing.set()
                await view.show(seconds)
                await _settle(stage, journal)
                _tell(view, stage)
    finally:
        await stage.stop_brokers()


async def _second_act(console: Console, folder: Path, seconds: float) -> None:
    console.print("\nAct 2: the broker in the middle is killed", style="bold")
    stage = Stage(folder, faults=True)
    await _raise(stage)
    try:
        async with stage.clients() as journal:
            with View(console, stage) as view:
                stage.publishing.set()
                view.say("all is well")
                await view.show(seconds / 2)
                view.say(
                    "kill -9 b1. The tree is cut: `direct` keeps nothing, so what is published at b0 does not reach "
                    "b2. The clients of b1 go to another broker, and are told that they may have missed something"
                )
                note(journal, Kind.FAULT, reason="kill", peer="b1")
                await stage.kill_broker("b1")
                await view.show(seconds)
                view.say("b1 is started again, and nobody does anything else")
                await stage.start_broker(1)
                took = await stage.closed()
                view.say(f"after {took:.1f} s the tree has closed by itself: everybody gets everything again")
                await view.show(seconds)
                await _settle(stage, journal)
                _tell(view, stage)
    finally:
        await stage.stop_brokers()


async def _raise(stage: Stage) -> None:
    stage.write_config()
    for number in range(3):
        await stage.start_broker(number)


async def _settle(stage: Stage, journal: Journal) -> None:
    """Let what is under way arrive, and say in the journal that it had the time."""
    stage.publishing.clear()
    note(journal, Kind.CALM)
    await stage.quiet()
    note(journal, Kind.END)


def _tell(view: View, stage: Stage) -> None:
    view.final()
    accepted, unknown = sum(stage.accepted.values()), sum(stage.unknown.values())
    more = f", {unknown:,} of unknown outcome" if unknown else ""
    deliveries = f"{stage.delivered():,} deliveries to {len(stage.watches)} subscribers"
    missing = sum(max(watch.owed - watch.count, 0) for watch in stage.watches)
    lost = (
        f"; {missing:,} did not arrive, which `direct` allows while brokers fail" if missing else "; nothing is missing"
    )
    view.say(f"{accepted:,} publications accepted{more}; {deliveries}{lost}")
