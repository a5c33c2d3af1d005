"""Structured logs: one JSON object a line, or readable text on a terminal."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import Any, TextIO

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Logger:
    """Writes what happened, to what, with its fields."""

    def __init__(self, stream: TextIO | None = None, level: str = "info", style: str = "json", **fields: Any) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.threshold = LEVELS[level]
        self.style = style
        self.fields = fields

    def debug(self, event: str, **fields: Any) -> None:
        """For whoever looks for a fault in Gapless itself."""
        self._write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """What an operator wants to see go by."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something is not as it should be, and Gapless copes."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something is broken."""
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if LEVELS[level] < self.threshold:
            return
        everything = {**self.fields, **fields}
        at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        if self.style == "json":
            line = json.dumps({"time": at, "level": level, "event": event, **everything}, default=str)
        else:
            rest = " ".join(f"{name}={value}" for name, value in everything.items())
            line = f"{at[11:23]} {level:7} {event}  {rest}".rstrip()
        print(line, file=self.stream, flush=True)
