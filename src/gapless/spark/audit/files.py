"""The files of journals: which there are, and which line of one an event is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from gapless.spark.audit.errors import JournalError

if TYPE_CHECKING:
    from pyspark.sql import Row

PARQUET = ".parquet"
_NDJSON = (".ndjson", ".jsonl")


def find_journals(paths: Sequence[Path]) -> list[Path]:
    """The journals that `paths` name: files, and what looks like a journal in folders."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.name.endswith((*_NDJSON, PARQUET)))
            if not inside:
                raise JournalError(
                    f"{path} holds no journals: expected NODE.ndjson or NODE.parquet, one file for each process."
                )
            found |= dict.fromkeys(file.resolve() for file in inside)
        elif path.is_file():
            found[path.resolve()] = None
        else:
            raise JournalError(f"{path} does not exist: name a folder of journals, or journals.")
    if not found:
        raise JournalError("no journals were named: name a folder of journals, or journals.")
    return list(found)


@dataclass(frozen=True)
class Place:
    """Where an event stands."""

    file: int
    block: int
    row: int


class Files:
    """The files of the journals, and which lines stand where in them."""

    def __init__(self, blocks: Iterable[Row]) -> None:
        self._blocks: dict[tuple[int, int], tuple[int, int]] = {}  # (file, block): first row, lines before
        self.lines: Counter[int] = Counter()
        self.paths: dict[int, Path] = {}
        self.begins_with: dict[int, str | None] = {}
        for row in sorted(blocks, key=lambda row: (row["file"], row["block"])):
            file = row["file"]
            self._blocks[file, row["block"]] = (row["first"], self.lines[file])
            self.lines[file] += row["lines"]
            self.paths[file] = Path(unquote(urlparse(row["path"]).path))
            if self.begins_with.get(file) is None:
                self.begins_with[file] = row["begins"]["event"] if row["begins"] is not None else None

    def name(self, file: int) -> str:
        """What to call a file: its name, with its folder where two files have one name."""
        path = self.paths[file]
        alone = sum(other.name == path.name for other in self.paths.values()) == 1
        return path.name if alone else str(path)

    def line(self, place: Place) -> int:
        """The number of a line in its file, from 1."""
        first, before = self._blocks[place.file, place.block]
        return before + place.row - first + 1
