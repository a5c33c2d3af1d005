"""The journal of a process on disk: `<folder>/<node>.ndjson`, in the schema of histories.

A process that goes on under a name whose journal is there goes on in that file: a line that was torn when the earlier
process died is cut off, and what became of that process is written down before anything else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gapless.delivery.journal import Journal as Writer
from gapless.delivery.journal import declared
from gapless.delivery.port import SpaceSettings
from gapless.model.errors import ConfigError
from gapless.model.events import DRAINING, HISTORY_VERSION, SLOW_SUBSCRIBER, Event, Kind, decode_event, encode_event
from gapless.node.clock import now
from gapless.node.sockets import cause_of

BUFFER_BYTES = 1 << 20
TAIL_BYTES = 1 << 16  # the last line of a journal lies within so much of its end
GOODBYE = DRAINING


class Journal(Writer):
    """Writes events as they come. Buffered: `flush` and `close` hand over what is there.

    A disk that takes no more ends the journal, not the process: `trouble` then says why.
    """

    def __init__(
        self, folder: Path, node: str, on_trouble: Callable[[str], None] = lambda trouble: None, **run: Any
    ) -> None:
        """`run` are further fields of the `run` event. Raises ConfigError when the file cannot be had."""
        self.path = folder / f"{node}.ndjson"
        self.trouble = ""
        self._on_trouble = on_trouble
        self.faults = bool(run.get("faults"))
        self._run = run = {"limits": (SLOW_SUBSCRIBER,), **run}  # an application may read as slowly as it likes
        self._spaces: list[str] = []
        last = self._open()
        super().__init__(node, self._append, last.n if last else 0)
        self.write(Kind.RUN, now(), version=HISTORY_VERSION, **run)
        if last is not None:
            if last.event is not Kind.DISCONNECTED or last.reason != GOODBYE or last.peer:
                self.write(Kind.CRASH, now())
            self.write(Kind.RESTART, now())
        self.flush()

    def _open(self) -> Event | None:
        """The last event of an earlier process of this name."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            last = _mend(self.path)
            self._file = self.path.open("ab", buffering=BUFFER_BYTES)
        except OSError as error:
            raise ConfigError(
                f"the journal {self.path} cannot be written: {cause_of(error)}; name a folder that can be"
            ) from None
        return last

    def space(self, settings: SpaceSettings) -> None:
        """The process takes part in this space: say once how it delivers."""
        if settings.name not in self._spaces:
            self._spaces.append(settings.name)
            fields = {**self._run, "version": HISTORY_VERSION, **declared(settings)}
            self.write(Kind.RUN, now(), settings.name, **fields)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        if not self._file.closed and not self.trouble:
            try:
                self._file.flush()
            except OSError as error:
                self._give_up(error)

    def close(self, goodbye: bool = False) -> None:
        """Write out what is there. With `goodbye` the process ends in an orderly way, and says so."""
        if self._file.closed:
            return
        if goodbye:
            self.disconnected("", GOODBYE, now())
        self.flush()
        try:
            self._file.close()
        except OSError as error:
            self._give_up(error)

    def _append(self, event: Event) -> None:
        if self.trouble or self._file.closed:
            return
        try:
            self._file.write(encode_event(event) + b"\n")
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if not self.trouble:
            self.trouble = f"journal {self.path} ends here: {error.strerror or error}"
            self._on_trouble(self.trouble)


def _mend(path: Path) -> Event | None:
    """Cut a torn line off the end of a journal; its last event, if it has one."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return None
    with file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - TAIL_BYTES)
        file.seek(start)
        tail = file.read()
        whole = tail.rfind(b"\n") + 1
        if start == 0 or whole:
            file.truncate(start + whole)
        lines = tail[:whole].splitlines()
    try:
        return decode_event(lines[-1]) if lines else None
    except msgspec.DecodeError:
        raise ConfigError(f"the journal {path} ends in a line that is no event: move the file away") from None
