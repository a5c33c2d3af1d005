"""One batch, or one publication, against very many interests.

The normal form of each interest is taken apart into clauses (`clauses`), which lie on shelves under what an attribute
must be. A batch meets only the clauses on shelves that its rows have keys of. Where a shelf is crowded, a table says of
64 clauses at a time which of them a row cannot satisfy (`table`); what is left is checked by columns (`store`). Equal
interests are one entry, whoever asks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from gapless.filters.columns import SCALAR_ROWS, Rows, View
from gapless.filters.evaluate import plain
from gapless.filters.index.lists import Numbers, Places, grown
from gapless.filters.index.owners import Owners
from gapless.filters.index.small import FEW_ROWS, INTERESTS_MAX, Small
from gapless.filters.index.store import Store
from gapless.filters.interest import Interest
from gapless.model.batch import Batch

EVERY_ROW: Final = slice(None)  # what stands for the rows of an owner who gets the whole batch; also a numpy index
Matched = Rows | slice


class Matches(NamedTuple):
    """Who gets which rows, as columns: owner `owners[i]` gets `rows[bounds[i]:bounds[i + 1]]`, rising."""

    owners: Places  # by number, rising
    bounds: Places
    rows: Rows


class FilterIndex:
    """The interests of the neighbours or subscriptions of a broker. Exact; equal calls give equal answers."""

    def __init__(self) -> None:
        self._entries: dict[str, int] = {}  # by key
        self._keys: list[str] = []  # by entry
        self._free: list[int] = []
        self._first: Numbers = np.zeros(16, np.int32)  # by entry: its first slot in the store
        self._everything: dict[int, None] = {}  # entries that every row matches
        self._owners = Owners()
        self._store = Store()
        self._small: Small | None = None

    # ---------------------------------------------------------------- changes

    def add(self, interest: Interest, owner: Hashable) -> bool:
        """Someone asks for something; asked twice it must be removed twice. True when nobody asked for it before."""
        entry = self._entries.get(interest.key)
        new = entry is None
        if entry is None:
            entry = self._new_entry(interest)
        self._owners.ask(owner, entry)
        self._small = None
        return new

    def remove(self, interest: Interest, owner: Hashable) -> bool:
        """The opposite of one `add`; KeyError when there was none. True when nobody asks for it any more."""
        entry = self._entries[interest.key]
        over = self._owners.leave(owner, entry)
        if over:
            self._drop(entry)
        self._owners.pack()
        self._small = None
        return over

    def remove_owner(self, owner: Hashable) -> int:
        """Forget all that an owner asks for; returns how much of it nobody asks for any more."""
        gone = self._owners.leave_all(owner)
        for entry in gone:
            self._drop(entry)
        self._owners.pack()
        self._small = None
        return len(gone)

    def _new_entry(self, interest: Interest) -> int:
        if self._free:
            entry = self._free.pop()
            self._keys[entry] = interest.key
        else:
            entry = len(self._keys)
            self._keys.append(interest.key)
            self._first = grown(self._first, entry + 1)
        self._entries[interest.key] = entry
        self._owners.new_entry(entry)
        if interest.everything:
            self._everything[entry] = None
        else:
            self._first[entry] = self._store.insert(entry, interest)
        return entry

    def _drop(self, entry: int) -> None:
        del self._entries[self._keys[entry]]
        self._keys[entry] = ""
        if entry in self._everything:
            del self._everything[entry]
        else:
            self._store.delete(int(self._first[entry]))
        self._free.append(entry)

    # ---------------------------------------------------------------- looks

    def __len__(self) -> int:
        """How many different interests there are."""
        return len(self._entries)

    def __contains__(self, interest: Interest) -> bool:
        return interest.key in self._entries

    def __iter__(self) -> Iterator[Interest]:
        """The different interests, in the order in which they were first asked for."""
        return map(Interest.of_key, tuple(self._entries))

    @property
    def owners(self) -> tuple[Hashable, ...]:
        """Who asks for anything, in the order of their first `add`."""
        return tuple(self._owners.numbers)

    def owner(self, number: int) -> Hashable:
        """The owner of this number in `Matches`."""
        return self._owners.names[number]

    def owners_of(self, interest: Interest) -> tuple[Hashable, ...]:
        """Who asks for this."""
        entry = self._entries.get(interest.key)
        return () if entry is None else tuple([self._owners.names[number] for number in self._owners.of(entry)])

    def interests_of(self, owner: Hashable) -> tuple[Interest, ...]:
        """What an owner asks for."""
        return tuple([Interest.of_key(self._keys[entry]) for entry in self._owners.entries_of(owner)])

    # ---------------------------------------------------------------- matching

    def owners_with_any(self, batch: Batch) -> tuple[Hashable, ...]:
        """Who gets something of this batch, in the order of their first `add`."""
        return tuple(self.match(batch))

    def match(self, batch: Batch) -> dict[Hashable, Matched]:
        """The rising rows of each owner who gets any (EVERY_ROW: all of them), in the order of their first `add`."""
        if not self._entries or not batch.rows:
            return {}
        found = self._complete()
        if len(found) < len(self._owners):
            if batch.rows <= SCALAR_ROWS:
                self._match_few(batch, found)
            elif self._store.count:
                self._match_many(batch, found)
        names = self._owners.names
        if len(found) < 2:
            return {names[number]: rows for number, rows in found.items()}
        return {names[number]: found[number] for number in sorted(found)}

    def match_one(self, attributes: Mapping[str, Any]) -> tuple[Hashable, ...]:
        """Who gets a publication with these attributes, in the order of their first `add`."""
        if not _PLAIN.issuperset(map(type, attributes.values())):
            attributes = {name: plain(value) for name, value in attributes.items()}
        numbers = self._numbers_of(attributes)
        if self._everything:
            numbers = [*self._complete(), *numbers]
        return tuple(map(self._owners.names.__getitem__, dict.fromkeys(sorted(numbers))))

    def _numbers_of(self, attributes: Mapping[str, Any]) -> Iterable[int]:
        """Who gets it because of something it asks of attributes, by number."""
        if not self._store.count:
            return ()
        return self._owners.of_all(self._store.find_one(attributes))

    def matches(self, batch: Batch) -> Matches:
        """The same as columns, without those who get everything because they ask for everything."""
        rows, owners = self._owners.spread(*self._store.find(View(batch)))
        pairs = owners * batch.rows + rows
        pairs.sort()
        if len(pairs) > 1:
            pairs = pairs[np.concatenate([_TRUE, pairs[1:] != pairs[:-1]])]
        owners, rows = np.divmod(pairs, batch.rows)
        bounds = np.flatnonzero(np.concatenate([_TRUE, owners[1:] != owners[:-1]])) if len(owners) else owners
        return Matches(owners[bounds], np.append(bounds, len(rows)), rows)

    def _complete(self) -> dict[int, Matched]:
        return {number: EVERY_ROW for entry in self._everything for number in self._owners.of(entry)}

    def _match_few(self, batch: Batch, found: dict[int, Matched]) -> None:
        """Row by row, each as a dict; the rows of an owner are the bits of a number until the end."""
        every = (1 << batch.rows) - 1
        bits: dict[int, int] = {}
        small = self._small_one()
        for row, attributes in enumerate(batch.plain_attributes):
            for number in self._numbers_of(attributes) if small is None else small.match(attributes):
                bits[number] = bits.get(number, 0) | 1 << row
        for number, rows in bits.items():
            if number not in found:
                found[number] = EVERY_ROW if rows == every else FEW_ROWS[rows]

    def _small_one(self) -> Small | None:
        if len(self._entries) > INTERESTS_MAX:
            return None
        if self._small is None:
            of = self._owners.of
            self._small = Small((Interest.of_key(key), of(entry)) for key, entry in self._entries.items())
        return self._small

    def _match_many(self, batch: Batch, found: dict[int, Matched]) -> None:
        owners, bounds, rows = self.matches(batch)
        ends = bounds.tolist()
        count = batch.rows
        for place, number in enumerate(owners.tolist()):
            if number not in found:
                first, last = ends[place], ends[place + 1]
                found[number] = EVERY_ROW if last - first == count else rows[first:last]


_TRUE: Final = np.ones(1, np.bool_)
_PLAIN: Final = frozenset((bool, int, float, str))
