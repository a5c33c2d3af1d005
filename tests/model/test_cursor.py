"""Cursors: kept as text, brought back, and refused where they mean nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model.cursor import Cursor
from gapless.model.errors import CursorError

KEPT = str(Cursor("demo", "ledger", b"b0:17"))


@given(st.text(), st.text(), st.binary())
def test_a_cursor_comes_back_as_it_was_kept(cluster: str, space: str, position: bytes) -> None:
    """The text of a cursor brings it back, and is fit for a file, a URL or a column."""
    cursor = Cursor(cluster, space, position)
    assert Cursor.parse(str(cursor)) == cursor
    assert re.fullmatch(r"[A-Za-z0-9=_.-]+", str(cursor))


@given(st.integers(0, len(KEPT) - 1), st.characters())
def test_a_cursor_that_was_changed_is_refused(place: int, other: str) -> None:
    """A cursor in which a character was lost or changed is not taken for another one."""
    changed = KEPT[:place] + other + KEPT[place + 1 :]
    for text in (changed, KEPT[:place]):
        if text != KEPT:
            with pytest.raises(CursorError):
                Cursor.parse(text)


def test_a_cursor_of_another_version_is_named() -> None:
    """The version is looked at before anything else, and said."""
    with pytest.raises(CursorError, match="version 2, and this program reads version 1"):
        Cursor.parse(KEPT.replace("cursor-1.", "cursor-2."))


def test_a_cursor_is_bound_to_its_space() -> None:
    """In another space or cluster it means nothing, and says so."""
    cursor = Cursor.parse(KEPT)
    cursor.check("demo", "ledger")
    for cluster, space in (("demo", "quotes"), ("prod", "ledger")):
        with pytest.raises(CursorError, match="use it where it was made"):
            cursor.check(cluster, space)
