"""How a large change of interests is told."""

from __future__ import annotations

from gapless.delivery.direct.interests import LOCAL, UNHEARD_BYTES, WANT_BYTES, Asked, Interests
from gapless.filters import Interest


def test_a_large_change_goes_out_in_parts_that_together_say_all_of_it() -> None:
    """Thousands of interests told at once come in messages of one number, of which only the last is the last."""
    interests = Interests(["b1"])
    wanted = [Interest.parse(f"sym = 'S{n:05d}' AND note <> '{'x' * 60}'") for n in range(3000)]
    for interest in wanted:
        interests.hold(interest, LOCAL)
    interests.rise("b1")
    interests.change()
    parts = [want for _, want in interests.wants()]
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
    interests.change()
    assert [want.number for _, want in interests.wants()] == [1]
    assert interests.confirmed("b1", 1, ())
    assert [pending.asked for pending in interests.answered()] == [Asked(7, 1)]


def test_a_small_change_is_one_message() -> None:
    """A removal and an addition go out together."""
    interests = Interests(["b1"])
    old, new = Interest.parse("a = 1"), Interest.parse("a = 2")
    interests.hold(old, LOCAL)
    interests.rise("b1")
    interests.change()
    list(interests.wants())
    interests.drop(old.key, LOCAL)
    interests.hold(new, LOCAL)
    interests.change([old.key, new.key])
    ((peer, want),) = interests.wants()
    assert (peer, want.number, want.add, want.remove, want.more) == ("b1", 2, (new.texts,), (old.texts,), False)


def test_a_neighbour_that_comes_back_is_told_as_fast_as_it_listens() -> None:
    """However much is wanted, only a bounded part of it is under way until the neighbour has heard it."""
    interests = Interests(["b1"])
    wanted = [Interest.parse(f"note <> '{n:04d}{'x' * 50_000}'") for n in range(60)]
    for interest in wanted:
        interests.hold(interest, LOCAL)
    interests.rise("b1")
    interests.change()
    told = [want for _, want in interests.wants()]
    assert sum(len(text) for want in told for text, _ in want.add) < UNHEARD_BYTES + 2 * WANT_BYTES
    assert list(interests.wants()) == []
    heard = 0
    while heard < len(told):
        assert interests.heard("b1")
        heard += 1
        told += [want for _, want in interests.wants()]
    assert [texts for want in told for texts in want.add] == [interest.texts for interest in wanted]
    assert not interests.heard("b1")


def test_a_word_about_what_was_not_told_is_not_taken() -> None:
    """A confirmation must be about a change that has been told, and cannot go back."""
    interests = Interests(["b1"])
    interests.rise("b1")
    interests.change()
    assert not interests.confirmed("b1", 1, ())
    assert [want.number for _, want in interests.wants()] == [1]
    assert not interests.confirmed("b1", 2, ())
    assert interests.confirmed("b1", 1, ())
    assert not interests.confirmed("b1", 0, ())


def test_many_who_wait_cost_no_more_than_their_number() -> None:
    """Whoever waits is looked at when the word comes, not at every step: the steps of asking stay even."""
    interests = Interests(["b1"])
    for number in range(1000):
        interests.ask(Asked(7, number), LOCAL)
        assert interests.answered() == []
        assert not interests.over
    interests.forget_one(Asked(7, 3))
    interests.rise("b1")
    interests.change()
    assert len(list(interests.wants())) == 1
    assert interests.confirmed("b1", 1, ("b9",))
    assert [pending.asked.number for pending in interests.answered()] == [n for n in range(1000) if n != 3]
    assert interests.unanswered() == 0


