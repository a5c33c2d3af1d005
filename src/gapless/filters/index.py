"""One batch against very many interests.

An interest whose filter asks an attribute to equal a string (or be IN a few, or whose topic is exact) is filed under
that attribute and string, so a batch meets only the interests filed under strings that it carries, and only in their
rows. The others are evaluated over the whole batch, where equal predicates are evaluated once. Equal interests are
one entry, whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gapless.filters.columns import SCALAR_ROWS, Rows, Strings, View, masks_of, spread
from gapless.filters.evaluate import decider
from gapless.filters.interest import Interest
from gapless.filters.syntax import And, Comparison, Condition, Constant, Identifier, In, Text
from gapless.filters.topic import TOPIC, TopicPattern
from gapless.model.batch import Batch

EVERY_ROW: Final = slice(None)  # what stands for the rows of an owner who gets the whole batch; also a numpy index
Matched = Rows | slice

MAX_CHOICES: Final = 64  # strings of an IN up to which it is filed under each of them
SINGLE_ROWS: Final = 12  # rows up to which one interest looks at each rather than at columns,
MASKED_ENTRIES: Final = 32  # if there are more such interests than these: each row must first be made a dict
FEW_STRINGS: Final = (
    3  # filed under one attribute: each is compared with its column, whose distinct values are not needed
)


class _Entry:
    """An interest, who asks for it, and what remains to be checked where it is filed."""

    def __init__(self, interest: Interest, filed: tuple[str, tuple[str, ...]] | None, rest: Condition | None) -> None:
        self.interest = interest
        self.owners: dict[Hashable, None] = {}
        self.filed = filed
        self.rest = rest
        topic = interest.topic
        self.topic: TopicPattern | None = (
            None if topic is None or (topic.exact and filed and filed[0] == TOPIC) else topic
        )
        self.surely = rest is None and self.topic is None

    @cached_property
    def decide(self) -> Callable[[Mapping[str, Any]], bool | None]:
        """Whether what remains to be checked holds."""
        rest, topic = self.rest, self.topic
        truth = decider(Constant(True) if rest is None else rest)
        if topic is None:
            return truth
        return lambda attributes: topic.matches(attributes.get(TOPIC)) and truth(attributes)

    def mask(self, view: View) -> npt.NDArray[np.bool_]:
        """Where what remains to be checked holds."""
        true = True if self.rest is None else masks_of(self.rest, view)[0]
        if self.topic is not None:
            true = view.tested(TOPIC, self.topic.matches) & true
        return spread(true, view.rows)


class FilterIndex:
    """The interests of the neighbours or subscriptions of a broker. Exact; equal calls give equal answers."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._asked: dict[Hashable, dict[str, int]] = {}
        self._order: dict[Hashable, int] = {}
        self._joined = 0
        self._everything: dict[str, _Entry] = {}
        self._filed: dict[str, dict[str, dict[str, _Entry]]] = {}
        self._unfiled: dict[str, _Entry] = {}

    # ---------------------------------------------------------------- changes

    def add(self, interest: Interest, owner: Hashable) -> bool:
        """Someone asks for something; asked twice it must be removed twice. True when nobody asked for it before."""
        entry = self._entries.get(interest.key)
        new = entry is None
        if entry is None:
            entry = self._entries[interest.key] = self._file(interest)
        entry.owners[owner] = None
        if owner not in self._asked:
            self._asked[owner] = {}
            self._order[owner] = self._joined
            self._joined += 1
        asked = self._asked[owner]
        asked[interest.key] = asked.get(interest.key, 0) + 1
        return new

    def remove(self, interest: Interest, owner: Hashable) -> bool:
        """The opposite of one `add`; KeyError when there was none. True when nobody asks for it any more."""
        asked = self._asked[owner]
        if asked[interest.key] > 1:
            asked[interest.key] -= 1
            return False
        del asked[interest.key]
        if not asked:
            del self._asked[owner], self._order[owner]
        return self._leave(interest.key, owner)

    def remove_owner(self, owner: Hashable) -> list[Interest]:
        """Forget all that an owner asks for; returns what nobody asks for any more."""
        keys = self._asked.pop(owner, {})
        self._order.pop(owner, None)
        interests = [self._entries[key].interest for key in keys]
        return [interest for interest in interests if self._leave(interest.key, owner)]

    def _leave(self, key: str, owner: Hashable) -> bool:
        entry = self._entries[key]
        del entry.owners[owner]
        if entry.owners:
            return False
        del self._entries[key]
        if entry.filed is None:
            (self._everything if entry.interest.everything else self._unfiled).pop(key)
            return True
        name, choices = entry.filed
        shelf = self._filed[name]
        for choice in choices:
            del shelf[choice][key]
            if not shelf[choice]:
                del shelf[choice]
        if not shelf:
            del self._filed[name]
        return True

    def _file(self, interest: Interest) -> _Entry:
        """A new entry, put where `match` finds it."""
        if interest.everything:
            entry = self._everything[interest.key] = _Entry(interest, None, None)
            return entry
        normal = interest.filter.normal
        parts = normal.parts if isinstance(normal, And) else () if normal == Constant(True) else (normal,)
        found = self._best_place(interest, parts)
        if found is None:
            entry = self._unfiled[interest.key] = _Entry(interest, None, normal)
            return entry
        place, used = found
        left = tuple([part for part in parts if part is not used])
        entry = _Entry(interest, place, None if not left else left[0] if len(left) == 1 else And(left))
        shelf = self._filed.setdefault(place[0], {})
        for choice in place[1]:
            shelf.setdefault(choice, {})[interest.key] = entry
        return entry

    def _best_place(
        self, interest: Interest, parts: tuple[Condition, ...]
    ) -> tuple[tuple[str, tuple[str, ...]], Condition | None] | None:
        """Attribute and strings with the fewest entries so far, and the condition they stand for (None: the topic)."""
        places: list[tuple[tuple[str, tuple[str, ...]], Condition | None]] = []
        if interest.topic is not None and interest.topic.exact:
            places.append(((TOPIC, (interest.topic.text,)), None))
        for part in parts:
            if isinstance(part, Comparison) and part.operator == "=":
                if isinstance(part.left, Identifier) and isinstance(part.right, Text):
                    places.append(((part.left.name, (part.right.value,)), part))
            elif isinstance(part, In) and not part.negated and len(part.choices) <= MAX_CHOICES:
                if isinstance(part.operand, Identifier):
                    places.append(((part.operand.name, part.choices), part))
        return min(places, key=lambda place: self._crowd(*place[0]), default=None)

    def _crowd(self, name: str, choices: tuple[str, ...]) -> int:
        shelf = self._filed.get(name, {})
        return sum(len(shelf.get(choice, ())) + 1 for choice in choices)

    # ---------------------------------------------------------------- looks

    def __len__(self) -> int:
        """How many different interests there are."""
        return len(self._entries)

    def __contains__(self, interest: Interest) -> bool:
        return interest.key in self._entries

    def __iter__(self) -> Iterator[Interest]:
        """The different interests, in the order in which they were first asked for."""
        return iter([entry.interest for entry in self._entries.values()])

    @property
    def owners(self) -> tuple[Hashable, ...]:
        """Who asks for anything, in the order of their first `add`."""
        return tuple(self._asked)

    def owners_of(self, interest: Interest) -> tuple[Hashable, ...]:
        """Who asks for this."""
        entry = self._entries.get(interest.key)
        return () if entry is None else tuple(entry.owners)

    def interests_of(self, owner: Hashable) -> tuple[Interest, ...]:
        """What an owner asks for."""
        return tuple([self._entries[key].interest for key in self._asked.get(owner, {})])

    # ---------------------------------------------------------------- matching

    def owners_with_any(self, batch: Batch) -> tuple[Hashable, ...]:
        """Who gets something of this batch, in the order of their first `add`."""
        return tuple(self.match(batch))

    def match(self, batch: Batch) -> dict[Hashable, Matched]:
        """The rising rows of each owner who gets any (EVERY_ROW: all of them), in the order of their first `add`."""
        if not self._entries or not batch.rows:
            return {}
        complete: dict[Hashable, Matched] = {}
        for entry in self._everything.values():
            for owner in entry.owners:
                complete[owner] = EVERY_ROW
        if len(complete) == len(self._asked):
            found = complete
        elif batch.rows <= SCALAR_ROWS:
            found = self._match_few(batch, complete)
        else:
            found = _Collector(batch.rows, complete, self._match_many(batch)).result()
        if len(found) < 2:
            return found
        order = self._order
        return {owner: found[owner] for owner in sorted(found, key=order.__getitem__)}

    def _match_few(self, batch: Batch, complete: dict[Hashable, Matched]) -> dict[Hashable, Matched]:
        """Row by row, each as a dict; the rows of an owner are the bits of a number until the end."""
        bits: dict[Hashable, int] = {}
        bit = 1
        for attributes in batch.plain_attributes:
            for name, shelf in self._filed.items():
                value = attributes.get(name)
                if type(value) is str and value in shelf:
                    for entry in shelf[value].values():
                        if entry.surely or entry.decide(attributes):
                            for owner in entry.owners:
                                bits[owner] = bits.get(owner, 0) | bit
            for entry in self._unfiled.values():
                if entry.decide(attributes):
                    for owner in entry.owners:
                        bits[owner] = bits.get(owner, 0) | bit
            bit <<= 1
        for owner, rows in bits.items():
            if owner not in complete:
                complete[owner] = EVERY_ROW if rows == bit - 1 else _FEW_ROWS[rows]
        return complete

    def _match_many(self, batch: Batch) -> Iterator[tuple[_Entry, Rows]]:
        """Each entry with rows that match it, once or in several pieces."""
        view = View(batch)
        for entry in self._unfiled.values():
            yield entry, np.nonzero(entry.mask(view))[0]
        singly: list[tuple[_Entry, Rows]] = []
        for name, shelf in self._filed.items():
            for part in view.parts(name):
                if part.kind is not str:
                    continue
                for rows, entries in _filed_rows(part.data, part.valid, shelf):
                    for entry in entries.values():
                        if entry.surely:
                            yield entry, rows
                        elif len(rows) > SINGLE_ROWS:
                            yield entry, rows[entry.mask(view)[rows]]
                        else:
                            singly.append((entry, rows))
        if len(singly) <= MASKED_ENTRIES:
            for entry, rows in singly:
                yield entry, rows[entry.mask(view)[rows]]
            return
        dicts = batch.plain_attributes
        for entry, rows in singly:
            decide = entry.decide
            yield entry, np.array([row for row in rows.tolist() if decide(dicts[row])], np.intp)


