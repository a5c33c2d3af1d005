"""The loads of the matching measurement: filters and publications, plain and mixed, the same for the same seed.

Plain: ten attributes, four of them strings of 25 values each, six numbers; a filter is one equality and two ranges of a
tenth, on attributes drawn evenly, so it matches 0.04% of the publications. Mixed: 40% like plain, 20% ranges only, 20%
with OR, NOT or IN, 10% LIKE or topic patterns, 10% sharing one hot equality; values follow Zipf, and 20% of the
attributes are missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gapless.filters import Interest
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.types import Source

TEXTS = ("sym", "loc", "desk", "book")
NUMBERS = ("price", "vol", "bid", "ask", "yield", "size")
VALUES = 25
SPAN = 10_000  # of numbers; every other attribute of them is a float
MISSING = 0.2
SOURCE = Source("bench", 1)


class Load:
    """Filters and batches of one kind."""

    def __init__(self, kind: str, seed: int = 1) -> None:
        self.mixed = kind == "mixed"
        self.random = np.random.default_rng(seed)

    # --- publications -----------------------------------------------------------------------------------------------

    def batch(self, rows: int) -> Batch:
        """So many publications."""
        texts = {name: self._ranks(rows) for name in TEXTS}
        numbers = {name: self.random.uniform(0, SPAN, rows) for name in NUMBERS}
        made: list[dict[str, Any]] = []
        for row in range(rows):
            attributes: dict[str, Any] = {name: _text(name, ranks[row]) for name, ranks in texts.items()}
            for place, (name, values) in enumerate(numbers.items()):
                attributes[name] = float(values[row]) if place % 2 else int(values[row])
            if self.mixed:
                attributes["topic"] = _topic(int(self._ranks(1)[0]), int(self._ranks(1)[0]))
                attributes = {name: value for name, value in attributes.items() if self.random.random() >= MISSING}
            made.append(attributes)
        return batch_of_rows(SOURCE, 1, made, [b""] * rows)

    def _ranks(self, count: int) -> npt.NDArray[np.int64]:
        if not self.mixed:
            return self.random.integers(0, VALUES, count)
        return np.minimum(self.random.zipf(1.3, count) - 1, 40 * VALUES - 1)

    # --- filters ----------------------------------------------------------------------------------------------------

    def filters(self, count: int) -> list[tuple[str, str]]:
        """So many filters, each with its topic pattern ('' for none)."""
        return [self._filter() for _ in range(count)]

    def interests(self, count: int) -> list[Interest]:
        """So many, parsed."""
        return [Interest.parse(text, topic) for text, topic in self.filters(count)]

    def _filter(self) -> tuple[str, str]:
        if not self.mixed:
            return self._like_plain(0.1), ""
        kind = self.random.random()
        if kind < 0.4:
            return self._like_plain(0.1), ""
        if kind < 0.6:
            return self._ranges(0.02), ""
        if kind < 0.8:
            return self._boolean(), ""
        if kind < 0.9:
            return self._pattern()
        return f"loc = '{_text('loc', 0)}' AND {self._ranges(0.03)}", ""

    def _equality(self) -> str:
        name = TEXTS[self.random.integers(len(TEXTS))]
        return f"{name} = '{_text(name, int(self._ranks(1)[0]))}'"

    def _range(self, name: str, width: float) -> str:
        low = self.random.uniform(0, SPAN * (1 - width))
        high = low + SPAN * width
        if self.random.random() < 0.5:
            return f"{name} BETWEEN {low:.2f} AND {high:.2f}"
        return f"{name} > {low:.2f} AND {name} <= {high:.2f}"

    def _ranges(self, width: float) -> str:
        first, second = self.random.choice(len(NUMBERS), 2, replace=False).tolist()
        return f"{self._range(NUMBERS[first], width)} AND {self._range(NUMBERS[second], width)}"

    def _like_plain(self, width: float) -> str:
        return f"{self._equality()} AND {self._ranges(width)}"

    def _boolean(self) -> str:
        form = self.random.integers(4)
        if form == 0:
            return f"({self._equality()} OR {self._equality()}) AND {self._ranges(0.1)}"
        if form == 1:
            return f"{self._like_plain(0.1)} AND NOT ({self._equality()})"
        if form == 2:
            name = TEXTS[self.random.integers(len(TEXTS))]
            choices = ", ".join(f"'{_text(name, int(rank))}'" for rank in self._ranks(3))
            return f"{name} IN ({choices}) AND {self._ranges(0.07)}"
        return f"{self._equality()} AND NOT (price < 9000) AND ({self._range('vol', 0.1)} OR {self._range('bid', 0.1)})"

    def _pattern(self) -> tuple[str, str]:
        form = self.random.integers(4)
        first, second = (int(rank) for rank in self._ranks(2))
        if form == 0:
            return f"sym LIKE '{_text('sym', first)[:-1]}%' AND {self._ranges(0.1)}", ""
        if form == 1:
            return f"book LIKE '%{_text('book', first)[-2:]}' AND {self._ranges(0.1)}", ""
        if form == 2:
            return self._ranges(0.1), f"market-{first}/+/quotes"
        return self._ranges(0.1), f"market-{first}/desk-{second}/#"


def _text(name: str, rank: int) -> str:
    return f"{name}-{rank:03d}"


def _topic(first: int, second: int) -> str:
    return f"market-{first}/desk-{second}/{'quotes' if first & 1 else 'trades'}"
