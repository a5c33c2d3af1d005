"""Structured logs: one JSON object a line, or readable text on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from gapless.node.clock import now

TRACE = "traceback"
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
        at = timestamp()
        if self.style == "json":
            line = json.dumps({"time": at, "level": level, "event": event, **everything}, default=str)
        else:
            line = as_text({"time": at, "level": level, "event": event, **everything})
        print(line, file=self.stream, flush=True)


def timestamp() -> str:
    """This moment, as it stands in logs."""
    return datetime.fromtimestamp(now().wall / 1e9, UTC).isoformat(timespec="milliseconds")


def as_text(line: Mapping[str, Any]) -> str:
    """A line of a log for people: the time of day, what happened, its fields, and a traceback below it."""
    fields = [
        f"{name}={_value(value)}" for name, value in line.items() if name not in ("time", "level", "event", TRACE)
    ]
    first = f"{str(line.get('time', ''))[11:23]} {line.get('level', ''):7} {line['event']}  {' '.join(fields)}".rstrip()
    return f"{first}\n{line[TRACE]}".rstrip() if TRACE in line else first


def _value(value: object) -> str:
    """As it is, unless that could be taken for something else."""
    text = str(value)
    return text if text.isprintable() and " " not in text and '"' not in text else json.dumps(text)
