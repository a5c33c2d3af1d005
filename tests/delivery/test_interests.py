"""How a large change of interests is told."""

from __future__ import annotations

from gapless.delivery.direct.interests import LOCAL, WANT_BYTES, Asked, Interests
from gapless.filters import Interest


def test_a_large_change_goes_out_in_parts_that_together_say_all_of_it() -> None:
    """Thousands of interests told at once come in messages of one number, of which only the last is the last."""
    interests = Interests(["b1"])
    wanted = [Interest.parse(f"sym = 'S{n:05d}' AND note <> '{'x' * 60}'") for n in range(3000)]
    for interest in wanted:
        interests.hold(interest, LOCAL)
    interests.rise("b1")
    parts = [want for _, want in interests.changes()]
    assert len(parts) > 3
    assert [want.more for want in parts] == [True] * (len(parts) - 1) + [False]
    assert {want.number for want in parts} == {1}
    assert [texts for want in parts for texts in want.add] == [interest.texts for interest in wanted]
    assert (
        max(sum(map(len, texts)) for want in parts for texts in [[t for pair in want.add for t in pair]])
        < 2 * WANT_BYTES
    )


def test_a_request_waits_for_a_neighbour_that_is_told_in_parts() -> None:
    """Whoever asks while a neighbour is not there yet is answered when it has confirmed the whole change."""
    interests = Interests(["b1"])
    interests.ask(Asked(7, 1), LOCAL)
    assert interests.answered() == []
    interests.rise("b1")
    assert [want.number for _, want in interests.changes()] == [1]
    interests.confirmed("b1", 1, ())
    assert [pending.asked for pending in interests.answered()] == [Asked(7, 1)]


def test_a_small_change_is_one_message() -> None:
    """A removal and an addition go out together."""
    interests = Interests(["b1"])
    old, new = Interest.parse("a = 1"), Interest.parse("a = 2")
    interests.hold(old, LOCAL)
    interests.rise("b1")
    list(interests.changes())
    interests.drop(old.key, LOCAL)
    interests.hold(new, LOCAL)
    ((peer, want),) = interests.changes([old.key, new.key])
    assert (peer, want.number, want.add, want.remove, want.more) == ("b1", 2, (new.texts,), (old.texts,), False)
