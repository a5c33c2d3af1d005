"""Few interests and few rows: each row as a dict, and a look at what is asked of its strings. Faster than columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from gapless.filters.columns import SCALAR_ROWS, Rows
from gapless.filters.index.clauses import clauses_of, places_of
from gapless.filters.interest import Interest

INTERESTS_MAX: Final = 64

Look = tuple[Callable[[Mapping[str, Any]], bool], tuple[int, ...]]  # whether one matches, and who asks for it


class Small:
    """A few interests as they are now, with the numbers of their owners."""

    def __init__(self, asked: Iterable[tuple[Interest, tuple[int, ...]]]) -> None:
        self.filed: dict[str, dict[str, list[Look]]] = {}
        self.unfiled: list[Look] = []
        for interest, owners in asked:
            look = (interest.matches, owners)
            ways = list(clauses_of(interest))
            places = [place for place in places_of(ways[0]) if place.keys[0].kind == "text"] if len(ways) == 1 else []
            if places:
                for key in places[0].keys:
                    assert isinstance(key.value, str)
                    self.filed.setdefault(key.name, {}).setdefault(key.value, []).append(look)
            elif ways:
                self.unfiled.append(look)

    def match(self, attributes: Mapping[str, Any]) -> Iterator[int]:
        """Who gets a publication with these attributes; one may come twice."""
        for name, shelf in self.filed.items():
            value = attributes.get(name)
            if type(value) is str and value in shelf:
                for matches, owners in shelf[value]:
                    if matches(attributes):
                        yield from owners
        for matches, owners in self.unfiled:
            if matches(attributes):
                yield from owners


def _few_rows(bits: int) -> Rows:
    rows = np.array([row for row in range(SCALAR_ROWS) if bits >> row & 1], np.intp)
    rows.flags.writeable = False
    return rows


FEW_ROWS: Final = [_few_rows(bits) for bits in range(1 << SCALAR_ROWS)]
