"""All clauses of an index, filed under keys, and the search for those that a batch satisfies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gapless.filters.columns import View, spread
from gapless.filters.evaluate import decider
from gapless.filters.index.clauses import (
    RANGES_MAX,
    Clause,
    Gauge,
    Key,
    Leaf,
    Place,
    Shape,
    clause_of,
    clauses_of,
    places_of,
)
from gapless.filters.index.lists import Lists, Numbers, Places, Register, expanded, grown
from gapless.filters.index.sight import UNKEYED, Gauges, Rack
from gapless.filters.index.table import NO_GAUGE, Table, bits_of, slots_of
from gapless.filters.interest import Interest
from gapless.filters.topic import TOPIC, TopicPattern

NONE: Final = -1
LOOSE_MAX: Final = 48  # clauses of a shelf up to which each is looked at by itself
CUT_FROM: Final = 256  # ranges from which on a gauge has cells
CUT_AGAIN: Final = 4  # and they are cut anew when there are so many times as many
SINGLE_ROWS: Final = 12  # rows up to which a rest looks at each rather than at columns,
MASKED_RESTS: Final = 32  # if there are more such rests than these: each row must first be made a dict
SORT_FROM: Final = 1 << 14  # words from which on rows of one shelf are looked at together, as caches like it
DIRECT: Final = ("number", "text", "truth")  # kinds of gauges on which a range follows from no other one
PAIRS_MAX: Final = 1 << 20  # rows times words that are looked at in one go

Found = tuple[npt.NDArray[Any], npt.NDArray[Any]]  # rows, and the entries that they satisfy; a pair may come twice


class Known(Protocol):
    """What is known of a row, or of every row of some kind."""

    def imply(self, leaf: Leaf) -> bool:
        """Whether this is true of it."""
        ...

    def reading(self, gauge: Gauge | None, codes: Mapping[str, Register]) -> tuple[float, float] | None:
        """The lowest and the highest that a gauge reads off it."""
        ...

    def shelf_value(self, kind: str, name: str, shape: int | Shape) -> str | float | None:
        """Under which value of such a key it is."""
        ...


class Rest:
    """What must be evaluated of a clause."""

    def __init__(self, leaves: tuple[Leaf, ...]) -> None:
        self.leaves = leaves

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rest) and self.leaves == other.leaves

    def __hash__(self) -> int:
        return hash(self.leaves)

    @cached_property
    def decide(self) -> Callable[[Mapping[str, Any]], bool]:
        """Whether it holds for these attributes."""
        tests = [
            (lambda attributes, leaf=leaf: leaf.matches(attributes.get(TOPIC)))
            if isinstance(leaf, TopicPattern)
            else decider(leaf)
            for leaf in self.leaves
        ]
        if len(tests) == 1:
            only = tests[0]
            return lambda attributes: only(attributes) is True
        return lambda attributes: all(test(attributes) is True for test in tests)

    def mask(self, view: View) -> npt.NDArray[np.bool_]:
        """In which rows it holds."""
        true: Any = True
        for leaf in self.leaves:
            if isinstance(leaf, TopicPattern):
                true = view.tested(TOPIC, leaf.matches) & true
            else:
                true = view.masks(leaf)[0] & true
        return spread(true, view.rows)


class Store:
    """Clauses by slot: whose they are, where they are filed, and what remains to be checked there."""

    def __init__(self, whole: bool = False) -> None:
        """`whole`: what a key says stays among ranges and rest, so that they say all of a clause."""
        self.whole = whole
        self.entry: Numbers = np.zeros(16, np.int32)
        self.next: Numbers = np.zeros(16, np.int32)  # the slot of the next clause of the same entry
        self.shelf: Numbers = np.zeros(16, np.int32)
        self.place: npt.NDArray[np.int64] = np.zeros(16, np.int64)  # in the table, or NONE
        self.rest: Numbers = np.zeros(16, np.int32)  # 0: nothing
        # Ranges by slot, `depth` each: which gauge, from where, to where; NO_GAUGE where a slot has fewer.
        self.depth = 1
        self.gauge_of: Numbers = np.zeros(16, np.int32)
        self.low: npt.NDArray[np.float64] = np.zeros(16)
        self.high: npt.NDArray[np.float64] = np.zeros(16)
        self.slot_at: Numbers = np.zeros(16 * 64, np.int32)  # by place
        self.gauges = Gauges()
        self.rests = Register()
        self.rests.take(None)
        self.racks: dict[tuple[str, str, int | Shape], Rack] = {}
        self.keys = Register()  # shelves, by key
        self.keys.take(None)
        self.loose = Lists()  # slots by shelf
        self.words = Lists()  # words by shelf
        self.table = Table()
        self.count = 0
        self._room: dict[int, int] = {}  # by shelf: a word that may have room
        self._cut_at: dict[int, int] = {}  # by gauge: how many ranges it had when its cells were cut
        self._slots = 0
        self._free: list[int] = []

    # --- changes ----------------------------------------------------------------------------------------------------

    def insert(self, entry: int, interest: Interest) -> int:
        """File the clauses of an interest for this entry; returns the slot of the first, NONE when it is never true."""
        first = NONE
        for leaves in clauses_of(interest):
            place = self._best(places_of(leaves))
            if place is not None and place.exact and not self.whole:
                leaves = tuple([leaf for leaf in leaves if leaf is not place.leaf])
            clause = clause_of(leaves)
            if clause is not None:
                for key in place.keys if place is not None else (None,):
                    first = self._file(entry, first, key, clause)
        return first

    def delete(self, first: int) -> None:
        """Take out all clauses of an entry, whose first slot this is."""
        slot = first
        while slot != NONE:
            following = int(self.next[slot])
            self._take_out(slot)
            slot = following

    def _best(self, places: list[Place]) -> Place | None:
        """Where the fewest clauses are so far."""
        return min(places, key=self._crowd, default=None) if len(places) != 1 else places[0]

    def _crowd(self, place: Place) -> int:
        get, uses = self.keys.numbers.get, self.keys.uses
        return sum([1 + (uses(number) if (number := get(key)) is not None else 0) for key in place.keys])

    def _file(self, entry: int, following: int, key: Key | None, clause: Clause) -> int:
        slot = self._new_slot()
        shelf = self._take_shelf(key)
        ranges = list(map(self.gauges.take, clause.ranges))
        self.entry[slot], self.next[slot], self.shelf[slot] = entry, following, shelf
        self.rest[slot] = self.rests.take(Rest(clause.rest)) if clause.rest else 0
        self.place[slot] = NONE
        self._write_ranges(slot, ranges)
        self.count += 1
        for gauge, _, _ in ranges:
            self._cut_if_due(gauge)
        if self.words.lengths[shelf]:
            self._put_into_table(slot, shelf, ranges)
        else:
            self.loose.append(shelf, slot)
            if self.loose.lengths[shelf] > LOOSE_MAX:
                self._move_into_table(shelf)
        return slot

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        slot = self._slots
        self._slots += 1
        if self._slots > len(self.entry):
            self.entry, self.next = grown(self.entry, self._slots), grown(self.next, self._slots)
            self.shelf, self.place = grown(self.shelf, self._slots), grown(self.place, self._slots)
            self.rest = grown(self.rest, self._slots)
            size = len(self.entry) * self.depth
            self.gauge_of, self.low = grown(self.gauge_of, size), grown(self.low, size)
            self.high = grown(self.high, size)
        return slot

    def _take_shelf(self, key: Key | None) -> int:
        shelf = self.keys.take(key)
        if key is not None and self.keys.uses(shelf) == 1:
            self.loose.reserve(shelf)
            self.words.reserve(shelf)
            rack = self.racks.get(key[:3])
            if rack is None:
                rack = self.racks[key[:3]] = Rack(key)
            rack.shelves[key.value] = shelf
        return shelf

    def _write_ranges(self, slot: int, ranges: list[tuple[int, float, float]]) -> None:
        if len(ranges) > self.depth:
            self.gauge_of, self.low, self.high = [
                _deeper(array, self.depth, len(ranges)) for array in (self.gauge_of, self.low, self.high)
            ]
            self.depth = len(ranges)
        at = slot * self.depth
        for gauge, low, high in ranges:
            self.gauge_of[at], self.low[at], self.high[at] = gauge, low, high
            at += 1
        for spare in range(at, (slot + 1) * self.depth):
            self.gauge_of[spare], self.low[spare], self.high[spare] = NO_GAUGE, 0.0, 0.0

    def _ranges_of(self, slot: int) -> list[tuple[int, float, float]]:
        its = slice(slot * self.depth, (slot + 1) * self.depth)
        gauges, low, high = self.gauge_of[its].tolist(), self.low[its].tolist(), self.high[its].tolist()
        return [one for one in zip(gauges, low, high, strict=True) if one[0] != NO_GAUGE]

    def _put_into_table(self, slot: int, shelf: int, ranges: list[tuple[int, float, float]]) -> None:
        word = self._room.get(shelf, NONE)
        if word == NONE or not self.table.has_room(word):
            word = self._word_with_room(shelf)
        place = self.table.room_in(word)
        self.slot_at[place] = slot
        self.place[slot] = place
        self.table.set(place, ranges)

    def _word_with_room(self, shelf: int) -> int:
        words = self.words.of(shelf)
        with_room = words[self.table.alive[words] != ~np.uint64(0)]
        if len(with_room):
            word = int(with_room[0])
        else:
            word = self.table.new_word()
            self.slot_at = grown(self.slot_at, (word + 1) * 64)
            self.words.append(shelf, word)
        self._room[shelf] = word
        return word

    def _move_into_table(self, shelf: int) -> None:
        slots = self.loose.of(shelf).tolist()
        self.loose.clear(shelf)
        for slot in slots:
            self._put_into_table(slot, shelf, self._ranges_of(slot))

    def _take_out(self, slot: int) -> None:
        shelf, place = int(self.shelf[slot]), int(self.place[slot])
        ranges = self._ranges_of(slot)
        if place == NONE:
            self.loose.remove(shelf, slot)
        else:
            self._take_from_table(place, shelf, ranges)
            self.place[slot] = NONE
        for gauge, low, _ in ranges:
            if self.gauges.leave(gauge, low):
                self._cut_at.pop(gauge, None)
                self.table.forget(gauge)
        if self.rest[slot]:
            self.rests.leave(int(self.rest[slot]))
        key: Key | None = self.keys.things[shelf]
        if self.keys.leave(shelf):
            assert key is not None  # the shelf of those without a key stays
            rack = self.racks[key[:3]]
            del rack.shelves[key.value]
            if not rack.shelves:
                del self.racks[key[:3]]
        self.count -= 1
        self._free.append(slot)

    def _take_from_table(self, place: int, shelf: int, ranges: list[tuple[int, float, float]]) -> None:
        word = place >> 6
        self.table.unset(place, ranges)
        if self.table.alive[word]:
            self._room[shelf] = word
            return
        self.words.remove(shelf, word)
        self.table.free_word(word)
        if self._room.get(shelf) == word:
            del self._room[shelf]

    def _cut_if_due(self, gauge: int) -> None:
        count = self.gauges.register.uses(gauge)
        if count < CUT_FROM or count < CUT_AGAIN * self._cut_at.get(gauge, 0):
            return
        self._cut_at[gauge] = count
        at = np.flatnonzero(self.gauge_of[: self._slots * self.depth] == gauge)
        self.table.cut(gauge, self.place[at // self.depth], self.low[at], self.high[at])

    # --- the search -------------------------------------------------------------------------------------------------

    def find_one(self, attributes: Mapping[str, Any]) -> Numbers:
        """The entries that one publication satisfies; one may come twice."""
        shelves = [shelf for rack in self.racks.values() if (shelf := rack.shelf_of(attributes))]
        readings = self.gauges.read_one(attributes)
        slots = self._in_ranges(shelves, readings, readings)
        return self._where_rest(slots, lambda rest: rest.decide(attributes))

    def implied(self, facts: Known) -> Numbers:
        """The entries with a clause that every row satisfies of which so much is known."""
        shelves = []
        for rack in self.racks.values():
            value = facts.shelf_value(rack.kind, rack.name, rack.shape)
            if value is not None and value in rack.shelves:
                shelves.append(rack.shelves[value])
        lows, highs = self.gauges.nothing(), self.gauges.nothing()
        for gauge, number in self.gauges.register:
            known = facts.reading(gauge, self.gauges.codes)
            if known is not None:
                lows[number], highs[number] = known
        slots = self._in_ranges(shelves, lows, highs)
        return self._where_rest(slots, lambda rest: all(map(facts.imply, rest.leaves)))

    def within(self, clause: Clause) -> Places:
        """The entries with a clause that has a range inside of each range of this one which follows from no other."""
        found: Places | None = None
        for asked in clause.ranges:
            if asked.gauge.kind not in DIRECT or asked.gauge.name == TOPIC:
                continue
            number = self.gauges.register.numbers.get(asked.gauge)
            low, high = asked.low, asked.high
            if asked.text is not None:
                low = high = self.gauges.code(asked)
            if number is None:
                return np.empty(0, np.intp)
            upto = self._slots * self.depth
            inside = (self.low[:upto] >= low) & (self.high[:upto] <= high) & (self.gauge_of[:upto] == number)
            slots = np.flatnonzero(inside) // self.depth
            found = slots if found is None else np.intersect1d(found, slots)
        if found is None:
            found = np.arange(self._slots)
        return np.unique(self.entry[found])

    def _in_ranges(self, shelves: list[int], lows: list[float], highs: list[float]) -> Numbers:
        """The slots on these shelves, and without a key, whose ranges have the lows and the highs inside."""
        shelves.append(UNKEYED)
        found = self.loose.of_all(shelves)
        words = _joined(self.words.of_all(shelves))
        if len(words):
            left = self.table.left_of_row(lows, words)
            if highs is not lows:
                left &= self.table.left_of_row(highs, words)
            found.append(slots_of(left, words, self.slot_at))
        slots = _joined(found)
        if not len(slots):
            return slots
        floor = np.array(lows)
        return self._checked(floor, floor if highs is lows else np.array(highs), slots)

    def _checked(self, lows: npt.NDArray[np.float64], highs: npt.NDArray[np.float64], slots: Numbers) -> Numbers:
        at = slots * self.depth + _LAYERS[: self.depth]
        gauges = self.gauge_of.take(at)
        below = lows.take(gauges)
        above = below if highs is lows else highs.take(gauges)
        holds = (below >= self.low.take(at)) & (above <= self.high.take(at))
        good: Numbers = slots.take(np.logical_and.reduce(holds, axis=0).nonzero()[0])
        return good

    def _where_rest(self, slots: Numbers, holds: Callable[[Rest], bool]) -> Numbers:
        if len(self.rests) > 1:
            rests = self.rest.take(slots)
            if rests.any():
                slots = slots[[not rest or holds(self.rests.things[rest]) for rest in rests.tolist()]]
        return self.entry.take(slots)

    def find(self, view: View) -> Found:
        """The rows of a batch and the entries they satisfy."""
        search = Search(self, view)
        found = [search.checked(*search.loose())]
        found += [search.checked(*piece) for piece in search.tabled(search.hits())]
        if len(found) == 1:
            return found[0]
        return np.concatenate([rows for rows, _ in found]), np.concatenate([entries for _, entries in found])


def _joined(pieces: list[Numbers]) -> Numbers:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else _NOTHING


_NOTHING: Final = np.empty(0, np.int32)
_LAYERS: Final = np.arange(RANGES_MAX, dtype=np.int32)[:, None]


def _deeper(array: npt.NDArray[Any], depth: int, deeper: int) -> npt.NDArray[Any]:
    new = np.zeros((len(array) // depth, deeper), array.dtype)
    new[:, :depth] = array.reshape(-1, depth)
    return new.reshape(-1)


class Hits(NamedTuple):
    """Rows and, for each, a stretch of a list of words."""

    rows: Places
    starts: Places
    lengths: Numbers

    def take(self, which: Places | slice) -> Hits:
        """Some of them."""
        return Hits(self.rows[which], self.starts[which], self.lengths[which])

    def split(self, count: int) -> tuple[Hits, Hits]:
        """So many words of each, and what is left after that."""
        now = np.minimum(self.lengths, count)
        later = self.lengths - now
        return Hits(self.rows, self.starts, now), Hits(self.rows, self.starts + now, later).take(np.flatnonzero(later))


class Search:
    """One batch and one store."""

    def __init__(self, store: Store, view: View) -> None:
        self.store = store
        self.view = view
        self.readings = store.gauges.read(view)
        seen = [rack.see(view) for rack in store.racks.values()]
        if store.loose.lengths[UNKEYED] or store.words.lengths[UNKEYED]:
            seen.append((np.arange(view.rows), np.full(view.rows, UNKEYED)))
        self.rows = np.concatenate([rows for rows, _ in seen]) if seen else np.empty(0, np.intp)
        self.shelves = np.concatenate([shelves for _, shelves in seen]) if seen else np.empty(0, np.intp)

    def loose(self) -> Found:
        """Rows, and the slots that lie loose on their shelves."""
        loose = self.store.loose
        lengths = loose.lengths.take(self.shelves)
        places = expanded(loose.starts.take(self.shelves), lengths)
        return np.repeat(self.rows, lengths), loose.data.take(places)

    def hits(self) -> Hits:
        """Rows, and the words of their shelves."""
        words = self.store.words
        lengths = words.lengths.take(self.shelves)
        some = np.flatnonzero(lengths)
        if len(some) and int(lengths.sum()) > SORT_FROM:
            some = some[np.argsort(self.shelves[some])]
        return Hits(self.rows[some], words.starts.take(self.shelves[some]), lengths[some])

    def tabled(self, hits: Hits) -> Iterator[Found]:
        """Rows, and the slots in these words that the table does not rule out."""
        if not len(hits.rows):
            return
        ends = np.cumsum(hits.lengths)
        cuts = np.searchsorted(ends, np.arange(PAIRS_MAX, int(ends[-1]), PAIRS_MAX)).tolist()
        for first, last in zip([0, *cuts], [*cuts, len(hits.rows)], strict=True):
            if first < last:
                yield self._left(hits.take(slice(first, last)))

    @cached_property
    def cells(self) -> npt.NDArray[np.intp]:
        """The cells into which the rows fall."""
        return self.store.table.cells(self.readings)

    def _left(self, hits: Hits) -> Found:
        store = self.store
        words = store.words.data.take(expanded(hits.starts, hits.lengths)).astype(np.intp)
        rows = np.repeat(hits.rows, hits.lengths)
        which, bits = bits_of(store.table.left(self.cells, rows, words))
        return rows.take(which), store.slot_at.take(words.take(which) * 64 + bits)

    def checked(self, rows: npt.NDArray[Any], slots: npt.NDArray[Any]) -> Found:
        """Of these pairs those in which ranges and rest hold, with entries for slots."""
        store, count = self.store, self.view.rows
        flat = self.readings.reshape(-1)
        for layer in range(store.depth):
            if not len(slots):
                break
            at = slots * store.depth + layer
            values = flat.take(store.gauge_of.take(at) * count + rows)
            good = np.flatnonzero((values >= store.low.take(at)) & (values <= store.high.take(at)))
            if len(good) < len(slots):
                rows, slots = rows.take(good), slots.take(good)
        rests = store.rest.take(slots)
        if rests.any():
            holding = self._rests_hold(rows, rests)
            rows, slots = rows[holding], slots[holding]
        return rows, store.entry.take(slots)

    def _rests_hold(self, rows: npt.NDArray[Any], rests: Numbers) -> npt.NDArray[np.bool_]:
        """Where they do; each is evaluated once, by columns or row by row, whatever is less work."""
        good: npt.NDArray[np.bool_] = np.equal(rests, 0)
        order = np.argsort(rests, kind="stable")
        first = int(np.searchsorted(rests[order], 1))
        numbers, starts = np.unique(rests[order[first:]], return_index=True)
        groups = np.split(order[first:], starts[1:])
        singly: list[tuple[Rest, Places]] = []
        for number, group in zip(numbers.tolist(), groups, strict=True):
            rest: Rest = self.store.rests.things[number]
            if len(group) > SINGLE_ROWS:
                good[group] = rest.mask(self.view)[rows[group]]
            else:
                singly.append((rest, group))
        if len(singly) <= MASKED_RESTS:
            for rest, group in singly:
                good[group] = rest.mask(self.view)[rows[group]]
            return good
        dicts = self.view.batch.plain_attributes
        for rest, group in singly:
            decide = rest.decide
            good[group] = [decide(dicts[row]) for row in rows[group].tolist()]
        return good
