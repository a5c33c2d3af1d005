"""Very many interests at once."""

from __future__ import annotations

from gapless.filters.index.index import EVERY_ROW, FilterIndex, Matched, Matches
from gapless.filters.index.route import RouteIndex

__all__ = ["EVERY_ROW", "FilterIndex", "Matched", "Matches", "RouteIndex"]
