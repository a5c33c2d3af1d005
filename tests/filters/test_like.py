"""LIKE: against an oracle, and never more work than text times pattern over a machine word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.filters import like
from gapless.filters.like import WINDOW, LikePattern


def liked(pattern: str, text: str) -> bool:
    """LIKE by following all places of the text that the pattern can have reached."""
    reached = {0}
    for character in pattern:
        if character == "%":
            reached = set(range(min(reached), len(text) + 1))
        else:
            reached = {here + 1 for here in reached if here < len(text) and character in ("_", text[here])}
        if not reached:
            return False
    return len(text) in reached


@settings(max_examples=1000)
@given(st.text(alphabet="ab%_", max_size=14), st.text(alphabet="ab", max_size=30))
def test_agrees_with_the_oracle(pattern: str, text: str) -> None:
    """Patterns over few characters, where everything nearly matches, agree with the oracle."""
    assert LikePattern(pattern).matches(text) is liked(pattern, text)


@settings(max_examples=200)
@given(
    st.lists(st.text(alphabet="ab_", min_size=1, max_size=5), min_size=1, max_size=4),
    st.text(alphabet="abß🚀", max_size=40),
    st.integers(1, 100),
)
def test_long_texts_agree_with_the_oracle(segments: list[str], seed: str, times: int) -> None:
    """Texts long enough for the search by bits, in several windows, agree with the oracle."""
    text = "a" * 4_000 + seed * times + "b" + "a" * times
    pattern = "%" + "%".join(segments) + "%"
    assert LikePattern(pattern).matches(text) is liked(pattern, text)


@pytest.mark.parametrize("place", [0, 1, *range(WINDOW - 3, WINDOW + 3), *range(2 * WINDOW - 3, 2 * WINDOW + 3), 9000])
def test_a_segment_is_found_wherever_it_stands(place: int) -> None:
    """A segment with _ is found at, before and after the borders of the windows of its search, and at the very end."""
    text = "." * place + "xay" + "." * (9000 - place)
    assert LikePattern("%x_y%").matches(text)
    assert LikePattern("%x_y" + "_" * (9000 - place) + "%").matches(text)
    assert not LikePattern("%x_y" + "_" * (9001 - place) + "%").matches(text)
    assert not LikePattern("%x_z%").matches(text)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts what matching looks at: runs compared in place, words of bits, and texts given to str.find."""
    counted = [0]
    segment = like._Segment
    stands_at, find, by_bits = segment.stands_at, segment.find, segment.find_by_bits

    def counting_stands_at(self: like._Segment, text: str, at: int) -> bool:
        counted[0] += 1 + len(self.runs)
        return stands_at(self, text, at)

    def counting_find(self: like._Segment, text: str, start: int, end: int) -> int:
        found = find(self, text, start, end)
        if self.plain is not None:
            counted[0] += (found + self.size if found >= 0 else end) - start
        return found

    def counting_bits(self: like._Segment, text: str, start: int, places: int) -> int:
        counted[0] += places + self.size + len(self.characters) * (1 + (places + self.size) // 30)
        return by_bits(self, text, start, places)

    monkeypatch.setattr(segment, "stands_at", counting_stands_at)
    monkeypatch.setattr(segment, "find", counting_find)
    monkeypatch.setattr(segment, "find_by_bits", counting_bits)
    return counted


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b", "a"),
        ("%a_a%a_a%a_a%a_a%a_a%a_a%a_a%b_", "a"),
        ("%a_%a_%a_%a_%a_%a_%a_%a_%a_%a_%a_%ab_c%", "ab"),
        ("_%" * 20 + "b", "a"),
        ("%" + "a_" * 40 + "b%", "a"),
        ("%" + "a_" * 40 + "b%c", "aab"),
        ("%" + "a" * 80 + "b%", "a"),
        ("%aab_%" * 12 + "c%", "aab"),
    ],
)
def test_work_grows_with_the_text_and_no_faster(pattern: str, text: str, work: list[int]) -> None:
    """On patterns that make backtracking explode, ten times the text is about ten times the work."""
    counts = []
    for length in (4_000, 40_000):
        work[0] = 0
        LikePattern(pattern).matches(text * (length // len(text)))
        counts.append(work[0])
    assert counts[0] <= 4_000 * 12
    assert counts[1] <= 12 * counts[0] + 1_000


def test_the_worst_pattern_and_text_end_soon(work: list[int]) -> None:
    """The longest pattern allowed, failing at its last character everywhere in a long text, stays within the bound."""
    pattern = "%" + "a_" * ((like.MAX_PATTERN - 4) // 2) + "b%"
    size, length = len(pattern), 100_000
    assert LikePattern(pattern).matches("a" * length) is False
    assert work[0] <= 4 * (length + size) + size * (length + size) // 15
