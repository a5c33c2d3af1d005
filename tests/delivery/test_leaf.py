"""What a leaf of `direct` answers for when sessions end."""

from __future__ import annotations

import pytest

from gapless.delivery.direct.leaf import DirectLeaf
from gapless.delivery.direct.messages import Credit, Reject
from gapless.delivery.port import Answer, Now, Role, Session, SpaceSettings, Unknown
from gapless.model.batch import Batch
from gapless.model.columns import batch_of_rows
from gapless.model.types import Source

TILL = Source("till", 1)
NOW = Now(0, 0)


def batch_at(first: int) -> Batch:
    """One publication."""
    return batch_of_rows(TILL, first, [{}], [b""])


@pytest.mark.parametrize("again", [(1, 6), (6, 1)])
def test_what_may_have_got_through_stays_so(again: tuple[int, int]) -> None:
    """However the batches are offered again, in whatever order, one that may have got through is never refused."""
    leaf = DirectLeaf("c", SpaceSettings(name="q"))
    for session, offered in enumerate([(1, 6), again[:1], again], 1):
        leaf.on_session_up(Session(session, "b0", Role.BROKER), NOW)
        leaf.on_message(session, Credit(1 << 20), NOW)
        for first in offered:
            leaf.on_publish(batch_at(first), NOW)
        leaf.on_session_down(session, NOW)
    leaf.on_session_up(Session(9, "b1", Role.BROKER), NOW)
    leaf.on_message(9, Credit(1 << 20), NOW)
    leaf.on_publish(batch_at(6), NOW)
    effects = leaf.on_message(9, Reject("till", 1, 6, 6, "Fenced", "taken over"), NOW)
    assert [type(effect.outcome) for effect in effects if isinstance(effect, Answer)] == [Unknown]
