"""The selector language: its table, its limits, and what its errors say."""

from __future__ import annotations

import math
import pickle
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from gapless.filters import FilterError, FilterIndex, Interest, parse
from gapless.filters.parser import MAX_PARENTHESES, MAX_TEXT, MAX_TOKENS, parse_condition
from gapless.filters.syntax import text_of
from gapless.model.columns import batch_of_rows
from gapless.model.errors import AttributeTypeError
from gapless.model.types import INT64_MAX, INT64_MIN, Source

MESSAGE: dict[str, Any] = {
    "n": 5, "m": -3, "f": 2.5, "z": 0.0, "N": 50, "_x": 1, "$x": 2, "a$b_1": 3, "größe": 4, "名前": 5, "€": 6,
    "big": (1 << 53) + 1, "round": 2.0**53, "max": INT64_MAX, "min": INT64_MIN, "nan": math.nan, "inf": math.inf,
    "s": "abc", "e": "", "q": "it's", "wide": "grüße 🚀", "digits": "5", "pct": "100%", "under": "a_b", "bang": "a!b",
    "lines": "a\nb", "regex": "a.c*[x]",
    "t": True, "u": False, "none": None, "when": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
}  # fmt: skip
NAMES = {True: "true", False: "false", None: "unknown"}


def table() -> list[tuple[str, str]]:
    """The cases of selectors.tsv."""
    lines = (Path(__file__).parent / "selectors.tsv").read_text().splitlines()
    cases = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(expected, text) for expected, text in cases]


@pytest.mark.parametrize(("expected", "text"), table())
def test_table(expected: str, text: str) -> None:
    """Every case of the table holds for one publication, for few rows, for a column, and for the normal form."""
    if expected.startswith("error"):
        with pytest.raises(FilterError) as caught:
            parse(text)
        assert f"error {caught.value.position}" == expected
        assert str(caught.value).startswith(f"column {caught.value.position}: ")
        return
    for given in (parse(text), parse(parse(text).canonical), parse(text_of(parse(text).condition))):
        assert NAMES[given.evaluate(MESSAGE)] == expected
        for count in (2, 20):
            batch = batch_of_rows(Source("p", 1), 1, [MESSAGE, {}] * count, [b""] * (2 * count))
            bare = given.evaluate({}) is True
            matching = [row for row in range(2 * count) if (bare if row % 2 else expected == "true")]
            assert given.rows(batch).tolist() == matching


def test_the_table_is_the_language() -> None:
    """The table has hundreds of different cases, and each outcome occurs often."""
    cases = table()
    assert len({text for _, text in cases}) == len(cases) > 500
    for outcome in ("true", "false", "unknown", "error"):
        assert sum(expected.startswith(outcome) for expected, _ in cases) > 40


@pytest.mark.parametrize("blank", ["", " ", "\t\r\n\f "])
def test_a_blank_filter_matches_everything(blank: str) -> None:
    """A blank filter is true for every publication, also one without attributes."""
    assert parse(blank).evaluate({}) is True
    assert parse(blank).everything
    assert Interest.parse(blank).everything


def test_white_space_is_that_of_the_specification() -> None:
    """Space, tab, form feed and line ends separate words; other blanks of Unicode are errors."""
    assert parse(" n\t=\f5\r\nAND\nt ").evaluate(MESSAGE) is True
    for blank in ("\u00a0", "\u2003", "\v", "\u2028"):
        with pytest.raises(FilterError) as caught:
            parse(f"n ={blank}5")
        assert caught.value.position == 4


def test_an_error_shows_the_place() -> None:
    """The message has the column, what was expected and found, and a caret under the place."""
    with pytest.raises(FilterError) as caught:
        parse("price > AND loc = 'NY'")
    first, excerpt, caret = str(caught.value).split("\n")
    assert first == "column 9: expected an attribute, a literal or (, found AND"
    assert excerpt[caret.index("^") :].startswith("AND")


