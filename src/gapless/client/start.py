"""Where a subscription begins."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from gapless.model.cursor import Cursor
from gapless.model.errors import ConfigError

NOW: Final = "now"
EARLIEST: Final = "earliest"
Start = Literal["now", "earliest"] | datetime | Cursor


def check_start(start: object) -> None:
    """Raise ConfigError unless it is a place to begin at."""
    if isinstance(start, datetime) and start.tzinfo is None:
        raise ConfigError(f"start={start!r} is a time without a zone: give it one, e.g. tzinfo=datetime.UTC")
    if start not in (NOW, EARLIEST) and not isinstance(start, datetime | Cursor):
        raise ConfigError(
            f'start={start!r} is no place to begin at: it is "now", "earliest", a datetime with a zone, or a Cursor '
            "(Cursor.parse makes one of its text)"
        )