def told(interests: Interests) -> list[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """Number, additions and removals of what may be sent now, to the only neighbour."""
    return [
        (want.number, tuple([text for text, _ in want.add]), tuple([text for text, _ in want.remove]))
        for _, want in interests.wants()
    ]


def paced(*neighbours: str) -> Interests:
    """Neighbours that were told something and have not heard it yet, and may not be told more meanwhile."""
    interests = Interests(neighbours, 1)
    for peer in neighbours:
        interests.rise(peer)
    interests.change()
    assert len(list(interests.wants())) == len(neighbours)
    return interests


def test_what_comes_and_goes_before_it_can_be_told_leaves_nothing_behind() -> None:
    """A client that subscribes and unsubscribes without end while a neighbour is slow to listen fills no memory."""
    interests = paced("b1")
    for number in range(2000):
        interest = Interest.parse(f"n = {number}")
        interests.hold(interest, LOCAL)
        interests.change([interest.key])
        interests.ask(Asked(7, number), LOCAL)
        interests.forget_one(Asked(7, number))
        interests.drop(interest.key, LOCAL)
        interests.change([interest.key])
        assert told(interests) == []
    neighbour = interests.up["b1"]
    assert not neighbour.touched and not neighbour.telling and not neighbour.told
    assert not interests.waiting["b1"] and not interests.pending and not interests.over and not interests.known
    assert interests.heard("b1")
    assert told(interests) == [(2, (), ())]


def test_a_removal_that_was_not_told_and_its_return_cancel_too() -> None:
    """A neighbour that was told of an interest is not told of its end when it has begun again by then."""
    interests = paced("b1")
    interest = Interest.parse("n = 1")
    interests.hold(interest, LOCAL)
    interests.change([interest.key])
    assert interests.heard("b1")
    assert told(interests) == [(2, ("n = 1",), ())]
    interests.drop(interest.key, LOCAL)
    interests.change([interest.key])
    interests.hold(interest, LOCAL)
    interests.change([interest.key])
    assert interests.heard("b1")
    assert told(interests) == []


def test_a_request_is_answered_by_the_word_on_the_want_that_carries_it() -> None:
    """While a neighbour may not be told more, the word on what it was told before confirms nothing that came after."""
    interests = paced("b1")
    first, second, other = (Interest.parse(f"n = {n}") for n in range(3))
    for number, interest in enumerate((first, second)):
        interests.hold(interest, LOCAL)
        interests.change([interest.key])
        interests.ask(Asked(7, number), LOCAL)
    assert interests.confirmed("b1", 1, ())
    assert interests.answered() == []
    assert interests.heard("b1")
    assert told(interests) == [(2, ("n = 0",), ())]
    interests.hold(other, LOCAL)  # while Want 2 goes out in parts: it belongs to the next
    interests.change([other.key])
    interests.ask(Asked(7, 2), LOCAL)
    assert interests.heard("b1")
    assert told(interests) == [(2, ("n = 1",), ())]
    assert interests.confirmed("b1", 2, ())
    assert [pending.asked.number for pending in interests.answered()] == [0, 1]
    assert interests.heard("b1")
    assert told(interests) == [(3, ("n = 2",), ())]
    assert interests.confirmed("b1", 3, ())
    assert [pending.asked.number for pending in interests.answered()] == [2]


def test_a_request_whose_want_came_to_nothing_is_answered_all_the_same() -> None:
    """What somebody waits for may cancel out with what others do: then an empty Want asks for the word."""
    interests = paced("b1", "b2")
    shared = Interest.parse("n = 1")
    interests.hold(shared, LOCAL)
    interests.change([shared.key])
    interests.ask(Asked(7, 1), LOCAL)  # a client waits for both neighbours
    interests.drop(shared.key, LOCAL)
    interests.hold(shared, "b1")  # and before b1 could be told, only b1 itself wants it
    interests.change([shared.key])
    assert interests.confirmed("b1", 1, ()) and interests.confirmed("b2", 1, ())
    assert interests.heard("b1") and interests.heard("b2")
    wants = {peer: (want.number, want.add, want.remove) for peer, want in interests.wants()}
    assert wants == {"b1": (2, (), ()), "b2": (2, (shared.texts,), ())}
    assert interests.confirmed("b1", 2, ()) and interests.answered() == []
    assert interests.confirmed("b2", 2, ())
    assert [pending.asked.number for pending in interests.answered()] == [1]
