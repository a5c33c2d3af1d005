"""What a subscription asks for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gapless.filters.columns import SCALAR_ROWS, Rows, View, masks_of, spread
from gapless.filters.filter import Filter, parse
from gapless.filters.topic import TOPIC, TopicPattern, parse_topic
from gapless.model.batch import Batch


class Interest:
    """A filter and, if there is one, a topic pattern; both must hold. Equal when both are."""

    def __init__(self, filter: Filter, topic: TopicPattern | None = None) -> None:  # noqa: A002  # the word of the interface
        self.filter = filter
        self.topic = topic

    @classmethod
    def parse(cls, filter_text: str = "", topic_text: str = "") -> Interest:
        """The interest of these texts; an empty one asks for everything. Raises FilterError."""
        return cls(parse(filter_text), parse_topic(topic_text) if topic_text else None)

    @cached_property
    def key(self) -> str:
        """A string that equal interests share, and no others; `of_key` makes the interest of it again."""
        if self.topic is None:
            return self.filter.canonical
        # No filter begins with NUL, and no topic pattern has one.
        return f"\0{self.topic.text}\0{self.filter.canonical}"

    @classmethod
    def of_key(cls, key: str) -> Interest:
        """The interest of this key."""
        if not key.startswith("\0"):
            return cls.parse(key)
        topic, _, text = key[1:].partition("\0")
        return cls.parse(text, topic)

    @property
    def size(self) -> int:
        """The length of its texts as they were given."""
        return len(self.filter.text) + (0 if self.topic is None else len(self.topic.text))

    @property
    def texts(self) -> tuple[str, str]:
        """The texts that `parse` makes this interest of, for telling others."""
        return self.filter.canonical, "" if self.topic is None else self.topic.text

    @cached_property
    def everything(self) -> bool:
        """Whether every publication matches, without a look at it."""
        return self.topic is None and self.filter.everything

    def matches(self, attributes: Mapping[str, Any]) -> bool:
        """Whether a publication with these attributes matches."""
        if self.topic is not None and not self.topic.matches(attributes.get(TOPIC)):
            return False
        return self.filter.evaluate(attributes) is True

    def rows(self, batch: Batch) -> Rows:
        """The rows of a batch that match, rising."""
        if batch.rows <= SCALAR_ROWS:
            dicts = batch.plain_attributes
            return np.array([row for row, attributes in enumerate(dicts) if self.matches(attributes)], np.intp)
        return np.nonzero(self.mask(View(batch)))[0]

    def mask(self, view: View) -> Any:
        """Where the rows of a view match, as an array."""
        true, _ = masks_of(self.filter.condition, view)
        if self.topic is not None:
            true = view.tested(TOPIC, self.topic.matches) & true
        return spread(true, view.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interest) and self.filter == other.filter and self.topic == other.topic

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        topic = "" if self.topic is None else f", topic={self.topic.text!r}"
        return f"Interest({self.filter.text!r}{topic})"

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return Interest.parse, (self.filter.text, "" if self.topic is None else self.topic.text)
