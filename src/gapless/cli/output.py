"""Where reports are printed: as wide as the terminal, or wide enough for all of it where there is none."""

from __future__ import annotations

from rich.console import Console

REPORT_WIDTH = 120


def report_console(width: int = REPORT_WIDTH) -> Console:
    """A console for tables and sentences; text in brackets is text, unless it is asked to read markup."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = width
    return console
