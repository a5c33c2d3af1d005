"""The fewest interests that cover very many: what a broker has to tell a neighbour, kept small as they come and go.

An interest is told unless one that is told covers it. When a wide one comes, those it covers need not be told any
more; when it goes, they must be looked at again. Where that is much work it is done in pieces, and meanwhile more is
told than need be: too much is told for a while, never too little.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from gapless.filters.covering import covers, facts_of, is_compared
from gapless.filters.index.clauses import clause_of, clauses_of
from gapless.filters.index.lists import Register
from gapless.filters.index.store import Store
from gapless.filters.interest import Interest

PIECE: Final = 256
FEW: Final = 16  # told ones up to which each is compared with each
NEVER: Final = "\0"  # the key of nobody: it covers what can never be true, and is not told
EVERYTHING: Final = Interest.parse().key
SEARCHED_MAX: Final = 4096  # told ones up to which every newcomer is asked what it covers; beyond, only wide ones are


class _Absorb(NamedTuple):
    """One that is told may cover these, which are told."""

    wide: str
    narrow: Iterator[str]


class _Release(NamedTuple):
    """One that goes is told until those that it covers have been looked at."""

    wide: str


class Cover:
    """Interests by key, and those of them that are told."""

    def __init__(self, piece: int = PIECE) -> None:
        self.piece = piece  # how many are looked at in one go
        self.told: dict[str, Interest] = {}
        self.touched: dict[str, None] = {}  # told or no longer told since somebody looked
        self._under: dict[str, str] = {}  # of each that is not told, who covers it,
        self._over: dict[str, dict[str, Interest]] = {}  # and the other way round
        self._leaving: dict[str, None] = {}  # told, but not asked for any more
        self.tasks: deque[_Absorb | _Release] = deque()
        self._store: Store | None = None  # of what is told, when that is more than a few
        self._entries = Register()
        self._first: dict[int, int] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._under or (key in self.told and key not in self._leaving)

    def __len__(self) -> int:
        """How many there are, told or not."""
        return len(self._under) + len(self.told) - len(self._leaving)

    @property
    def busy(self) -> bool:
        """Whether more is told than need be, and `work` would help."""
        return bool(self.tasks)

    def add(self, interest: Interest) -> None:
        """One more, which is not there yet."""
        key = interest.key
        assert key not in self
        if key in self._leaving:
            del self._leaving[key]
            self.tasks.append(_Absorb(key, iter(self._covered(interest))))  # what has been told in its place
        else:
            self._place(interest)
        self.work()

    def remove(self, key: str) -> None:
        """One less."""
        assert key in self
        wide = self._under.pop(key, None)
        if wide is not None:
            del self._over[wide][key]
        elif self._over.get(key):
            self._leaving[key] = None
            self.tasks.append(_Release(key))
        else:
            self._untell(key)
        self.work()

    def work(self, pieces: int = 0) -> None:
        """Go on with what is left to do."""
        pieces = pieces or self.piece
        while self.tasks and pieces > 0:
            task = self.tasks[0]
            done = self._absorb(task) if isinstance(task, _Absorb) else self._release(task.wide)
            if done:
                self.tasks.popleft()
            pieces -= 1

    def _place(self, interest: Interest) -> None:
        wide = self._coverer(interest)
        if wide is None:
            self._tell(interest)
        else:
            self._under[interest.key] = wide
            self._over.setdefault(wide, {})[interest.key] = interest

    def _coverer(self, interest: Interest) -> str | None:
        """One that is told and covers it."""
        if not is_compared(interest):
            return EVERYTHING if EVERYTHING in self.told and EVERYTHING not in self._leaving else None
        if not any(True for _ in facts_of(interest)):
            return NEVER
        if self._store is None:
            told = self.told.items()
            return next((key for key, wide in told if key not in self._leaving and covers(wide, interest)), None)
        common: set[int] | None = None
        for facts in facts_of(interest):
            found = {*self._store.implied(facts).tolist()}
            common = found if common is None else common & found
            if not common:
                return None
        for entry in sorted(common or ()):
            key: str = self._entries.things[entry]
            if key not in self._leaving:
                return key
        return None

    def _tell(self, interest: Interest) -> None:
        key = interest.key
        narrow = self._covered(interest)
        self.told[key] = interest
        self.touched[key] = None
        if self._store is not None:
            self._file(self._store, key, interest)
        elif len(self.told) > FEW:
            self._store = Store(whole=True)
            for other, told in self.told.items():
                self._file(self._store, other, told)
        if narrow:
            self.tasks.append(_Absorb(key, iter(narrow)))

    def _file(self, store: Store, key: str, interest: Interest) -> None:
        entry = self._entries.take(key)
        self._first[entry] = store.insert(entry, interest)

    def _untell(self, key: str) -> None:
        if self._store is not None:
            entry = self._entries.numbers[key]
            self._store.delete(self._first.pop(entry))
            self._entries.leave(entry)
        del self.told[key]
        self._over.pop(key, None)
        self.touched[key] = None

    def _covered(self, interest: Interest) -> list[str]:
        """Those told that it may cover."""
        if self._store is None:
            return [key for key, narrow in self.told.items() if covers(interest, narrow)]
        ways = list(clauses_of(interest))
        if len(self.told) > SEARCHED_MAX and min(map(len, ways), default=0) > 1:
            return []
        found = [self._store.within(clause) for way in ways if (clause := clause_of(way)) is not None]
        if not found:
            return []
        return [
            self._entries.things[entry] for entry in np.unique(np.concatenate(found)).tolist() if entry in self._first
        ]

    def _absorb(self, task: _Absorb) -> bool:
        """Look at the next one; true when there is none."""
        wide = self.told.get(task.wide)
        key = next(task.narrow, None)
        if key is None or wide is None or task.wide in self._leaving:
            return True
        narrow = self.told.get(key)
        if narrow is None or key == task.wide or not covers(wide, narrow):
            return False
        left = key in self._leaving
        beneath = self._over.pop(key, {})
        self._leaving.pop(key, None)
        self._untell(key)
        over = self._over.setdefault(task.wide, {})
        if not left:
            beneath[key] = narrow
        for other, interest in beneath.items():
            self._under[other] = task.wide
            over[other] = interest
        return False

    def _release(self, wide: str) -> bool:
        """Look at the next one beneath; true when there is none, or somebody asks for the wide one again."""
        if wide not in self._leaving:
            return True
        beneath = self._over.get(wide)
        if beneath:
            key = next(iter(beneath))
            interest = beneath.pop(key)
            del self._under[key]
            self._place(interest)
            return False
        del self._leaving[wide]
        self._untell(wide)
        return True
