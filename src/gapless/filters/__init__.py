"""The subscription language: JMS selectors (Jakarta Messaging 3.1, section 3.8), topic patterns, and matching.

`parse` gives a filter and `parse_topic` a pattern; an `Interest` is one of each, what a subscription asks for; a
`FilterIndex` matches a batch against all interests of a broker at once, a `RouteIndex` says where to forward it, and a
`Cover` what has to be told of very many interests.
"""

from __future__ import annotations

from gapless.filters.cover import Cover
from gapless.filters.filter import Filter, parse
from gapless.filters.index import EVERY_ROW, FilterIndex, Matched, RouteIndex
from gapless.filters.interest import Interest
from gapless.filters.topic import TopicPattern, parse_topic
from gapless.model.errors import FilterError

__all__ = [
    "EVERY_ROW",
    "Cover",
    "Filter",
    "FilterError",
    "FilterIndex",
    "Interest",
    "Matched",
    "RouteIndex",
    "TopicPattern",
    "parse",
    "parse_topic",
]
