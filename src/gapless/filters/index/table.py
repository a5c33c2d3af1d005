"""A table of what rules clauses out, 64 at a time.

The range of numbers that a gauge reads is cut into cells. For each cell the table has a bit for each clause: set where
the clause has a range that has nothing in common with the cell. A row falls into one cell of each gauge, so OR over
these says for 64 clauses at once which need not be looked at.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from math import inf
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gapless.filters.index.lists import Numbers, Places, grown

Words = npt.NDArray[np.uint64]

NO_GAUGE: Final = 0  # reads 0 off every row: what a clause with fewer ranges than others looks at
CELLS: Final = 64
BLOCK: Final = CELLS + 1  # and one more cell, for rows in which there is nothing to read
BLOCKS_MAX: Final = 16  # gauges that have cells
SPARSE_FROM: Final = 512  # words from which on bits are taken one by one,
SPARSE_BITS: Final = 4  # if there are fewer in a word than these
BITS: Final = [np.uint64(1 << bit) for bit in range(64)]
ALL_BITS: Final = np.uint64((1 << 64) - 1)


class Table:
    """The bits. A word is 64 clauses; a place is a word and a bit in it, as one number."""

    __slots__ = ("_edges", "_free", "_unused", "_words", "alive", "bits", "blocks", "wide")

    def __init__(self) -> None:
        self.alive: Words = np.zeros(16, np.uint64)
        self.bits: Words = np.zeros((0, 16, BLOCK), np.uint64)  # by block, word and cell
        self.blocks: dict[int, int] = {}  # the block of each gauge that has cells,
        self.wide: list[int] = []  # and the gauge of each block
        self._edges: list[tuple[list[float], npt.NDArray[np.float64]]] = []
        self._unused: list[int] = []
        self._words = 0
        self._free: list[int] = []

    def new_word(self) -> int:
        """A word that nobody has."""
        if self._free:
            return self._free.pop()
        self._words += 1
        if self._words > len(self.alive):
            self.alive = grown(self.alive, self._words)
            larger = np.zeros((len(self.bits), len(self.alive), BLOCK), np.uint64)
            larger[:, : self.bits.shape[1]] = self.bits
            self.bits = larger
        return self._words - 1

    def free_word(self, word: int) -> None:
        """Nobody has it any more."""
        self._free.append(word)

    def set(self, place: int, ranges: list[tuple[int, float, float]]) -> None:
        """A clause with these ranges (gauge, low, high) is there now."""
        word, bit = place >> 6, BITS[place & 63]
        self.alive[word] |= bit
        for gauge, low, high in ranges:
            block = self.blocks.get(gauge)
            if block is not None:
                edges, row = self._edges[block][0], self.bits[block, word]
                row[: bisect_left(edges, low)] |= bit
                row[bisect_left(edges, high) + 1 :] |= bit

    def unset(self, place: int, ranges: list[tuple[int, float, float]]) -> None:
        """It is there no more."""
        word, rest = place >> 6, ~BITS[place & 63]
        self.alive[word] &= rest
        for gauge, _, _ in ranges:
            block = self.blocks.get(gauge)
            if block is not None:
                self.bits[block, word] &= rest

    def has_room(self, word: int) -> bool:
        """Whether a place of the word is not taken."""
        return bool(self.alive[word] != ALL_BITS)

    def room_in(self, word: int) -> int:
        """The first place of the word that is not taken."""
        free = ~int(self.alive[word]) & ((1 << 64) - 1)
        return word * 64 + (free & -free).bit_length() - 1

    def cut(self, gauge: int, places: Places, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> None:
        """Cut what a gauge reads into cells that suit these clauses; a place below 0 is not in the table."""
        block = self.blocks.get(gauge)
        if block is None:
            block = self._take_block(gauge)
            if block is None:
                return
        edges = _edges_for(low, high)
        self._edges[block] = (edges.tolist(), edges)
        here = places >= 0
        places = places[here]
        first, last = np.searchsorted(edges, low[here]), np.searchsorted(edges, high[here])
        for cell in range(BLOCK):
            out = np.zeros(self.bits.shape[1] * 64, np.uint8)
            out[places[(first > cell) | (last < cell)]] = 1
            self.bits[block, :, cell] = np.packbits(out, bitorder="little").view(np.uint64)

    def _take_block(self, gauge: int) -> int | None:
        if self._unused:
            block = self._unused.pop()
        elif len(self.wide) < BLOCKS_MAX:
            block = len(self.wide)
            self.wide.append(gauge)
            self._edges.append(([], np.zeros(0)))
            self.bits = np.concatenate([self.bits, np.zeros((1, *self.bits.shape[1:]), np.uint64)])
        else:
            return None
        self.blocks[gauge] = block
        self.wide[block] = gauge
        return block

    def forget(self, gauge: int) -> None:
        """No clause has a range of this gauge any more."""
        block = self.blocks.pop(gauge, None)
        if block is not None:
            self._unused.append(block)
            self.wide[block] = NO_GAUGE

    def cells(self, readings: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """For each block and each row, in which cell it is."""
        found = np.empty((len(self.wide), readings.shape[1]), np.intp)
        for block, gauge in enumerate(self.wide):
            found[block] = self._edges[block][1].searchsorted(readings[gauge])
        return found

    def left(self, cells: npt.NDArray[np.intp], rows: Places, words: Places) -> Words:
        """For pairs of a row and a word: the clauses of the word that are not ruled out."""
        out = np.zeros(len(words), np.uint64)
        starts = words * BLOCK
        for block, of_block in enumerate(cells):
            out |= self.bits[block].reshape(-1).take(of_block.take(rows) + starts)
        np.bitwise_not(out, out=out)
        out &= self.alive.take(words)
        return out

    def left_of_row(self, readings: list[float], words: Numbers) -> Words:
        """The same for one row, of which these are the readings by gauge."""
        out: Words = self.alive.take(words)
        if self.wide:
            size, cells = len(self.alive) * BLOCK, []
            for block, gauge in enumerate(self.wide):
                reading = readings[gauge]
                cell = bisect_left(self._edges[block][0], reading) if reading == reading else CELLS
                cells.append(block * size + cell)
            at = np.array(cells)[:, None] + words * BLOCK
            out &= ~np.bitwise_or.reduce(self.bits.reshape(-1).take(at), axis=0)
        return out


def _edges_for(low: npt.NDArray[Any], high: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The upper ends of the cells: quantiles of the ends of ranges, and infinity, so that only NaN is beyond."""
    ends = np.concatenate([low, high])
    ends = ends[np.isfinite(ends)]
    edges = np.full(CELLS, inf)
    if len(ends):
        edges[:-1] = np.quantile(ends, np.linspace(0, 1, CELLS + 1)[1:-1], method="nearest")
    return edges


