"""Topic patterns."""

from __future__ import annotations

import pytest

from gapless.filters import FilterError, Interest, parse_topic


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("nyse/ibm", ["nyse/ibm"], ["nyse", "nyse/ibm/quotes", "nyse/IBM", "nyse/ibm/", ""]),
        ("nyse/+/quotes", ["nyse/ibm/quotes", "nyse//quotes"], ["nyse/quotes", "nyse/a/b/quotes", "nyse/ibm/trades"]),
        ("nyse/#", ["nyse", "nyse/", "nyse/ibm", "nyse/a/b/c"], ["nysex", "lse/ibm", ""]),
        ("#", ["", "a", "a/b", "/", "$sys/a"], []),
        ("+", ["", "a"], ["a/b", "/"]),
        ("+/+", ["a/b", "/", "a/"], ["a", "a/b/c"]),
        ("+/#", ["", "a", "a/b"], []),
        ("a/+/#", ["a/b", "a/b/c", "a/"], ["a", "b/b"]),
        ("/a", ["/a"], ["a", "//a"]),
    ],
)
def test_matching(pattern: str, matching: list[str], others: list[str]) -> None:
    """A pattern matches the topics that MQTT says, and no others."""
    given = parse_topic(pattern)
    assert [topic for topic in matching if not given.matches(topic)] == []
    assert [topic for topic in others if given.matches(topic)] == []


@pytest.mark.parametrize("value", [None, 5, True, b"a"])
def test_what_is_no_string_has_no_topic(value: object) -> None:
    """A missing topic, or one that is no string, matches no pattern, not even #."""
    assert not parse_topic("#").matches(value)
    assert not Interest.parse("", "#").matches({"topic": value} if not isinstance(value, bytes) else {})


@pytest.mark.parametrize(
    ("pattern", "column", "word"),
    [
        ("", 1, "empty"),
        ("a/#/b", 3, "#"),
        ("a/b#", 4, "#"),
        ("##", 1, "#"),
        ("a+/b", 2, r"\+"),
        ("a/++", 3, r"\+"),
        ("a\0b", 2, "NUL"),
    ],
)
def test_errors_name_the_column(pattern: str, column: int, word: str) -> None:
    """A pattern that is none is refused with the column and the rule."""
    with pytest.raises(FilterError, match=word) as caught:
        parse_topic(pattern)
    assert caught.value.position == column
    assert str(caught.value).startswith(f"column {column}: ")


def test_a_pattern_has_a_size() -> None:
    """A pattern of thousands of levels works, one over the limit is refused."""
    assert parse_topic("/".join("+" * 2000)).matches("/" * 1999)
    with pytest.raises(FilterError, match="4096"):
        parse_topic("a" * 4097)


def test_equality() -> None:
    """Patterns are equal by meaning: +/# asks for no more than #."""
    assert parse_topic("+/#") == parse_topic("#")
    assert hash(parse_topic("+/#")) == hash(parse_topic("#"))
    assert parse_topic("a/+/#") != parse_topic("a/#")


def test_everything_is_for_interests_without_a_topic() -> None:
    """# needs a topic to be there, so an interest with it does not match everything."""
    assert Interest.parse().everything
    assert Interest.parse("1 = 1").everything
    assert not Interest.parse("", "#").everything
    assert not Interest.parse("a").everything
    assert Interest.parse("", "#").matches({"topic": "x"})


def test_keys_do_not_run_together() -> None:
    """A topic and a filter make another key than a filter that contains both texts."""
    assert Interest.parse("b", "a").key != Interest.parse("a AND b").key
    assert Interest.parse("a AND b").key == Interest.parse("b and a").key
    assert Interest.parse("a", "t") != Interest.parse("a")
