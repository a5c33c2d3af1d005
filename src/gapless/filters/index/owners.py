"""Who asks for what: owners by number, in the order in which they came, and what each asks for how often."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from gapless.filters.index.lists import Numbers, Places, grown

NOBODY: Final = -1
SEVERAL: Final = -2
SPARE: Final = 64  # numbers of owners who have left that are borne, and as many more as there are owners


class Owners:
    """Owners and entries, each way."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.names: list[Hashable] = []  # by number, None where the owner has left
        self._asked: list[int | dict[int, int]] = []  # by number: the one entry asked for, or entries and how often
        self._of: Numbers = np.zeros(16, np.int32)  # by entry: its owner, NOBODY or SEVERAL
        self._several: dict[int, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def new_entry(self, entry: int) -> None:
        """An entry that nobody asks for yet."""
        self._of = grown(self._of, entry + 1)
        self._of[entry] = NOBODY

    def ask(self, owner: Hashable, entry: int) -> None:
        """An owner asks for an entry, perhaps once more."""
        number = self.numbers.get(owner)
        if number is None:
            number = self.numbers[owner] = len(self.names)
            self.names.append(owner)
            self._asked.append(entry)
        else:
            asked = self._asked[number]
            if isinstance(asked, int):
                asked = self._asked[number] = {asked: 1}
            asked[entry] = asked.get(entry, 0) + 1
            if asked[entry] > 1:
                return
        before = int(self._of[entry])
        if before == NOBODY:
            self._of[entry] = number
        elif before == SEVERAL:
            self._several[entry][number] = None
        else:
            self._several[entry] = {before: None, number: None}
            self._of[entry] = SEVERAL

    def leave(self, owner: Hashable, entry: int) -> bool:
        """An owner asks once less; true when nobody asks for the entry any more. KeyError when it did not ask."""
        number = self.numbers[owner]
        asked = self._asked[number]
        if isinstance(asked, int):
            if asked != entry:
                raise KeyError(entry)
            self._forget(owner, number)
        else:
            if asked[entry] > 1:
                asked[entry] -= 1
                return False
            del asked[entry]
            if not asked:
                self._forget(owner, number)
        return self._part(entry, number)

    def leave_all(self, owner: Hashable) -> list[int]:
        """An owner asks for nothing more; the entries that nobody asks for any more."""
        number = self.numbers.get(owner)
        if number is None:
            return []
        entries = self.entries_of(owner)
        self._forget(owner, number)
        return [entry for entry in entries if self._part(entry, number)]

    def entries_of(self, owner: Hashable) -> tuple[int, ...]:
        """What it asks for."""
        number = self.numbers.get(owner)
        if number is None:
            return ()
        asked = self._asked[number]
        return (asked,) if isinstance(asked, int) else tuple(asked)

    def of(self, entry: int) -> tuple[int, ...]:
        """Who asks for an entry, by number."""
        number = int(self._of[entry])
        if number == SEVERAL:
            return tuple(self._several[entry])
        return () if number == NOBODY else (number,)

    def of_all(self, entries: Numbers) -> Iterable[int]:
        """Who asks for any of these entries, by number; one may come twice."""
        owners: list[int] = self._of.take(entries).tolist()
        if self._several and SEVERAL in owners:
            return [number for entry in entries.tolist() for number in self.of(entry)]
        return owners

    def spread(self, rows: Places, entries: Places) -> tuple[Places, Places]:
        """For pairs of row and entry the pairs of row and owner, by number."""
        owners = self._of.take(entries)
        shared = owners == SEVERAL
        if not self._several or not shared.any():
            return rows, owners.astype(np.intp)
        alone = ~shared
        pieces_rows, pieces_owners = [rows[alone]], [owners[alone].astype(np.intp)]
        for entry in np.unique(entries[shared]).tolist():
            its_rows = rows[entries == entry]
            several = np.fromiter(self._several[entry], np.intp, len(self._several[entry]))
            pieces_rows.append(np.tile(its_rows, len(several)))
            pieces_owners.append(np.repeat(several, len(its_rows)))
        return np.concatenate(pieces_rows), np.concatenate(pieces_owners)

    def _part(self, entry: int, number: int) -> bool:
        if self._of[entry] != SEVERAL:
            self._of[entry] = NOBODY
            return True
        several = self._several[entry]
        del several[number]
        if len(several) == 1:
            (self._of[entry],) = several
            del self._several[entry]
        return False

    def _forget(self, owner: Hashable, number: int) -> None:
        del self.numbers[owner]
        self.names[number] = None
        self._asked[number] = {}

    def pack(self) -> None:
        """Give the owners new numbers, in the same order, when too many numbers are nobody's."""
        if len(self.names) <= 2 * len(self.numbers) + SPARE:
            return
        numbers: npt.NDArray[np.int32] = np.full(len(self.names), NOBODY, np.int32)
        order = sorted(self.numbers.items(), key=lambda item: item[1])
        numbers[[old for _, old in order]] = np.arange(len(order), dtype=np.int32)
        self.names = [owner for owner, _ in order]
        self._asked = [self._asked[old] for _, old in order]
        self.numbers = {owner: new for new, owner in enumerate(self.names)}
        single = self._of >= 0
        self._of[single] = numbers[self._of[single]]
        self._several = {
            entry: {int(numbers[old]): None for old in several} for entry, several in self._several.items()
        }