class _Collector:
    """Brings the rows of entries to their owners and unites them."""

    def __init__(self, rows: int, complete: dict[Hashable, Matched], pieces: Iterator[tuple[_Entry, Rows]]) -> None:
        self.rows = rows
        self.complete = complete
        self.found: dict[Hashable, list[Rows]] = {}
        for entry, piece in pieces:
            if len(piece):
                for owner in entry.owners:
                    self.found.setdefault(owner, []).append(piece)

    def result(self) -> dict[Hashable, Matched]:
        """What each owner gets."""
        for owner, pieces in self.found.items():
            if owner not in self.complete:
                rows = pieces[0] if len(pieces) == 1 else self.united(pieces)
                self.complete[owner] = EVERY_ROW if len(rows) == self.rows else rows
        return self.complete

    def united(self, pieces: list[Rows]) -> Rows:
        """The rows that are in any of the pieces."""
        mask = np.zeros(self.rows, np.bool_)
        for piece in pieces:
            mask[piece] = True
        return np.nonzero(mask)[0]


def _filed_rows(
    strings: Strings, valid: npt.NDArray[np.bool_] | bool, shelf: dict[str, dict[str, _Entry]]
) -> Iterator[tuple[Rows, dict[str, _Entry]]]:
    """For each string that both the column and the shelf have: its rows, rising, and its entries."""
    if len(shelf) <= FEW_STRINGS:
        for value, entries in shelf.items():
            rows = np.nonzero(strings.equal_to(value) & valid)[0]
            if len(rows):
                yield rows, entries
        return
    codes, distinct = strings.encoded()
    known = [(code, shelf[value]) for code, value in enumerate(distinct) if value in shelf]
    if not known:
        return
    if not isinstance(valid, bool):
        codes = np.where(valid, codes, len(distinct))
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(distinct) + 1)).tolist()
    for code, entries in known:
        if bounds[code] < bounds[code + 1]:
            yield order[bounds[code] : bounds[code + 1]], entries


def _few_rows(bits: int) -> Rows:
    rows = np.array([row for row in range(SCALAR_ROWS) if bits >> row & 1], np.intp)
    rows.flags.writeable = False
    return rows


_FEW_ROWS: Final = [_few_rows(bits) for bits in range(1 << SCALAR_ROWS)]
