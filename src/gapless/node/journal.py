"""The journal of a process: its events as NDJSON, in the schema of histories."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gapless.delivery.port import Note
from gapless.model.events import HISTORY_VERSION, Event, Kind, encode_event


class Journal:
    """Appends events to `<folder>/<node>.ndjson`. Buffered: `flush` and `close` write out what is there."""

    def __init__(self, folder: Path, node: str, **run: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.node = node
        self.path = folder / f"{node}.ndjson"
        self._file = self.path.open("ab", buffering=1 << 20)
        self._n = 0
        self.write(Kind.RUN, version=HISTORY_VERSION, clock="global", **run)

    def write(self, event: Kind, **fields: Any) -> None:
        """Append one event of this process, now."""
        self._n += 1
        line = Event(event=event, at=time.monotonic_ns(), wall=time.time_ns(), node=self.node, n=self._n, **fields)
        self._file.write(encode_event(line) + b"\n")

    def note(self, space: str, note: Note) -> None:
        """Append what a core noted."""
        self.write(note.event, space=space, **note.fields)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """The process ends in an orderly way."""
        if not self._file.closed:
            self._file.close()
