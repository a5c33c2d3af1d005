"""Topic patterns: "nyse/+/quotes", "nyse/#"."""

from __future__ import annotations

from typing import Final

from gapless.filters.lexer import error_at
from gapless.model.errors import FilterError

MAX_PATTERN: Final = 4096  # characters
TOPIC: Final = "topic"  # the attribute that a pattern is about


class TopicPattern:
    """A pattern over the levels of a topic, between slashes: + is any one level, # at the end any number, also none.

    As in MQTT, but that no topic is hidden from a wildcard for starting with $. Only a string has levels: where the
    attribute is absent or no string, no pattern matches.
    """

    __slots__ = ("_levels", "exact", "text")

    def __init__(self, text: str) -> None:
        """Raises FilterError when the pattern is not one."""
        self._levels = _checked_levels(text)
        # `+/#` asks for one level or more, and every topic has one.
        self.text = "#" if self._levels == ("+", "#") else text
        self.exact = not ("+" in self._levels or "#" in self._levels)

    def matches(self, topic: object) -> bool:
        """Whether a topic matches: one look at each of its levels."""
        if type(topic) is not str:
            return isinstance(topic, str) and self.matches(str(topic))
        if self.exact:
            return topic == self.text
        levels = self._levels
        if levels[-1] != "#":
            parts = topic.split("/")
            return len(parts) == len(levels) and _agree(levels, parts)
        above = levels[:-1]
        parts = topic.split("/", len(above))
        return len(parts) >= len(above) and _agree(above, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPattern) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"TopicPattern({self.text!r})"

    def __reduce__(self) -> tuple[type[TopicPattern], tuple[str]]:
        return TopicPattern, (self.text,)


def parse_topic(pattern: str) -> TopicPattern:
    """The topic pattern of this text. Raises FilterError."""
    return TopicPattern(pattern)


def _agree(levels: tuple[str, ...], parts: list[str]) -> bool:
    return all(level in ("+", part) for level, part in zip(levels, parts, strict=False))


def _checked_levels(text: str) -> tuple[str, ...]:
    if not text:
        raise FilterError("column 1: a topic pattern is empty; to match every topic write #", 1)
    if len(text) > MAX_PATTERN:
        raise FilterError(f"the topic pattern has {len(text)} characters; the limit is {MAX_PATTERN}")
    if "\0" in text:
        raise error_at(text, text.index("\0"), "a topic has no NUL character")
    levels = tuple(text.split("/"))
    at = 0
    for place, level in enumerate(levels):
        if "#" in level and (level != "#" or place != len(levels) - 1):
            raise error_at(text, at + level.index("#"), "# stands for all deeper levels: alone, after the last /")
        if "+" in level and level != "+":
            raise error_at(text, at + level.index("+"), "+ stands for a whole level: alone between two /")
        at += len(level) + 1
    return levels
