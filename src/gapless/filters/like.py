"""LIKE, without backtracking.

A pattern is cut at its % into segments. The first and the last are compared in place; each one between is searched
from where the one before ended, and its leftmost place is always right, so nothing is ever tried again. A segment
without _ is searched by `str.find`. One with _ is searched at all places of the text at once: a big integer has a bit
for each place where the segment may begin, and every character of the segment clears, by one shift and one AND, the
places where it does not stand. That is one pass over the text's bits for each character of the segment, whatever text
and pattern are: no input makes it slower than that. It is done window by window, so that a segment found early costs
the distance to it and not the whole text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

MAX_PATTERN: Final = 4096  # characters
SHORT_WORK: Final = 512  # comparisons up to which trying every place beats building the bits
WINDOW: Final = 1024  # places searched at once, if the segment is not longer


class LikePattern:
    """A pattern and its escape, ready to match. The escape stands before %, _ or itself only."""

    __slots__ = ("literal", "matches", "segments")

    def __init__(self, pattern: str, escape: str = "") -> None:
        pieces = split_pattern(pattern, escape)
        self.segments = tuple(_Segment(piece) for piece in pieces)
        first = self.segments[0]
        # Without wildcards LIKE is equality, and this is the string.
        self.literal: str | None = first.plain if len(pieces) == 1 else None
        self.matches: Callable[[str], bool] = self._choose()

    def _choose(self) -> Callable[[str], bool]:
        first, last = self.segments[0], self.segments[-1]
        if self.literal is not None:
            return self.literal.__eq__
        if len(self.segments) == 1:
            return lambda text: len(text) == first.size and first.stands_at(text, 0)
        if len(self.segments) == 2 and not first.size and last.plain is not None:
            tail = last.plain
            return lambda text: text.endswith(tail)
        if len(self.segments) == 2 and not last.size and first.plain is not None:
            head = first.plain
            return lambda text: text.startswith(head)
        if len(self.segments) == 3 and not first.size and not last.size and self.segments[1].plain is not None:
            middle = self.segments[1].plain
            return lambda text: middle in text
        return self._matches

    def _matches(self, text: str) -> bool:
        first, *middle, last = self.segments
        end = len(text) - last.size
        at = first.size
        if end < at or not first.stands_at(text, 0) or not last.stands_at(text, end):
            return False
        for segment in middle:
            at = segment.find(text, at, end)
            if at < 0:
                return False
            at += segment.size
        return True


def split_pattern(pattern: str, escape: str) -> list[list[str]]:
    """The segments between the %: lists of characters, "" standing for _. Empty ones are kept at the ends only."""
    segments: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            segments[-1].append(next(characters))
        elif character == "%":
            segments.append([])
        else:
            segments[-1].append("" if character == "_" else character)
    return [piece for place, piece in enumerate(segments) if piece or place in (0, len(segments) - 1)]


class _Segment:
    """What stands between two %."""

    __slots__ = ("characters", "plain", "runs", "size")

    def __init__(self, piece: list[str]) -> None:
        self.size = len(piece)
        self.characters = [(place, character) for place, character in enumerate(piece) if character]
        self.plain = "".join(piece) if len(self.characters) == self.size else None
        self.runs = _runs(piece)

    def stands_at(self, text: str, at: int) -> bool:
        """Whether the segment stands at this place, which lies inside the text."""
        return all(text.startswith(run, at + offset) for offset, run in self.runs)

    def find(self, text: str, start: int, end: int) -> int:
        """The leftmost place of the segment in text[start:end]; -1 when there is none."""
        if self.plain is not None:
            return text.find(self.plain, start, end)
        places = end - start - self.size + 1
        if places <= 0:
            return -1
        if not self.runs:
            return start
        if places * len(self.runs) <= SHORT_WORK:
            for at in range(start, start + places):
                if self.stands_at(text, at):
                    return at
            return -1
        window = max(WINDOW, self.size)
        while places > 0:
            searched = min(window, places)
            at = self.find_by_bits(text, start, searched)
            if at >= 0:
                return at
            start += searched
            places -= searched
        return -1

    def find_by_bits(self, text: str, start: int, places: int) -> int:
        """The leftmost of so many places from `start` on; -1 when it is none of them."""
        window = text[start : start + places + self.size - 1]
        codes = np.frombuffer(window.encode("utf-32-le", "surrogatepass"), np.uint32)
        where: dict[str, int] = {}
        left = (1 << places) - 1
        for offset, character in self.characters:
            bits = where.get(character)
            if bits is None:
                packed = np.packbits(codes == ord(character), bitorder="little")
                bits = where[character] = int.from_bytes(packed.tobytes(), "little")
            left &= bits >> offset
            if not left:
                return -1
        return start + (left & -left).bit_length() - 1


def _runs(piece: list[str]) -> tuple[tuple[int, str], ...]:
    """The stretches of characters without _, with their offsets."""
    runs: list[tuple[int, str]] = []
    offset = 0
    while offset < len(piece):
        end = offset
        while end < len(piece) and piece[end]:
            end += 1
        if end > offset:
            runs.append((offset, "".join(piece[offset:end])))
        offset = end + 1
    return tuple(runs)
