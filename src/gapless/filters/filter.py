"""One filter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from gapless.filters.columns import SCALAR_ROWS, Rows, View, masks_of, spread
from gapless.filters.evaluate import Decide, decider
from gapless.filters.normal import normalise
from gapless.filters.parser import parse_condition
from gapless.filters.syntax import Condition, Constant, identifiers_of, text_of
from gapless.model.batch import Batch
from gapless.model.errors import FilterError

CACHED_TEXT: Final = 512  # characters up to which parsed filters are remembered by their text
CACHED_FILTERS: Final = 4096
SAFE_TEXT: Final = 2048  # characters up to which a normal form is within the parser's limits for sure
SAFE_DEPTH: Final = 100  # and so many parentheses


class Filter:
    """A condition on the attributes of a publication. Filters are equal when their normal forms are."""

    def __init__(self, text: str, condition: Condition) -> None:
        self.text = text
        self.condition = condition

    def evaluate(self, attributes: Mapping[str, Any]) -> bool | None:
        """True, False, or None for unknown. Raises AttributeTypeError for values that are no attributes."""
        return self.decide(attributes)

    def rows(self, batch: Batch) -> Rows:
        """The rows of a batch for which the filter is true, rising."""
        if batch.rows <= SCALAR_ROWS:
            dicts = batch.plain_attributes
            return np.array([row for row, attributes in enumerate(dicts) if self.decide(attributes)], np.intp)
        true, _ = masks_of(self.condition, View(batch))
        return np.nonzero(spread(true, batch.rows))[0]

    @cached_property
    def decide(self) -> Decide:
        """`evaluate` as a function of its own, for loops."""
        return decider(self.condition)

    @cached_property
    def normal(self) -> Condition:
        """The normal form as a tree."""
        return normalise(self.condition)

    @cached_property
    def canonical(self) -> str:
        """The text of the normal form. Parsed, it means the same; filters with the same are equal."""
        text = text_of(self.normal)
        if len(text) <= SAFE_TEXT and text.count("(") <= SAFE_DEPTH:
            return text
        try:
            parse_condition(text)
        except FilterError:
            # The normal form of a filter close to the limits may be over them; the filter as given is not.
            return self.text
        return text

    @cached_property
    def identifiers(self) -> tuple[str, ...]:
        """The attributes it names, each once, in the order of the text."""
        return identifiers_of(self.condition)

    @property
    def everything(self) -> bool:
        """Whether it is true for every publication, for all that the normal form shows."""
        return self.normal == Constant(True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and (self.text == other.text or self.canonical == other.canonical)

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return parse, (self.text,)


def parse(text: str) -> Filter:
    """The filter of this text; a blank one matches everything. Raises FilterError, which names the column."""
    return _remembered(text) if len(text) <= CACHED_TEXT else Filter(text, parse_condition(text))


@lru_cache(CACHED_FILTERS)
def _remembered(text: str) -> Filter:
    return Filter(text, parse_condition(text))
