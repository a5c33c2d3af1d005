"""Histories on disk: one file in order, or the journals of several processes merged by their common clock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gapless.model.errors import ConfigError
from gapless.model.events import Event, decode_event
from gapless.node.sockets import cause_of

SUFFIXES = (".ndjson", ".jsonl")


def read_history(paths: Sequence[Path]) -> list[Event]:
    """The events of a file, or of all journals in folders, in the order of time. Raises ConfigError.

    A last line without its end, as a process that is killed leaves it, is left out.
    """
    files = [file for path in paths for file in _files_of(path)]
    journals = [_read_file(file) for file in files]
    if len(journals) == 1:
        return journals[0]
    return sorted((event for journal in journals for event in journal), key=lambda event: event.at)


def _files_of(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        if not files:
            raise ConfigError(f"{path} holds no journals: files ending in {' or '.join(SUFFIXES)}")
        return files
    if not path.exists():
        raise ConfigError(f"there is no history {path}: name a file of events, or a folder of journals")
    return [path]


def _read_file(file: Path) -> list[Event]:
    events = []
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {cause_of(error)}; name a history that can be") from None
    lines = data.split(b"\n")
    whole = lines[:-1]  # what follows the last newline is nothing, or torn
    for number, line in enumerate(whole, 1):
        if not line.strip():
            continue
        try:
            events.append(decode_event(line))
        except msgspec.DecodeError as error:
            raise ConfigError(f"{file} line {number} is not an event: {error}") from None
    return events
