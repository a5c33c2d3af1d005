"""Where to forward to: which neighbours have anybody who matches.

That is a cheaper question than who matches: a row for which every neighbour has somebody need not be looked at any
further, and most rows of a busy network are soon of that kind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.filters.columns import SCALAR_ROWS, Rows, View
from gapless.filters.index.index import EVERY_ROW, FilterIndex, Matched
from gapless.filters.index.lists import Places, Register, grown
from gapless.filters.index.small import INTERESTS_MAX
from gapless.filters.index.store import Search
from gapless.filters.interest import Interest
from gapless.model.batch import Batch

Masks = npt.NDArray[np.uint64]

FIRST_WORDS: Final = 2  # words of each shelf that are looked at before it is asked who has enough,
MORE_WORDS: Final = 4  # and each time after that so many times as many
OWNERS_MAX: Final = 64  # for more neighbours than these there are no bits: everything is looked at


class RouteIndex(FilterIndex):
    """The interests behind each neighbour. `route` says which rows go where; all else is as in a `FilterIndex`."""

    def __init__(self) -> None:
        super().__init__()
        self._bits = Register()  # a bit for each owner
        self._for: Masks = np.zeros(16, np.uint64)  # by entry: whose it is

    def add(self, interest: Interest, owner: Hashable) -> bool:
        """As in a `FilterIndex`."""
        if owner not in self._bits.numbers:
            self._bits.take(owner)
        new = super().add(interest, owner)
        self._note(self._entries[interest.key])
        return new

    def remove(self, interest: Interest, owner: Hashable) -> bool:
        """As in a `FilterIndex`."""
        over = super().remove(interest, owner)
        if not over:
            self._note(self._entries[interest.key])
        self._let_go(owner)
        return over

    def remove_owner(self, owner: Hashable) -> int:
        """As in a `FilterIndex`."""
        entries = self._owners.entries_of(owner)
        gone = super().remove_owner(owner)
        for entry in entries:
            self._note(entry)
        self._let_go(owner)
        return gone

    def _note(self, entry: int) -> None:
        names, bits = self._owners.names, self._bits.numbers
        self._for = grown(self._for, entry + 1)
        self._for[entry] = self._mask([bits[names[number]] for number in self._owners.of(entry)])

    def _let_go(self, owner: Hashable) -> None:
        bit = self._bits.numbers.get(owner)
        if bit is not None and owner not in self._owners.numbers:
            self._bits.leave(bit)

    @staticmethod
    def _mask(bits: Iterable[int]) -> np.uint64:
        return np.uint64(sum([1 << bit for bit in bits if bit < OWNERS_MAX]))

    def route(self, batch: Batch) -> dict[Hashable, Matched]:
        """The same as `match`, at less cost where there are many interests behind few neighbours."""
        few = batch.rows <= SCALAR_ROWS
        if not self._store.count or not batch.rows or len(self._bits.things) > OWNERS_MAX:
            return self.match(batch)
        if few and len(self._entries) <= INTERESTS_MAX:
            return self.match(batch)
        got = np.full(batch.rows, np.bitwise_or.reduce(self._for[list(self._everything)], dtype=np.uint64))
        enough = self._mask(self._bits.numbers.values())
        if few:
            for row, attributes in enumerate(batch.plain_attributes):
                got[row] |= np.bitwise_or.reduce(self._for[self._store.find_one(attributes)])
        elif got[0] != enough:
            self._look_until(batch, got, enough)
        return self._whose(got, batch.rows)

    def _look_until(self, batch: Batch, got: Masks, enough: np.uint64) -> None:
        search = Search(self._store, View(batch))
        self._put(got, search.checked(*search.loose()))
        count = FIRST_WORDS
        hits = search.hits()
        while len(hits.rows):
            waiting = np.flatnonzero(got.take(hits.rows) != enough)
            now, hits = hits.take(waiting).split(count)
            for found in search.tabled(now):
                self._put(got, search.checked(*found))
            count *= MORE_WORDS

    def _put(self, got: Masks, found: tuple[Places, Places]) -> None:
        rows, entries = found
        np.bitwise_or.at(got, rows, self._for.take(entries))

    def _whose(self, got: Masks, count: int) -> dict[Hashable, Matched]:
        found: dict[Hashable, Matched] = {}
        for owner in self._owners.numbers:
            rows: Rows = np.flatnonzero(got & self._mask((self._bits.numbers[owner],)))
            if len(rows):
                found[owner] = EVERY_ROW if len(rows) == count else rows
        return found