def test_the_excerpt_of_a_long_filter_is_short() -> None:
    """Of a long filter only the neighbourhood of the error is shown, on one line, with the caret in place."""
    text = "n = 1 OR\n" * 500 + "n ! 5" + " OR n = 1" * 500
    with pytest.raises(FilterError) as caught:
        parse(text)
    _, excerpt, caret = str(caught.value).split("\n")
    assert len(excerpt) < 80
    assert excerpt[caret.index("^")] == "!"
    assert caught.value.position == text.index("!") + 1


def test_a_quoted_mistake_stays_short() -> None:
    """A long string where none may stand does not fill the message."""
    with pytest.raises(FilterError) as caught:
        parse("n > 5 '" + "x" * 1000 + "'")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("parts", [10, 3000])
@pytest.mark.parametrize(
    ("joiner", "term", "expected"),
    [(" OR ", "n = 6", False), (" AND ", "n = 5", True), (" OR ", "NOT n > 1 AND t", False)],
)
def test_long_chains(parts: int, joiner: str, term: str, expected: bool) -> None:
    """Chains of thousands of conditions parse and evaluate."""
    given = parse(joiner.join([term] * parts))
    assert given.evaluate(MESSAGE) is expected
    assert given == parse(term)


def test_long_arithmetic() -> None:
    """Sums, products, signs and lists of thousands work and need no nesting."""
    assert parse("n " + "+ 1 " * 5000 + "= 5005").evaluate(MESSAGE) is True
    assert parse("f " + "* 1.0 " * 5000 + "= f").evaluate(MESSAGE) is True
    assert parse("- " * 9999 + "n = -5").evaluate(MESSAGE) is True
    assert parse("s IN (" + "'x', " * 5000 + "'abc')").evaluate(MESSAGE) is True
    batch = batch_of_rows(Source("p", 1), 1, [MESSAGE] * 20, [b""] * 20)
    assert len(parse("n " + "+ 1 " * 5000 + "= 5005").rows(batch)) == 20


def test_many_nots() -> None:
    """Ten thousand NOTs are as good as none, one more as good as one."""
    assert parse("NOT " * 10_000 + "t").evaluate(MESSAGE) is True
    assert parse("NOT " * 10_001 + "t").evaluate(MESSAGE) is False


@pytest.mark.parametrize("depth", [1, MAX_PARENTHESES])
def test_nesting_up_to_the_limit(depth: int) -> None:
    """Parentheses nest to the limit, around conditions and around values."""
    assert parse("(" * depth + "t" + ")" * depth).evaluate(MESSAGE) is True
    assert parse("(" * depth + "n" + ")" * depth + " = 5").evaluate(MESSAGE) is True


@pytest.mark.parametrize(
    "text",
    [
        "(" * 201 + "t" + ")" * 201,
        "(" * 10_000 + "t" + ")" * 10_000,
        "(" * 30_000,
        "NOT (" * 5000 + "t" + ")" * 5000,
        "n + (" * 5000 + "n" + ")" * 5000 + " = 1",
        "-(" * 5000 + "n" + ")" * 5000 + " = 1",
        "t OR u AND NOT (" * 150 + "t" + ")" * 150,
        "t" + ")" * 10_000,
    ],
)
def test_too_deep_is_an_error_and_not_a_crash(text: str) -> None:
    """What nests too deeply is refused with a column, never with RecursionError."""
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert caught.value.position > 0


