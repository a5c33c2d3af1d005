"""Growing lists of numbers, and growing arrays: what very many small things are kept in without an object each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int32]
Places = npt.NDArray[np.intp]

FIRST_CAPACITY: Final = 4


def grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The array with room for `size` along its last axis, at least doubled if it had to grow; new room is zero."""
    if size <= array.shape[-1]:
        return array
    larger = np.zeros((*array.shape[:-1], max(size, 2 * array.shape[-1])), array.dtype)
    larger[..., : array.shape[-1]] = array
    return larger


def expanded(starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Places:
    """All places of ranges that begin at `starts` and have these lengths, one range after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    places: Places = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return places


class Lists:
    """Lists of int32, by number, all in one array; a list that outgrows its place moves to one twice as large."""

    __slots__ = ("_capacities", "_end", "_free", "data", "lengths", "starts")

    def __init__(self) -> None:
        self.data: Numbers = np.zeros(64, np.int32)
        self.starts: Places = np.zeros(16, np.intp)
        self.lengths: Numbers = np.zeros(16, np.int32)
        self._capacities: Numbers = np.zeros(16, np.int32)
        self._free: dict[int, list[int]] = {}
        self._end = 0

    def reserve(self, number: int) -> None:
        """There is a list of this number now, and it is empty."""
        if number >= len(self.starts):
            self.starts = grown(self.starts, number + 1)
            self.lengths = grown(self.lengths, number + 1)
            self._capacities = grown(self._capacities, number + 1)

    def append(self, number: int, value: int) -> None:
        """One more."""
        length = int(self.lengths[number])
        if length == self._capacities[number]:
            self._move(number, length)
        self.data[self.starts[number] + length] = value
        self.lengths[number] = length + 1

    def remove(self, number: int, value: int) -> None:
        """The value, which is there once, goes; the last takes its place."""
        start, last = int(self.starts[number]), int(self.lengths[number]) - 1
        place = int(np.flatnonzero(self.data[start : start + last + 1] == value)[0])
        self.data[start + place] = self.data[start + last]
        self.lengths[number] = last
        if not last:
            self.clear(number)

    def clear(self, number: int) -> None:
        """Nothing is left of it."""
        capacity = int(self._capacities[number])
        if capacity:
            self._free.setdefault(capacity, []).append(int(self.starts[number]))
        self.starts[number] = self.lengths[number] = self._capacities[number] = 0

    def of_all(self, numbers: list[int]) -> list[Numbers]:
        """Those of these lists in which there is anything."""
        start_of, length_of, data = self.starts.item, self.lengths.item, self.data
        found = []
        for number in numbers:
            length = length_of(number)
            if length:
                start = start_of(number)
                found.append(data[start : start + length])
        return found

    def of(self, number: int) -> Numbers:
        """The list, as a view that holds until the next change."""
        start = self.starts[number]
        return self.data[start : start + self.lengths[number]]

    def _move(self, number: int, length: int) -> None:
        capacity = max(FIRST_CAPACITY, 2 * length)
        free = self._free.get(capacity)
        if free:
            start = free.pop()
        else:
            start, self._end = self._end, self._end + capacity
            self.data = grown(self.data, self._end)
        old = int(self.starts[number])
        self.data[start : start + length] = self.data[old : old + length]
        if length:
            self._free.setdefault(length, []).append(old)
        self.starts[number], self._capacities[number] = start, capacity


class Register:
    """Numbers for things while somebody uses them; a number that nobody uses any more is given again."""

    __slots__ = ("_free", "_uses", "numbers", "things")

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.things: list[Any] = []
        self._uses: list[int] = []
        self._free: list[int] = []

    def take(self, thing: Any) -> int:
        """The number of a thing, used once more."""
        number = self.numbers.get(thing)
        if number is None:
            number = self.numbers[thing] = self.unused()
            self.things[number] = thing
        self._uses[number] += 1
        return number

    def unused(self) -> int:
        """A number that nobody uses."""
        if self._free:
            return self._free.pop()
        self.things.append(None)
        self._uses.append(0)
        return len(self.things) - 1

    def leave(self, number: int) -> bool:
        """Used once less; true when nobody uses it any more."""
        self._uses[number] -= 1
        if self._uses[number]:
            return False
        del self.numbers[self.things[number]]
        self.things[number] = None
        self._free.append(number)
        return True

    def uses(self, number: int) -> int:
        """How often it is used."""
        return self._uses[number]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return iter(self.numbers.items())