def slots_of(left: Words, words: Numbers, slot_at: Numbers) -> Numbers:
    """What lies at the places of the bits that are left of these words; for one row, so all are few."""
    flat = np.unpackbits(left.view(np.uint8), bitorder="little").view(np.bool_).nonzero()[0]
    # A place is 64 times its word and a bit; `flat` is 64 times where the word stands and the bit.
    shift = words * 64
    shift -= _firsts(len(words))
    flat += shift.take(flat >> 6)
    return slot_at.take(flat)


@lru_cache(256)
def _firsts(count: int) -> npt.NDArray[np.int32]:
    return np.arange(0, 64 * count, 64, dtype=np.int32)


def bits_of(words: Words) -> tuple[Places, Places]:
    """For each set bit, in some order: which word, and which bit."""
    some = words.nonzero()[0]
    left = words[some]
    if len(some) > SPARSE_FROM and int(np.bitwise_count(left).sum()) < SPARSE_BITS * len(some):
        return _sparse_bits(some, left)
    if len(some) == 0:
        return some, some
    flat = np.unpackbits(left.view(np.uint8), bitorder="little").view(np.bool_).nonzero()[0]
    return some[flat >> 6], flat & 63


def _sparse_bits(which: Places, words: Words) -> tuple[Places, Places]:
    """The lowest bit of every word, then the next lowest of those that have more, and so on."""
    places: list[Places] = []
    bits: list[Places] = []
    while len(words):
        low = words & (~words + np.uint64(1))
        places.append(which)
        bits.append((low.astype(np.float64).view(np.int64) >> 52) - 1023)  # the exponent of a power of two
        words = words ^ low
        more = words.nonzero()[0]
        which, words = which[more], words[more]
    return np.concatenate(places), np.concatenate(bits)