def test_the_deepest_filter_works_far_down_the_stack() -> None:
    """At the limit of nesting every operation works, also when the caller has used up half of Python's stack."""
    logic = "".join("t AND (" if level % 2 else "u OR (" for level in range(MAX_PARENTHESES - 2))
    logic += "n = 5" + ")" * (MAX_PARENTHESES - 2)
    values = "n = " + "".join("1 + (" if level % 2 else "1 * (" for level in range(MAX_PARENTHESES - 4))
    values += "n" + ")" * (MAX_PARENTHESES - 4)
    batch = batch_of_rows(Source("p", 1), 1, [MESSAGE] * 20, [b""] * 20)

    def run(frames: int) -> None:
        if frames:
            run(frames - 1)
            return
        for text in (logic, values):
            given = parse(text)
            assert given.evaluate(MESSAGE) is (text is logic)
            assert len(given.rows(batch)) == (20 if text is logic else 0)
            assert parse(given.canonical) == given
            assert hash(given) == hash(parse(text + " "))
            index = FilterIndex()
            index.add(Interest(given), "a")
            assert bool(index.match(batch)) is (text is logic)

    assert sys.getrecursionlimit() >= 1000
    run(400)


def test_size_limits() -> None:
    """A filter at the limit of characters is taken, one above it refused; the same for words."""
    padding = " " * (MAX_TEXT - 1)
    assert parse("t" + padding).evaluate(MESSAGE) is True
    with pytest.raises(FilterError, match="characters"):
        parse("t " + padding)
    words = "+ 1" * (MAX_TOKENS // 2 - 2)
    assert parse(f"n {words} > 0").evaluate(MESSAGE) is True
    with pytest.raises(FilterError, match="words"):
        parse(f"n {words} + 1 > 0")
    with pytest.raises(FilterError, match="4096"):
        parse(f"s LIKE '{'_' * 4097}'")


def test_half_characters_are_refused() -> None:
    """A lone surrogate is not text, so a filter with one is refused before it meets a column."""
    with pytest.raises(FilterError) as caught:
        parse("s = '\ud800'")
    assert caught.value.position == 6


def test_types_that_are_no_attributes_are_errors() -> None:
    """Evaluating over a list, or a time without zone, names the value instead of guessing."""
    for value in ([1], b"x", datetime(2024, 1, 1)):  # noqa: DTZ001  # the missing zone is the point
        for text in ("x = 1", "x = 'a'", "x + 1 = 2", "x LIKE 'a'", "x"):
            with pytest.raises(AttributeTypeError):
                parse(text).evaluate({"x": value})


def test_subclasses_count_as_their_type() -> None:
    """A subclass of a type is evaluated as that type; a time in any zone as its microseconds."""

    class Name(str):
        __slots__ = ()

    class Count(int):
        pass

    assert parse("x = 'a' AND y = 1 AND y + 1 = 2 AND y > 0.5").evaluate({"x": Name("a"), "y": Count(1)}) is True
    zone = timezone(timedelta(hours=2))
    assert parse("x = 3600000000").evaluate({"x": datetime(1970, 1, 1, 3, tzinfo=zone)}) is True


def test_identifiers() -> None:
    """The attributes a filter names come once each, in the order of the text."""
    given = parse("b = a AND (c LIKE 'x' OR a IS NULL) AND d BETWEEN e AND f + a AND NOT g IN ('h')")
    assert given.identifiers == ("b", "a", "c", "d", "e", "f", "g")
    assert parse("").identifiers == ()


def test_filters_travel() -> None:
    """A filter and an interest survive pickling, with text and meaning."""
    given = parse("n = 5 AND s LIKE 'a!_%' ESCAPE '!'")
    again = pickle.loads(pickle.dumps(given))
    assert again == given and again.text == given.text
    interest = Interest.parse("n = 5", "nyse/#")
    assert pickle.loads(pickle.dumps(interest)) == interest


def test_parsing_twice_gives_one_filter() -> None:
    """Texts that were parsed before cost a look-up, and long ones are not kept."""
    assert parse("n = 77") is parse("n = 77")
    long = "n = 77" + " " * 1000
    assert parse(long) is not parse(long)


def test_parse_condition_keeps_what_was_written() -> None:
    """The tree of a filter is the text's, so its own text differs in spacing only."""
    text = "NOT n BETWEEN 1 AND 2 OR (t AND s NOT IN ('b', 'a')) AND 5.0 < -(n + 1) * 2"
    assert text_of(parse_condition("  " + text.replace(" AND", "  and").replace(",", " ,"))) == text
