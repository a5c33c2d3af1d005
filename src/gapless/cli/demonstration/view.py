"""What one sees while the acts are played: a live picture on a terminal, lines elsewhere."""

from __future__ import annotations

import asyncio
import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gapless.cli.demonstration.stage import BROKERS, Stage


class View:
    """Shows a stage until it is closed."""

    def __init__(self, console: Console, stage: Stage) -> None:
        self.console = console
        self.stage = stage
        self.caption = ""
        self._last: dict[str, int] = {}
        self._at = time.monotonic()
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None

    def say(self, text: str) -> None:
        """What happens now."""
        self.caption = text
        self.console.print(Text.assemble(("•", "bold"), f" {text}"))

    async def show(self, seconds: float) -> None:
        """Look on for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._live is not None:
                self._live.update(self.picture())
            await asyncio.sleep(0.25)

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end_live()

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.update(Text())
            self._live.stop()
            self._live = None

    def final(self) -> None:
        """The picture when everything has arrived that will, with what has not; it stays, and moves no more."""
        self._end_live()
        self.console.print(self.picture(settled=True))
        self.console.print()

    def picture(self, settled: bool = False) -> Group:
        """Brokers and subscribers at this moment; what is missing shows when nothing is under way any more."""
        took = max(time.monotonic() - self._at, 0.001)
        self._at = time.monotonic()
        brokers = Text("  brokers  ")
        for number in range(BROKERS):
            name = f"b{number}"
            up = self.stage.alive(name)
            brokers.append(f" {name} ", style="black on green" if up else "white on red")
            if number < BROKERS - 1:
                brokers.append(" ── " if up and self.stage.alive(f"b{number + 1}") else " ✗ ")
        table = Table(box=None, pad_edge=False)
        numbers = ("delivered", "missing", "a second")
        for heading in ("subscriber", "home", "filter", *numbers, "told of gaps"):
            table.add_column(heading, justify="right" if heading in numbers else "left")
        for watch in self.stage.watches:
            rate = (watch.count - self._last.get(watch.name, 0)) / took
            self._last[watch.name] = watch.count
            gaps = ", ".join(dict.fromkeys(watch.gaps))
            missing = f"{watch.owed - watch.count:,}" if settled and watch.owed > watch.count else ""
            counts = (f"{watch.count:,}", missing, f"{rate:,.0f}")
            table.add_row(watch.name, watch.broker, watch.filter, *counts, gaps)
        return Group(brokers, table)
